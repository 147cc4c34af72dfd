"""What to know before believing a report: what was odd about the training data or has changed, and idle referral."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from indubio.chain import UNFAMILIAR
from indubio.decision import NoReferral, Verdict
from indubio.drift import Drift
from indubio.evaluation import RejectionCurve
from indubio.report.subject import Subject
from indubio.report.words import count
from indubio.texts import _, gettext, marked, ngettext, told, written

LISTED = 6
MANY_UNFAMILIAR, FEWEST_UNFAMILIAR = 3, 3  # times as many as of good examples; and a number
REPAIRED = {
    "held": marked("{sensor}: {samples} repeating an older value"),
    "interpolated": marked("{sensor}: {samples} interpolated"),
    "bad": marked("{sensor}: {samples} of bad quality, not used"),
    "missing": marked("{sensor}: {samples} missing"),
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


def findings(subject: Subject, curve: RejectionCurve | None, known: Drift | None) -> list[Finding]:
    """Everything to warn of.

    Args:
        subject: the detector and its examples.
        curve: the accuracy-rejection curve of the uncertainty that decides on referral; None without labels.
        known: of drift; None where it could not be tested.
    """
    made = (
        _of_training_data(subject),
        _unlike_training(subject, known),
        _unfamiliar(subject),
        _referral(subject, curve),
        _data_quality(subject),
        _left_out(subject),
    )
    return [finding for finding in made if finding is not None]


def drift(subject: Subject) -> Drift | None:
    """Whether the examples, without known anomalies, are like the training data; None where it cannot be tested."""
    if subject.labels is not None and subject.labels.all():
        return None
    return subject.detector.monitored(subject.given, subject.found.p_value, known_anomalies=subject.labels).drift()


def drift_in_words(known: Drift | None) -> str:
    """One sentence, alarm or not."""
    if known is None:
        return _("Drift was not tested: every example is a known anomaly.")
    if known.alarm:
        return _("The data has changed since the training ({promise}); see below.", promise=known.promise)
    return _(
        "No drift was found in {examples} ({promise}).",
        examples=_normal(known.tested) if known.left_out else count(known.tested, "example"),
        promise=known.promise,
    )


def _of_training_data(subject: Subject) -> Finding | None:
    known = subject.detector.findings_
    if not known:
        return None
    return Finding(
        title=_("The training data was odd"),
        text=_("This was seen when the model was fitted. Where it is not meant to be so, change it and fit again."),
        details=tuple(f"{told(one.what)} {told(one.follows)}" for one in known),
    )


def _unlike_training(subject: Subject, known: Drift | None) -> Finding | None:
    if known is None or not known.alarm:
        return None
    if subject.labels is None:
        text = _(
            "Either many of these examples are faulty, or the process, the sensors or the product have changed since "
            "the training. If it is a change, train again before you rely on the verdicts."
        )
    else:
        text = _(
            "This holds for the examples that the labels call normal: the process, the sensors or the product have "
            "changed since the training. Train again with newer good examples before you rely on the verdicts."
        )
    more = len(known.changed) - LISTED
    return Finding(
        title=_("The data has drifted away from the training data"),
        text=f"{text} {known.promise}.",
        details=(
            *(_("{sensor}, noticed at example {since}", sensor=one, since=one.since) for one in known.changed[:LISTED]),
            *([_("and {more} more", more=more)] if more > 0 else []),
        ),
    )


def _unfamiliar(subject: Subject) -> Finding | None:
    normal = np.ones(len(subject), dtype=bool) if subject.labels is None else ~subject.labels
    number, of = int(np.count_nonzero(subject.unfamiliar & normal)), int(np.count_nonzero(normal))
    if number < FEWEST_UNFAMILIAR or number * subject.one_unfamiliar_in <= MANY_UNFAMILIAR * of:
        return None
    whose = count(of, "example") if subject.labels is None else _normal(of)
    return Finding(
        title=_("Many examples are unlike anything in the training data"),
        text=_(
            "{number} of {whose} are unlike anything in the training data (novelty above "
            "{limit}); of examples like those in training it would be about one in {usual}. The detector "
            "has learned nothing about such examples, and its uncertainties do not show that: far from the data all "
            "draws agree. If they are good, train again with examples of this kind; or have such ones referred by a "
            "limit of their novelty.",
            number=count(number),
            whose=whose,
            limit=f"{UNFAMILIAR:g}",
            usual=subject.one_unfamiliar_in,
        ),
    )


def _normal(examples: int) -> str:
    return count(examples, "example that the labels call normal", "examples that the labels call normal")


def _referral(subject: Subject, curve: RejectionCurve | None) -> Finding | None:
    if curve is None or not curve.gain <= 0 or isinstance(subject.referral, NoReferral):
        return None
    referred = np.mean(subject.found.verdict == Verdict.REFER)
    if curve.at(np.array([referred]))[0] > curve.base:  # few are, and it need not help to reject nearly all
        return None
    return Finding(
        title=_("Referral does not help here"),
        text=_(
            "Rejecting by {by} uncertainty leaves predictions that are no better than all of them "
            "(Gain {gain}). The reviewers' time does not buy accuracy on this data. Compare the "
            "other uncertainties below, or refer nothing.",
            by=gettext(subject.referral.by),
            gain=written(f"{100 * curve.gain:+.1f}"),
        ),
    )


def _data_quality(subject: Subject) -> Finding | None:
    notes = Counter(str(note) for note in subject.found.notes if note)
    if not notes:
        return None
    more = len(notes) - LISTED
    return Finding(
        title=_("Some data was incomplete or new"),
        text=ngettext(
            "{number} example has a note on the data.", "{number} examples have a note on the data.", notes.total()
        ).format(number=count(notes.total())),
        details=(
            *(f"{told(note)} ({count(times, 'example')})" for note, times in notes.most_common(LISTED)),
            *([count(more, "other note")] if more > 0 else []),
        ),
    )


def _left_out(subject: Subject) -> Finding | None:
    report = subject.given.report
    if report is None:
        return None
    details = [
        _(words, sensor=sensor, samples=count(number, "sample"))
        for kind, words in REPAIRED.items()
        for sensor, number in getattr(report, kind).items()
        if number
    ]
    if report.short:
        short = count(len(report.short), "group")
        details.append(_("{short} of {groups} too short for a window", short=short, groups=count(report.groups)))
    if not details:
        return None
    return Finding(
        title=_("Parts of the recording were left out or repaired"),
        text=_("On the way from the recording to the windows:"),
        details=tuple(details),
    )
