"""What is measured of one detector on one set: is it right, does it know when it is not, and what does it cost.

Numbers that a detector cannot have (the uncertainty of one that has none) are NaN.
"""

import tempfile
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from indubio.chain import Assessment
from indubio.decision import Verdict
from indubio.detector import Detector
from indubio.evaluation import auroc, evaluate
from indubio.storage import save

NOMINAL = 0.05  # rate of false alarms that p-values promise
SURE = 0.05  # probability and total uncertainty below which an anomaly is certain and wrong
NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class Measures:
    """The numbers of a cell; shares are fractions.

    Args:
        auroc: of the score; for ours the mean score over the draws.
        aupr: average precision of the score.
        gss: sqrt(sensitivity x specificity) of the predictions, nothing rejected.
        gss_w: W of the accuracy-rejection curve of GSS, rejecting by total uncertainty.
        gss_base: GSS with nothing rejected, by the rules of the curve.
        gss_gain: W minus Base: what rejecting adds.
        false_alarms_p: share of the test inliers with a p-value of at most 0.05.
        false_alarms: share of the test inliers that are called anomalies.
        referred: share of the test rows whose verdict goes to a person.
        error: share of the predictions that are wrong.
        error_accepted: the same among those that are not referred.
        errors_referred: share of the wrong predictions that are referred.
        errors_in_5: share of the wrong predictions among the 5 % of the rows that the rule would refer first.
        errors_in_10: the same of 10 %.
        rate: of false alarms that the verdict is given for.
        certain_wrong: share of the anomalies with a probability and a total uncertainty below 0.05.
        log_loss: of the probability, mean over the two classes; clipped to the precision of a float.
        extreme: whether a probability is exactly 0 or 1 (1, else 0).
        fit_seconds: processor time of the fit.
        score_seconds: processor time of scoring the test rows.
        model_bytes: size of the model as saved; NaN for other packages' detectors.
    """

    auroc: float
    aupr: float
    gss: float = NAN
    gss_w: float = NAN
    gss_base: float = NAN
    gss_gain: float = NAN
    false_alarms_p: float = NAN
    false_alarms: float = NAN
    referred: float = NAN
    error: float = NAN
    error_accepted: float = NAN
    errors_referred: float = NAN
    errors_in_5: float = NAN
    errors_in_10: float = NAN
    rate: float = NAN
    certain_wrong: float = NAN
    log_loss: float = NAN
    extreme: float = NAN
    fit_seconds: float = NAN
    score_seconds: float = NAN
    model_bytes: float = NAN


MEASURES = tuple(field.name for field in fields(Measures))


def of_scores(anomalous: Bool[np.ndarray, " test"], scores: Float[np.ndarray, " test"]) -> dict[str, float]:
    """How well the scores rank."""
    from sklearn.metrics import average_precision_score

    finite = np.nan_to_num(scores, posinf=np.finfo(np.float64).max)  # scikit-learn refuses infinity
    return {"auroc": auroc(anomalous, scores), "aupr": float(average_precision_score(anomalous, finite))}


def of_assessment(
    anomalous: Bool[np.ndarray, " test"], found: Assessment, doubt: Float[np.ndarray, " test"], rate: float = NAN
) -> dict[str, float]:
    """How good verdicts, probabilities and uncertainties are.

    Args:
        anomalous: the truth.
        found: what is judged.
        doubt: what the referral rule goes by.
        rate: of false alarms that the verdict is given for.
    """
    judged = evaluate(anomalous, found.prediction, found.total)
    wrong, referred = found.prediction != anomalous, found.verdict == Verdict.REFER
    inlier, sure = ~anomalous, (found.probability < SURE) & (found.total < SURE)
    unknown = bool(np.isnan(found.p_value).all())
    return of_scores(anomalous, found.nll) | {
        "gss": judged.metrics["gss"],
        "gss_w": judged.gss.weighted_average,
        "gss_base": judged.gss.base,
        "gss_gain": judged.gss.gain,
        "false_alarms_p": NAN if unknown else _share(found.p_value <= NOMINAL, inlier),
        "false_alarms": _share(found.prediction, inlier),
        "referred": float(referred.mean()),
        "error": float(wrong.mean()),
        "error_accepted": _share(wrong, ~referred),
        "errors_referred": _share(referred, wrong),
        "errors_in_5": found_first(wrong, doubt, 0.05),
        "errors_in_10": found_first(wrong, doubt, 0.1),
        "rate": rate,
        "certain_wrong": _share(sure, anomalous),
        "log_loss": balanced_log_loss(anomalous, found.probability),
        "extreme": float(np.isin(found.probability, [0, 1]).any()),
    }


def found_first(wrong: Bool[np.ndarray, " test"], doubt: Float[np.ndarray, " test"], share: float) -> float:
    """Share of the errors among this share of the rows, the most doubtful; of rows that tie as many as are needed.

    Examples:
        >>> import numpy as np
        >>> wrong = np.array([True, False, True, False])
        >>> found_first(wrong, np.array([0.9, 0.5, 0.5, 0.1]), 0.5)  # the first, and one of two that tie
        0.75
    """
    if not wrong.any():
        return NAN
    wanted = round(share * len(doubt))
    bound = np.sort(doubt)[::-1][max(wanted - 1, 0)]
    above, tied = doubt > bound, doubt == bound
    of_ties = (wanted - np.count_nonzero(above)) / np.count_nonzero(tied)
    return float((wrong[above].sum() + of_ties * wrong[tied].sum()) / wrong.sum())


def balanced_log_loss(anomalous: Bool[np.ndarray, " test"], probability: Float[np.ndarray, " test"]) -> float:
    """Mean over the classes of the mean -log of the probability given to the truth; clipped as scikit-learn does it.

    Examples:
        >>> import numpy as np
        >>> round(balanced_log_loss(np.array([False, False, True]), np.array([0.5, 0.5, 0.5])), 4)  # log 2
        0.6931
    """
    smallest = float(np.finfo(np.float64).eps)
    of_truth = np.where(anomalous, probability, 1 - probability).clip(smallest, 1 - smallest)
    return float(np.mean([-np.log(of_truth[one]).mean() for one in (anomalous, ~anomalous) if one.any()]))


def model_bytes(detector: object) -> float:
    """Size of the model's files as saved; NaN for what this library does not save."""
    if not isinstance(detector, Detector):
        return NAN
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model"
        save(detector, place)
        return float(sum(path.stat().st_size for path in place.rglob("*") if path.is_file()))


def _share(of: Bool[np.ndarray, " test"], among: Bool[np.ndarray, " test"]) -> float:
    return float(of[among].mean()) if among.any() else NAN
