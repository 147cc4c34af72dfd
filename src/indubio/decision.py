"""Stage 6, the verdict: INLIER, ANOMALY, or REFER to a person.

    ANOMALY  if mean probability >= anomaly threshold        paper, section 3.2 (ii)
    REFER    if uncertainty > referral threshold             paper, section 3.4: the reject option

REFER wins over both: it is the verdict that is withheld. A referral rule only says how the threshold is found; a new
rule is one class here and one line in `REFERRALS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Bool, Float, Shaped

from indubio.errors import ConfigError, DataError, ShapeError
from indubio.settings import NotNegative, Settings, Share
from indubio.uncertainty import Uncertainty, UncertaintyName

Uncertainties = Mapping[str, Float[np.ndarray, " examples"]] | Uncertainty

ANOMALY_THRESHOLD = 0.5  # paper, section 3.2 (ii)


class Verdict(StrEnum):
    """What to do with an example."""

    INLIER = "INLIER"
    ANOMALY = "ANOMALY"
    REFER = "REFER"


class Reason(StrEnum):
    """Why a verdict is referred."""

    UNCERTAIN = "uncertain"
    BAD_INPUT = "bad_input"


@dataclass(frozen=True, kw_only=True)
class Referral(Settings, ABC):
    """How the threshold above which a verdict is referred is found.

    Args:
        by: the uncertainty that decides.
    """

    by: UncertaintyName = "total"

    @abstractmethod
    def fit(self, uncertainties: Uncertainties) -> float:
        """The threshold: what is more uncertain than this is referred.

        Args:
            uncertainties: of the examples to fit the rule on, by name.
        """


@dataclass(frozen=True, kw_only=True)
class NoReferral(Referral):
    """Nothing is referred; `by` only says which uncertainty to show beside the verdict."""

    def fit(self, uncertainties: Uncertainties) -> float:  # noqa: ARG002 - every rule is called alike
        """Infinity."""
        return float("inf")


@dataclass(frozen=True, kw_only=True)
class UncertaintyThreshold(Referral):
    """A threshold that is known beforehand.

    Args:
        threshold: refer what is above it, in the units of the uncertainty itself (the total ranges over [0, 1/4]).
    """

    threshold: NotNegative

    def fit(self, uncertainties: Uncertainties) -> float:  # noqa: ARG002 - every rule is called alike
        """The threshold as it was given."""
        return float(self.threshold)


@dataclass(frozen=True, kw_only=True)
class Budget(Referral):
    """Refer at most this share of examples like those it was fitted on: what the reviewers have time for.

    Args:
        share: largest share to refer.
    """

    share: Share = 0.05

    def fit(self, uncertainties: Uncertainties) -> float:
        """The smallest observed value t such that the share of examples above t is within the budget.

        Examples that tie are referred together or not at all, so ties never exceed the budget.
        """
        ascending = np.sort(uncertainty_values(uncertainties, self.by))
        if ascending.size == 0:
            raise DataError("a referral budget needs at least one example to be fitted on, got none.")
        candidates = np.unique(ascending)
        above = ascending.size - np.searchsorted(ascending, candidates, side="right")
        return float(candidates[np.argmax(above / ascending.size <= self.share)])


REFERRALS: dict[str, type[Referral]] = {
    "none": NoReferral,
    "threshold": UncertaintyThreshold,
    "budget": Budget,
}


def uncertainty_values(uncertainties: Uncertainties, by: UncertaintyName) -> Float[np.ndarray, " examples"]:
    """The values of one uncertainty, looked up by name."""
    if isinstance(uncertainties, Uncertainty):
        values = getattr(uncertainties, by)
    elif by in uncertainties:
        values = uncertainties[by]
    else:
        raise ConfigError(f"`by` must name one of the uncertainties {sorted(uncertainties)}, got {by!r}.")
    return _values(values, by)


def predictions(
    probability: Float[np.ndarray, " examples"], threshold: float = ANOMALY_THRESHOLD
) -> Bool[np.ndarray, " examples"]:
    """True for an anomaly: the mean probability is at least the threshold."""
    if not 0 <= threshold <= 1:
        raise ConfigError(f"the anomaly threshold must be within [0, 1], got {threshold}.")
    return _values(probability, "probability") >= threshold


def verdicts(
    probability: Float[np.ndarray, " examples"],
    uncertainty: Float[np.ndarray, " examples"],
    *,
    anomaly_threshold: float = ANOMALY_THRESHOLD,
    referral_threshold: float,
) -> Shaped[np.ndarray, " examples"]:
    """A `Verdict` for every example, as an array of strings.

    Args:
        probability: mean anomaly probability.
        uncertainty: values of the uncertainty that the referral rule goes by.
        anomaly_threshold: an anomaly has at least this probability.
        referral_threshold: what a referral rule's `fit` returned; what is above it is referred.
    """
    if np.shape(probability) != np.shape(uncertainty):
        raise ShapeError(
            "`probability` and `uncertainty` must be of the same examples, "
            f"got the shapes {np.shape(probability)} and {np.shape(uncertainty)}."
        )
    if np.isnan(referral_threshold):
        raise ConfigError("`referral_threshold` must be a number, got NaN.")
    anomalous = predictions(probability, anomaly_threshold)
    found = np.where(anomalous, Verdict.ANOMALY.value, Verdict.INLIER.value)
    found[_values(uncertainty, "uncertainty") > referral_threshold] = Verdict.REFER.value
    return found


def _values(values: np.ndarray, name: str) -> Float[np.ndarray, " examples"]:
    # NaN compares false with every threshold: it would pass as a certain inlier.
    if np.ndim(values) != 1:
        raise ShapeError(f"`{name}` must have one value per example, got the shape {np.shape(values)}.")
    missing = np.count_nonzero(np.isnan(values))
    if missing:
        raise DataError(f"`{name}` must not be NaN, but is for {missing} of {len(values)} examples.")
    return values
