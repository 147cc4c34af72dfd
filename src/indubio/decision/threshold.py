"""Refer what is more uncertain than a number that is known beforehand."""

from dataclasses import dataclass

from indubio.decision.referral import Labelled, Referral, Uncertainties
from indubio.settings import NotNegative


@dataclass(frozen=True, kw_only=True)
class UncertaintyThreshold(Referral):
    """A threshold that is known beforehand.

    Args:
        threshold: refer what is above it, in the units of the uncertainty itself (the total ranges over [0, 1/4]).
    """

    threshold: NotNegative

    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:  # noqa: ARG002 - as every rule
        """The threshold as it was given."""
        return float(self.threshold)
