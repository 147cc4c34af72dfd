"""Nothing is referred for its uncertainty."""

from dataclasses import dataclass

from indubio.decision.referral import Labelled, Referral, Uncertainties


@dataclass(frozen=True, kw_only=True)
class NoReferral(Referral):
    """Nothing is referred; `by` only says which uncertainty to show beside the verdict.

    Examples:
        >>> import numpy as np
        >>> NoReferral().fit({"total": np.array([0.1, 0.2])})
        inf
    """

    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:  # noqa: ARG002 - as every rule
        """No doubt is larger than infinity, so nothing is referred."""
        return float("inf")
