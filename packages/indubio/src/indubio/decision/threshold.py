"""Refer what is more uncertain than a number that is known beforehand."""

from dataclasses import dataclass

from indubio.decision.referral import Labelled, Referral, Uncertainties
from indubio.errors import ConfigError
from indubio.settings import Finite

REFER_ALL = -1.0  # no uncertainty is negative, so all of them are above it


@dataclass(frozen=True, kw_only=True)
class UncertaintyThreshold(Referral):
    """A threshold that is known beforehand.

    Args:
        threshold: refer what is above it, in the units of the uncertainty itself (the total ranges over [0, 1/4]).
            -1 (`REFER_ALL`) refers everything: no uncertainty is negative.

    Examples:
        The total uncertainty p (1 - p) is largest at p = 1/2.

        >>> import numpy as np
        >>> from indubio.decision import Evidence
        >>> from indubio.judging import quantify
        >>> p = np.array([[0.1, 0.4, 0.6, 0.9]])
        >>> sure = quantify(p, p, largest_reference_nll=1.0, reference_examples=100)
        >>> found = Evidence(uncertainty=sure, prediction=p[0] >= 0.5, below=None, reference=100)
        >>> found.uncertainty.total.round(2)
        array([0.09, 0.24, 0.24, 0.09])
        >>> UncertaintyThreshold(threshold=0.2).refers(found, 0.2)
        array([False,  True,  True, False])
    """

    threshold: Finite

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threshold < 0 and self.threshold != REFER_ALL:
            raise ConfigError(
                "`threshold` must be at least 0, or {refer_all:g} to refer everything, got {threshold}.",
                refer_all=REFER_ALL,
                threshold=self.threshold,
            )

    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:  # noqa: ARG002 - as every rule
        """The number that was given; nothing is learned from the reference examples."""
        return float(self.threshold)
