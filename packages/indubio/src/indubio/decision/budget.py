"""Refer at most a share of the examples: what the reviewers have time for."""

from dataclasses import dataclass

import numpy as np

from indubio.decision.referral import Labelled, LimitedReviews, Uncertainties
from indubio.errors import DataError
from indubio.settings import Share


@dataclass(frozen=True, kw_only=True)
class Budget(LimitedReviews):
    """Refer at most this share of examples like those it was fitted on: what the reviewers have time for.

    Args:
        share: largest share to refer.

    Examples:
        A new example is above the second largest of four uncertainties in two of five cases; that of a probable inlier
        counts half.

        >>> import numpy as np
        >>> known = {"total": np.array([0.02, 0.20, 0.10, 0.07]), "probability": np.array([0.98, 0.27, 0.89, 0.92])}
        >>> Budget(share=0.4).fit(known), Budget(share=0.4, inlier_weight=0.2).fit(known)
        (0.1, 0.07)
    """

    share: Share = 0.05

    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:  # noqa: ARG002 - as every rule
        """The smallest observed value t such that a new example is above t with at most this probability.

        With k of n examples above t that is (k + 1) / (n + 1). Examples that tie are referred together or not at all,
        so ties never exceed the budget. With too few examples to tell, it is the largest value.
        """
        ascending = np.sort(self.doubt(reference))
        if ascending.size == 0:
            raise DataError("a referral budget needs at least one example to be fitted on, got none.")
        candidates = np.unique(ascending)
        above = ascending.size - np.searchsorted(ascending, candidates, side="right")
        within = (above + 1) / (ascending.size + 1) <= self.share
        return float(candidates[np.argmax(within) if within.any() else -1])
