"""What comes between a recording and its samples: pieces of rows go in, samples come out.

A sampler works on one group and gives a sample out as soon as no later row can change it, so that a stream needs
little memory. What depends on the next value of every sensor waits for it: with gaps="linear" and no `longest_gap`, a
sensor that falls silent keeps the rest of its group in memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped

from indubio.data.recordings.cutting import ROUNDING, Samples, Tally
from indubio.data.windows import Windowing, ticks_per_second


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive rows of one group of one file.

    Args:
        file: number of the file.
        group: id of the group; None where there is no group column.
        key: the same for all pieces of a group; None for a file without rows.
        time: nanoseconds (int64) or seconds (float64); None where there is no time column.
        time_type: Arrow type of the stamps; int64 for sample numbers.
        values: (T, K) from a wide recording, (T,) from a long one; NaN where missing or bad.
        sensor: of a long recording, number of the sensor each value is of; -1 for tags that are not asked for.
        bad: per sensor, how many values were bad.
        place: where the i-th row is, for error messages.
        name: of the file, for error messages.
        labelled: which rows are labelled as anomalies; None without labels.
        passed: columns to pass through; None where there are none.
    """

    file: int
    group: Any
    key: Hashable
    time: Shaped[np.ndarray, " rows"] | None
    time_type: pa.DataType
    values: Float[np.ndarray, "rows ..."]
    sensor: Int[np.ndarray, " rows"] | None
    bad: Int[np.ndarray, " sensors"]
    place: Callable[[int], str]
    name: str
    labelled: Bool[np.ndarray, " rows"] | None = None
    passed: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.values)

    def seconds(self, base: float) -> Float[np.ndarray, " rows"]:
        """Time since `base`, which is a stamp."""
        assert self.time is not None
        return (self.time - base).astype(np.float64) / ticks_per_second(self.time_type)


class RecordingSampler(ABC):
    """Turns the pieces of one group into samples."""

    def __init__(self, windowing: Windowing, sensors: Sequence[str], tally: Tally) -> None:
        self._windowing, self._sensors, self._tally = windowing, sensors, tally
        self._linear = windowing.gaps == "linear"
        self._oldest = windowing.oldest * ROUNDING

    @abstractmethod
    def add(self, piece: Piece) -> Iterator[Samples]:
        """The samples that are certain now."""

    @abstractmethod
    def finish(self) -> Iterator[Samples]:
        """The rest, at the end of the group."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What it has to remember from piece to piece: numbers, lists and arrays."""

    @abstractmethod
    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave, perhaps in another process."""
