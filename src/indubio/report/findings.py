"""What to know before believing a report: where the data is unlike the training data, or referral is idle."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool
from scipy.stats import ks_2samp

from indubio.data.windows import Windows
from indubio.decision import NoReferral
from indubio.evaluation import RejectionCurve
from indubio.report.subject import Subject
from indubio.report.words import count, percent

# Training examples are always within their own ranges and, where they are also what scores are compared with, score a
# little better than new ones, so the bounds leave room.
OUTSIDE = 0.05  # share of a feature's values outside its training range
TIMES_EXPECTED = 3  # ... and at least this many times what chance would give
TIMES_FLAGGED = 3  # flagged examples, relative to the reference examples
KS_DISTANCE, KS_LEVEL = 0.4, 1e-3  # distance of the distributions of probabilities, and how surely it is there
ENOUGH = 20  # examples; fewer say nothing of a distribution
LISTED = 6
REPAIRED = {
    "held": "repeating an older value",
    "interpolated": "interpolated",
    "bad": "of bad quality, not used",
    "missing": "missing",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One warning.

    Args:
        title: what it is, in a few words.
        text: what it means and what to do.
        details: single facts behind it.
    """

    title: str
    text: str
    details: tuple[str, ...] = ()


def findings(subject: Subject, curve: RejectionCurve | None) -> list[Finding]:
    """Everything to warn of.

    Args:
        subject: the detector and its examples.
        curve: the accuracy-rejection curve of the uncertainty that decides on referral; None without labels.
    """
    made = (_unlike_training(subject), _referral(subject, curve), _data_quality(subject), _left_out(subject))
    return [finding for finding in made if finding is not None]


def _unlike_training(subject: Subject) -> Finding | None:
    good = np.ones(len(subject), dtype=bool) if subject.labels is None else ~subject.labels
    if not good.any():
        return None
    details = [*_outside_ranges(subject, good), *_flagged_more(subject, good), *_other_scores(subject, good)]
    if not details:
        return None
    if subject.labels is None:
        text = (
            "Either many of these examples are faulty, or the process, the sensors or the product have changed since "
            "the training. If it is a change, train again before you rely on the verdicts."
        )
    else:
        text = (
            "This holds for the examples that the labels call normal. Either the process, the sensors or the product "
            "have changed since the training, or there were too few training examples to know what is normal. Train "
            "again with more and newer good examples before you rely on the verdicts."
        )
    return Finding(title="The data looks unlike the training data", text=text, details=tuple(details))


def _outside_ranges(subject: Subject, good: Bool[np.ndarray, " examples"]) -> list[str]:
    low, high = subject.training_ranges()
    values = subject.raw()[good].reshape(-1, len(low))
    share = ((values < low) | (values > high)).mean(axis=0)
    by_chance = 2 / (subject.detector.n_training_ + 1)  # of one more value that is like the others
    worst = np.argsort(-share, kind="stable")
    worst = worst[share[worst] > max(OUTSIDE, TIMES_EXPECTED * by_chance)]
    if not len(worst):
        return []
    listed = ", ".join(f"{subject.names[place]} {percent(share[place])}" for place in worst[:LISTED])
    more = f" and {len(worst) - LISTED} more" if len(worst) > LISTED else ""
    return [f"Values outside the training range: {listed}{more}."]


def _flagged_more(subject: Subject, good: Bool[np.ndarray, " examples"]) -> list[str]:
    threshold = subject.detector.decision_threshold
    expected = float(np.mean(subject.detector.reference_uncertainty_.probability >= threshold))
    share, total = float(np.mean(subject.found.prediction[good])), int(good.sum())
    error = np.sqrt(max(expected * (1 - expected), 1 / total) / total)
    if share <= max(TIMES_FLAGGED * expected, expected + 3 * error):
        return []
    of = "of the examples that the detector was calibrated on"
    return [f"{percent(share)} are called anomalies (before referral), against {percent(expected)} {of}."]


def _other_scores(subject: Subject, good: Bool[np.ndarray, " examples"]) -> list[str]:
    training, new = subject.detector.reference_uncertainty_.probability, subject.found.probability[good]
    if min(len(training), len(new)) < ENOUGH:
        return []
    test = ks_2samp(training, new, method="asymp")
    if test.statistic <= KS_DISTANCE or test.pvalue >= KS_LEVEL:
        return []
    return [
        "The anomaly probabilities are distributed differently from those of the examples it was calibrated on "
        f"(Kolmogorov-Smirnov distance {test.statistic:.2f}, where 0 is alike and 1 is apart)."
    ]


def _referral(subject: Subject, curve: RejectionCurve | None) -> Finding | None:
    if curve is None or not curve.gain <= 0 or isinstance(subject.referral, NoReferral):
        return None
    return Finding(
        title="Referral does not help here",
        text=(
            f"Rejecting by {subject.referral.by} uncertainty leaves predictions that are no better than all of them "
            f"(Gain {100 * curve.gain:+.1f}). The reviewers' time does not buy accuracy on this data. Compare the "
            "other uncertainties below, or refer nothing."
        ),
    )


def _data_quality(subject: Subject) -> Finding | None:
    notes = Counter(str(note) for note in subject.found.notes if note)
    if not notes:
        return None
    more = len(notes) - LISTED
    return Finding(
        title="Some data was incomplete or new",
        text=f"{count(notes.total(), 'example has', 'examples have')} a note on the data.",
        details=(
            *(f"{note} ({count(times, 'example')})" for note, times in notes.most_common(LISTED)),
            *([f"{count(more, 'other note')}"] if more > 0 else []),
        ),
    )


def _left_out(subject: Subject) -> Finding | None:
    if not isinstance(subject.given, Windows):
        return None
    report = subject.given.report
    details = [
        f"{sensor}: {count(number, 'sample')} {words}"
        for kind, words in REPAIRED.items()
        for sensor, number in getattr(report, kind).items()
        if number
    ]
    if report.short:
        details.append(f"{count(len(report.short), 'group')} of {count(report.groups)} too short for a window")
    if not details:
        return None
    return Finding(
        title="Parts of the recording were left out or repaired",
        text="On the way from the recording to the windows:",
        details=tuple(details),
    )
