"""INLIER, ANOMALY, or REFER to a person, and why.

    ANOMALY  if mean probability >= anomaly threshold        paper, section 3.2 (ii)
    REFER    if the referral rule says so                    paper, section 3.4: the reject option

REFER wins over both: it is the verdict that is withheld.
"""

from enum import StrEnum

import numpy as np
from jaxtyping import Bool, Float, Shaped

from indubio.errors import ConfigError, DataError, ShapeError
from indubio.judging import Uncertainty
from indubio.texts import marked

ANOMALY_THRESHOLD = 0.5  # paper, section 3.2 (ii)


class Verdict(StrEnum):
    """What to do with an example."""

    INLIER = "INLIER"
    ANOMALY = "ANOMALY"
    REFER = "REFER"


class Reason(StrEnum):
    """Why a verdict is referred; of several reasons the first in this order is given."""

    BAD_INPUT = "bad_input"  # values are missing or unknown
    OUT_OF_RANGE = "out_of_range"  # a value lies further outside the training range than it may
    UNFAMILIAR = "unfamiliar"  # nothing like it was seen in training
    EPISTEMIC = "uncertain-epistemic"  # uncertain, mostly because the draws disagree on the verdict
    ALEATORIC = "uncertain-aleatoric"  # uncertain, mostly because every draw is torn: a score between good and bad


IN_SHORT = {  # in the words of whoever looks at the example
    Reason.BAD_INPUT: marked("its data are bad"),
    Reason.OUT_OF_RANGE: marked("far outside the training range"),
    Reason.UNFAMILIAR: marked("never seen"),
    Reason.EPISTEMIC: marked("more examples like this would settle it"),
    Reason.ALEATORIC: marked("it lies on the border"),
}

# Looked up by number: comparing and choosing among strings takes longer, for one example as for a million.
_VERDICTS = np.array([Verdict.INLIER.value, Verdict.ANOMALY.value, Verdict.REFER.value])
_REASONS = np.array(["", *(reason.value for reason in Reason)])


def predictions(
    probability: Float[np.ndarray, " examples"], threshold: float = ANOMALY_THRESHOLD
) -> Bool[np.ndarray, " examples"]:
    """True for an anomaly: the mean probability is at least the threshold."""
    if not 0 <= threshold <= 1:
        raise ConfigError(f"the anomaly threshold must be within [0, 1], got {threshold}.")
    return checked_values(probability, "probability") >= threshold


def judged(
    prediction: Bool[np.ndarray, " examples"],
    uncertain: Bool[np.ndarray, " examples"],
    uncertainty: Uncertainty,
    *,
    bad: Bool[np.ndarray, " examples"],
    outside: Bool[np.ndarray, " examples"],
    novel: Bool[np.ndarray, " examples"],
    unfamiliar: Bool[np.ndarray, " examples"],
) -> tuple[Shaped[np.ndarray, " examples"], Shaped[np.ndarray, " examples"]]:
    """A `Verdict` for every example, and a `Reason` for every one that is referred ("" for the others), as strings.

    Args:
        prediction: True for what would be called an anomaly.
        uncertain: which examples the referral rule refers.
        uncertainty: of every example; the larger of its two parts names the doubt.
        bad: which have bad input.
        outside: which have a value too far outside the training range.
        novel: which are referred for their novelty.
        unfamiliar: which are so novel that this explains their doubt.
    """
    reason = np.where(uncertainty.epistemic > uncertainty.aleatoric, 4, 5) * uncertain
    reason[novel | (uncertain & unfamiliar)] = 3
    reason[outside] = 2
    reason[bad] = 1
    verdict = np.where(reason != 0, 2, prediction.astype(np.intp))
    return np.asarray(_VERDICTS[verdict]), np.asarray(_REASONS[reason])


def checked_values(values: np.ndarray, name: str) -> Float[np.ndarray, " examples"]:
    """The values, of which none may be NaN: it compares false with every threshold, and would pass as certain."""
    if np.ndim(values) != 1:
        raise ShapeError(f"`{name}` must have one value per example, got the shape {np.shape(values)}.")
    missing = np.count_nonzero(np.isnan(values))
    if missing:
        raise DataError(f"`{name}` must not be NaN, but is for {missing} of {len(values)} examples.")
    return values
