"""The report: one HTML file that needs nothing else, for the screen, the phone and paper."""

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

import indubio
from indubio.chain import UNFAMILIAR, Assessment, ChainEstimator
from indubio.decision import Reason, Verdict
from indubio.report import words
from indubio.report.case_cards import cards, most_anomalous, most_uncertain
from indubio.report.confusion import plot_confusion
from indubio.report.distributions import plot_distribution, plot_right_and_wrong
from indubio.report.figures import POINTS, SMALL, WIDTH, Drawing
from indubio.report.findings import drift, drift_in_words, findings
from indubio.report.label_findings import Quality, quality
from indubio.report.model_facts import column_rows, model_in_short, model_rows
from indubio.report.rejection_plots import plot_rejection_curves
from indubio.report.run_rows import RUNS_LISTED, run_rows
from indubio.report.style import QUANTITIES
from indubio.report.subject import Subject
from indubio.report.templates import page_templates
from indubio.texts import Language, _, gettext, in_language

BOXES = ("total", "epistemic", "aleatoric")


def html_report(
    detector: ChainEstimator,
    X: Any,
    *,
    found: Assessment | None = None,
    labels: ArrayLike | None = None,
    title: str | None = None,
    made: date | str | None = None,
    remarks: Sequence[str] = (),
    language: Language = "en",
) -> str:
    """A report on some examples, as one self-contained HTML page. The same input gives the same text.

    Args:
        detector: a fitted detector, of any kind.
        X: what its `assess` takes.
        found: the assessment of these examples, where there is one already; None assesses them.
        labels: 1 or True for an anomaly; None takes those of a `Table` or of `Windows`, if they have some.
        title: of the page; None for "Anomaly report".
        made: date or time to print under the title; None prints none.
        remarks: sentences the reader must not miss, such as "The traces are generated."
        language: of texts and numbers, "en" or "de". Names of columns, settings and remarks stay as they are.
    """
    with in_language(language):
        return _page(Subject.of(detector, X, found, labels), title, made, remarks)


def _page(subject: Subject, title: str | None, made: date | str | None, remarks: Sequence[str]) -> str:
    known, moved = quality(subject), drift(subject)
    drawing = Drawing()
    anomalous, uncertain = most_anomalous(subject), most_uncertain(subject)
    rows, unlisted = column_rows(subject)
    page = page_templates("indubio.report").get_template("report.html")
    return page.render(
        title=_("Anomaly report") if title is None else title,
        made=words.moment(made) if isinstance(made, date) else made or "",
        version=indubio.__version__,
        remarks=list(remarks),
        findings=findings(subject, None if known is None else known.curves[subject.referral.by], moved),
        drift=drift_in_words(moved),
        subject=subject,
        in_short=model_in_short(subject),
        verdicts=[(verdict.value, subject.verdict_count(verdict)) for verdict in Verdict],
        reasons=[
            (words.REASONS[reason], number)
            for reason in Reason
            if (number := np.count_nonzero(subject.found.reason == reason))
        ],
        quality=known,
        distributions=_distributions(subject, drawing),
        curve=None if known is None else _curve(known, drawing),
        boxes=[] if known is None else _boxes(subject, drawing),
        confusions=[] if known is None else _confusions(subject, drawing),
        runs=run_rows(subject),
        anomalous=cards(subject, anomalous, drawing),
        uncertain=cards(subject, uncertain, drawing),
        model_rows=model_rows(subject),
        columns=rows,
        unlisted=unlisted,
        runs_listed=RUNS_LISTED,
    )


def _distributions(subject: Subject, drawing: Drawing) -> list[Markup]:
    thresholds = {
        "probability": (subject.detector.decision_threshold, _("anomaly from here")),
        "novelty": (UNFAMILIAR, _("unfamiliar above")),
    }
    rule = subject.referral
    if rule.inlier_share is not None and not rule.OVER_BATCH:
        words = _("referred above") if rule.inlier_share == 1 else _("alarms referred above")
        thresholds[rule.by] = (subject.detector.referral_threshold_, words)
    made = []
    for name, quantity in QUANTITIES.items():
        if getattr(subject.found, name) is None:
            continue
        threshold, threshold_name = thresholds.get(name, (None, ""))
        draw = partial(
            plot_distribution,
            values=getattr(subject.found, name),
            of=name,
            labels=subject.labels,
            threshold=threshold,
            threshold_name=threshold_name,
        )
        made.append(drawing.one(_("Histogram of the {name}", name=gettext(quantity.name)), draw, SMALL))
    return made


def _curve(known: Quality, drawing: Drawing) -> Markup | None:
    """The accuracy-rejection curves; None where too few anomalies or normal examples are known for any."""
    defined = {name: curve for name, curve in known.curves.items() if not np.isnan(curve.gain)}
    if not defined:
        return None

    def draw(axes: Axes) -> None:
        plot_rejection_curves(axes, defined, most=POINTS)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)  # never on top of a curve

    return drawing.one(_("Accuracy-rejection curves"), draw, (WIDTH, 3.2))


def _boxes(subject: Subject, drawing: Drawing) -> list[Markup]:
    by = subject.referral.by
    shown = BOXES if by in BOXES else (by, *BOXES)
    return [
        drawing.one(
            _("{name} uncertainty of right and wrong predictions", name=gettext(name)),
            partial(plot_right_and_wrong, values=getattr(subject.found, name), wrong=subject.wrong, of=name),
            SMALL,
        )
        for name in shown
    ]


def _confusions(subject: Subject, drawing: Drawing) -> list[Markup]:
    assert subject.labels is not None
    draw = partial(plot_confusion, labels=subject.labels, predictions=subject.found.prediction)
    return [
        drawing.one(_("Confusion matrix before referral"), draw),
        drawing.one(_("Confusion matrix after referral"), partial(draw, referred=subject.referred)),
    ]
