"""INLIER, ANOMALY, or REFER to a person, and why.

    ANOMALY  if mean probability >= anomaly threshold        paper, section 3.2 (ii)
    REFER    if the referral rule says so                    paper, section 3.4: the reject option

REFER wins over both: it is the verdict that is withheld.
"""

from enum import StrEnum

import numpy as np
from jaxtyping import Bool, Float, Shaped

from indubio.errors import ConfigError, DataError, ShapeError
from indubio.uncertainty import Uncertainty

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
    EPISTEMIC = "uncertain-epistemic"  # uncertain, mostly because the draws disagree: too little seen like this
    ALEATORIC = "uncertain-aleatoric"  # uncertain, mostly because the case itself is ambiguous


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


def verdicts(
    prediction: Bool[np.ndarray, " examples"], reason: Shaped[np.ndarray, " examples"]
) -> Shaped[np.ndarray, " examples"]:
    """A `Verdict` for every example, as an array of strings: REFER where there is a reason to.

    Example:
        >>> import numpy as np
        >>> verdicts(np.array([False, True, True]), np.array(["", "", "uncertain-epistemic"]))
        array(['INLIER', 'ANOMALY', 'REFER'], dtype='<U7')
    """
    return _VERDICTS[np.where(reason != "", 2, prediction.astype(np.intp))]


def reasons(
    uncertainty: Uncertainty,
    uncertain: Bool[np.ndarray, " examples"],
    bad: Bool[np.ndarray, " examples"] | None = None,
    outside: Bool[np.ndarray, " examples"] | None = None,
) -> Shaped[np.ndarray, " examples"]:
    """A `Reason` for every example that is referred, as an array of strings; "" for the others.

    Args:
        uncertainty: of every example; the larger of its two parts names the doubt.
        uncertain: which examples the referral rule refers.
        bad: which have bad input.
        outside: which have a value too far outside the training range.
    """
    place = np.where(uncertainty.epistemic > uncertainty.aleatoric, 3, 4) * uncertain
    for flagged, number in ((outside, 2), (bad, 1)):
        if flagged is not None:
            place[flagged] = number
    return np.asarray(_REASONS[place])


def checked_values(values: np.ndarray, name: str) -> Float[np.ndarray, " examples"]:
    """The values, of which none may be NaN: it compares false with every threshold, and would pass as certain."""
    if np.ndim(values) != 1:
        raise ShapeError(f"`{name}` must have one value per example, got the shape {np.shape(values)}.")
    missing = np.count_nonzero(np.isnan(values))
    if missing:
        raise DataError(f"`{name}` must not be NaN, but is for {missing} of {len(values)} examples.")
    return values
