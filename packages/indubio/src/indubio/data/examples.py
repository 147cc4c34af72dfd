"""Examples: what every kind of them can do, whether rows of a table, windows of a recording, images or plain numbers.

A new kind is a subclass in a file of its own: how some of it are selected, how several are joined, and how it becomes
numbers. What it does not know (labels, groups, times) stays None, so nobody has to ask which kind it is.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int, Shaped

from indubio.data.schema import Schema
from indubio.errors import DataError, ShapeError

if TYPE_CHECKING:
    from indubio.data.numeric_rows import Rows
    from indubio.data.windows import WindowReport

T = TypeVar("T")
E = TypeVar("E", bound="Examples")
Which = Bool[np.ndarray, " examples"] | Int[np.ndarray, " chosen"] | Sequence[int]


class Examples(ABC):
    """Some examples of one kind.

    Attributes:
        word: what several of them are called.
    """

    word: ClassVar[str] = "rows"

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def select(self, which: Which) -> Self:
        """Some of them: by a mask, or by their numbers, in the order of these."""

    @abstractmethod
    def _joined_with(self, others: Sequence[Self]) -> Self:
        """These and others of their kind, end to end."""

    @abstractmethod
    def training_schema(self) -> Schema:
        """Names, kinds and ranges of their columns, to train with; refused where some are not known to be good."""

    @abstractmethod
    def rows(self, schema: Schema) -> "Rows":
        """Their numbers, matched by name with the columns that a model was trained on."""

    @staticmethod
    def joined(parts: Sequence[E]) -> E:
        """Several parts as one, for example those of a stream."""
        if not parts:
            raise DataError("there are no examples to join.")
        first, *others = parts
        for other in others:
            if type(other) is not type(first):
                raise DataError(
                    f"examples of one kind are needed to join them, got {type(first).__name__} and "
                    f"{type(other).__name__}."
                )
        return first._joined_with(others)

    @property
    def labels(self) -> Bool[np.ndarray, " examples"] | None:
        """True for an anomaly; None without labels."""
        return None

    @property
    def unlabelled(self) -> Bool[np.ndarray, " examples"] | None:
        """Which have no label yet; None where all have one."""
        return None

    @property
    def groups(self) -> Shaped[np.ndarray, " examples"] | None:
        """The name of each one's group, within which it is judged; None where nothing names them."""
        return None

    @property
    def days(self) -> Shaped[np.ndarray, " examples"] | None:
        """The calendar day of each; None where it is not known."""
        return None

    @property
    def machines(self) -> Shaped[np.ndarray, " examples"] | None:
        """The machine of each, where several were recorded at the same time; else None."""
        return None

    @property
    def runs(self) -> Shaped[np.ndarray, " examples"] | None:
        """The file or recording that each is from, where these follow each other; None where nothing tells."""
        return None

    @property
    def window_shape(self) -> tuple[int, ...] | None:
        """Shape of a window, (L, K); None where these are no windows."""
        return None

    @property
    def rate(self) -> float | None:
        """Samples per second; None where there is none or it is not known."""
        return None

    @property
    def report(self) -> "WindowReport | None":
        """What was left out or repaired on the way to windows; None where none were cut."""
        return None

    @property
    def missing(self) -> Counter[str]:
        """How many values are missing, of each column that lacks any, where they are counted."""
        return Counter()

    @property
    def beside(self) -> pa.Table | None:
        """What goes beside the verdicts: ids and times, or where each came from; None for nothing."""
        return None

    @property
    def columns(self) -> pa.Table | None:
        """The values as a table, where an example is a row of one."""
        return None

    def inliers(self) -> Self:
        """Those that are not labelled as anomalies; those without a label are not known to be good."""
        labels = self.labels
        if labels is None:
            return self
        return self.select(~labels if self.unlabelled is None else ~(labels | self.unlabelled))

    def without_labels(self) -> Self:
        """These examples, nothing being known of which are good."""
        return self

    def bare(self) -> Self:
        """Their values, without what tells examples apart or which are good, so that others can be joined."""
        return self

    def group_names(self, given: Any = None) -> Shaped[np.ndarray, " examples"] | None:
        """The name of each one's group as text: those given, else its own; None without any."""
        if given is None:
            return self.groups
        names = np.array([str(name) for name in given], dtype=object)
        if names.shape != (len(self),):
            raise ShapeError(
                "`groups` must have one name per example ({examples}), got {count}.",
                examples=len(self),
                count=len(names),
            )
        return names

    def _require_good(self, what: str, way_out: str) -> None:
        """Refuse to train on anomalies, or on what nobody has labelled yet."""
        if self.labels is not None and self.labels.any():
            raise DataError(
                f"the training data has {np.count_nonzero(self.labels)} {what} labelled as anomalies, "
                f"and a detector learns from good examples only: pass {way_out}."
            )
        if self.unlabelled is not None and self.unlabelled.any():
            raise DataError(
                f"the training data has {np.count_nonzero(self.unlabelled)} {what} without a label, which are not "
                f"known to be good: pass {way_out}."
            )

    def _numbers(self, which: Which) -> Int[np.ndarray, " chosen"]:
        """The numbers of some of them, counted from 0."""
        chosen: Shaped[np.ndarray, " chosen"] = np.asarray(which)
        if chosen.dtype != bool:
            return np.arange(len(self))[chosen.astype(np.int64)]  # resolves negative ones and refuses wrong ones
        if chosen.shape != (len(self),):
            raise ShapeError(
                f"the mask must have one value for each of the {len(self)} {self.word}, got {chosen.shape}."
            )
        return np.flatnonzero(chosen)


def all_or_none(parts: Sequence[T | None], put_together: Callable[[Sequence[T]], T]) -> T | None:
    """The parts as one, or None where some have none: what is not known of all is not known."""
    known = [part for part in parts if part is not None]
    return put_together(known) if len(known) == len(parts) else None
