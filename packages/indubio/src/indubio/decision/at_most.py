"""Refer at most a number of examples a day, or a batch: the most uncertain of them.

This is the one rule under which a verdict depends on what else was assessed: who may see only 20 parts a day must
choose the 20 among all of that day. So it decides over what one call of `assess` is given, and forgets it. A day that
comes in several calls has the number in each of them; where examples come one by one, take `Budget` with the share that
the number is of a usual day.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool

from indubio.decision.referral import Evidence, Labelled, LimitedReviews, Uncertainties
from indubio.errors import DataError
from indubio.message import Message
from indubio.settings import NotNegativeInt


@dataclass(frozen=True, kw_only=True)
class AtMost(LimitedReviews):
    """Refer at most so many examples, the most uncertain of each day or batch, alarms first.

    Args:
        count: largest number to refer.
        per: "batch" counts over the examples assessed in one call, "day" over each calendar day among them, by the
            table's time column.
        least: refer nothing that is not more uncertain than this, however quiet the day.

    Examples:
        >>> import numpy as np
        >>> from indubio.decision import Evidence
        >>> from indubio.judging import quantify
        >>> p = np.array([[0.1, 0.4, 0.7, 0.9]])
        >>> sure = quantify(p, p, largest_reference_nll=1.0, reference_examples=100)
        >>> found = Evidence(uncertainty=sure, prediction=p[0] >= 0.5, below=None, reference=100)
        >>> rule = AtMost(count=1)
        >>> rule.refers(found, rule.fit(sure))
        array([False, False,  True, False])
    """

    OVER_BATCH: ClassVar[bool] = True

    count: NotNegativeInt
    per: Literal["batch", "day"] = "batch"
    least: float = 0.0

    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:  # noqa: ARG002 - as every rule
        """Nothing is learned: `least` is the uncertainty up to which nothing is ever referred."""
        return float(self.least)

    def refers(self, found: Evidence, threshold: float) -> Bool[np.ndarray, " examples"]:
        """The most uncertain of each day; those that tie are referred together or not at all."""
        doubt = self.doubt(found)
        refer = np.zeros(len(found), dtype=bool)
        for members in self._batches(found):
            descending = np.sort(doubt[members])[::-1]
            bound = descending[self.count] if self.count < len(descending) else -np.inf
            refer[members] = doubt[members] > max(bound, threshold)
        return refer

    def _batches(self, found: Evidence) -> list[np.ndarray]:
        if self.per == "batch":
            return [np.arange(len(found))]
        if found.day is None:
            raise DataError(
                Message(
                    'counting by `per="day"` needs the day of each example: assess a table whose roles name a `time` '
                    'column with dates or times, or count by `per="batch"`.'
                )
            )
        return [np.flatnonzero(found.day == day) for day in np.unique(found.day)]
