"""The rows a network is trained on: one array in memory, or stretch after stretch of what is larger than memory.

An epoch goes through the rows in stretches. Within one, every network has an order of its own; an array is a single
stretch. So there is one loop, and rows that come in one stretch give the same weights as the same rows in memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float


class StreamedRows(ABC):
    """Rows that are read again in every epoch.

    Attributes:
        dtype: of the stretches.
    """

    dtype: np.dtype

    @abstractmethod
    def __len__(self) -> int:
        """How many rows an epoch has."""

    @abstractmethod
    def stretches(self, epoch: int, batch: int) -> Iterator[Float[np.ndarray, "n ..."]]:
        """All rows of an epoch, each once.

        Args:
            epoch: which; every epoch mixes the rows in another way, and the same one always in the same way.
            batch: rows per step; all stretches but the last are whole batches.
        """

    @abstractmethod
    def held_out(self, share: float) -> tuple["StreamedRows", Float[np.ndarray, "n2 ..."]]:
        """The rows without some of them, chosen at random, and these; so few that memory holds them."""


TrainingRows = np.ndarray | StreamedRows


def stretches(rows: TrainingRows, epoch: int, batch: int) -> Iterator[Float[np.ndarray, "n ..."]]:
    """The rows of an epoch; an array is one stretch."""
    if isinstance(rows, np.ndarray):
        yield rows
    else:
        yield from rows.stretches(epoch, batch)


def whole_blocks(rows: TrainingRows, size: int) -> Iterator[Float[np.ndarray, "n values"]]:
    """All rows once, flattened, in pieces that are whole blocks of so many rows but for the last, however they come."""
    waiting: np.ndarray | None = None
    for stretch in stretches(rows, 0, size):
        flat = stretch.reshape(len(stretch), -1)
        waiting = flat if waiting is None or not len(waiting) else np.concatenate([waiting, flat])
        whole = len(waiting) // size * size
        if whole:
            yield waiting[:whole]
            waiting = waiting[whole:]
    if waiting is not None and len(waiting):
        yield waiting
