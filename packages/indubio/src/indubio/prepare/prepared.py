"""What becomes of examples on their way to the model: their values, what is wrong with them, and what came beside."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from indubio.data import Examples

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, eq=False)
class Beside:
    """What came with examples beside their values; None where there is none.

    Args:
        groups: the machine, product or other group of each, as text.
        days: the calendar day of each.
        passed: columns that belong beside the verdicts: ids and times, or where a window came from.
    """

    groups: Shaped[np.ndarray, " examples"] | None = None
    days: Shaped[np.ndarray, " examples"] | None = None
    passed: "pa.Table | None" = None

    @classmethod
    def of(cls, examples: Examples, groups: Any = None) -> "Beside":
        """What came with these examples; groups that are given take the place of theirs."""
        return cls(groups=examples.group_names(groups), days=examples.days, passed=examples.beside)


NOTHING = Beside()


@dataclass(frozen=True, kw_only=True, eq=False)
class Inspected:
    """What is wrong with examples as they came in.

    Args:
        notes: per example, what was wrong with its data, else "".
        bad: which examples must be referred for it.
        outside: which examples must be referred for a value too far outside the training range.
    """

    notes: Shaped[np.ndarray, " examples"]
    bad: Bool[np.ndarray, " examples"]
    outside: Bool[np.ndarray, " examples"]

    def block(self, examples: slice) -> "Inspected":
        """What is wrong with some of them."""
        return Inspected(notes=self.notes[examples], bad=self.bad[examples], outside=self.outside[examples])


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Examples as the model gets them.

    Args:
        values: without missing values; scaled, and then float32, unless the model takes them as they are.
        inspected: what is wrong with them.
        beside: what came with them.
    """

    values: Float[np.ndarray, "examples ..."]
    inspected: Inspected
    beside: Beside = NOTHING
