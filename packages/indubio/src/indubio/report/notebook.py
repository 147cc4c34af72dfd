"""What notebooks show of detectors and assessments: HTML that stands by itself, light and dark."""

from itertools import count
from typing import Any

from markupsafe import Markup, escape

from indubio.chain import Assessment, ChainEstimator, counts, filled_columns, rows_of, worst
from indubio.report.figures import Drawing
from indubio.report.plots.assessment_plots import probability
from indubio.report.words import number, percent
from indubio.settings import Settings

SHOWN = 10
_cells = count(1)  # the style of one output must not reach the others of the page

STYLE = Markup("""<style>
#{id} {{ --figure-blue: #3b8fd0; --figure-vermillion: #d55e00; max-width: 60rem; font-size: 0.9rem; line-height: 1.4; }}
#{id} .steps {{ display: flex; flex-wrap: wrap; gap: 0.4rem; margin: 0.5rem 0; }}
#{id} .step {{ border: 1px solid #8888; border-radius: 0.4rem; padding: 0.3rem 0.6rem; flex: 1 1 10rem; }}
#{id} .step b {{ display: block; }}
#{id} table {{ border-collapse: collapse; margin: 0.5rem 0; }}
#{id} td, #{id} th {{ border: 0; border-bottom: 1px solid #8884; padding: 0.15rem 0.6rem 0.15rem 0; text-align: left; }}
#{id} svg {{ display: block; width: 24rem; max-width: 100%; height: auto; }}
#{id} ul {{ margin: 0.3rem 0; padding-left: 1.2rem; }}
</style>""")


def detector_html(detector: ChainEstimator) -> str:
    """A fitted detector: the chain that a row goes through, what was learned, and what is odd about the data."""
    chain, settings = detector.fitted_chain, detector.settings_in_use()
    what = {1: "rows", 2: "windows", 3: "images"}[len(detector.input_shape_)]
    size = " x ".join(map(str, detector.input_shape_))
    rate, reference = chain.calibrated.false_alarms, chain.calibrated.reference
    steps = [
        ("Preparation", f"{size} values; missing values: {chain.preparation.missing}"),
        ("Scorer", f"{detector.conversion_.draws} draws of {_kind(getattr(settings, 'posterior', detector))}"),
        (
            "Calibrated",
            f"{_kind(detector.conversion_.conversion)} on {detector.n_reference_} examples"
            + (" that the draws have not seen" if reference.unseen else ""),
        ),
        ("Decider", f"anomaly from {detector.decision_threshold:g} on; referral by {_kind(chain.decider.rule)}"),
    ]
    learned = [
        ("False alarms", f"about {percent(rate)} of good examples"),
        (
            "Smallest p-value",
            "no p-values" if not reference.unseen else f"{1 / (reference.fewest + 1):.2g}",
        ),
        ("Refers above", number(detector.referral_threshold_)),
        ("Corrected by labels", "no" if detector.correction_ is None else "yes"),
    ]
    parts = [
        Markup("<b>{}</b>, fitted on {} {}").format(type(detector).__name__, f"{detector.n_training_:,}", what),
        Markup('<div class="steps">{}</div>').format(
            Markup("").join(Markup('<div class="step"><b>{}</b>{}</div>').format(*step) for step in steps)
        ),
        _table([], learned),
    ]
    if detector.findings_:
        told = Markup("").join(
            Markup("<li>{}</li>").format(f"{finding.what} {finding.follows}") for finding in detector.findings_
        )
        parts.append(Markup("Before you rely on it:<ul>{}</ul>").format(told))
    return _shown(parts)


def assessment_html(found: Assessment) -> str:
    """An assessment: how many have which verdict, the probabilities, and the most anomalous examples with why."""
    parts = [Markup("<div>{}</div>").format(counts(found))]
    if len(found):
        parts.append(Drawing().one("Distribution of the probability", lambda axes: probability(found, ax=axes)))
        rows = rows_of(found, worst(found, SHOWN))
        if rows:
            names = filled_columns(rows)
            told = f"The {len(rows)} most anomalous; doubt from 0 to 100:"
            parts += [
                Markup("<div>{}</div>").format(told),
                _table(names, [[row[name] for name in names] for row in rows]),
            ]
    return _shown(parts)


def _kind(settings: Settings | ChainEstimator | Any) -> str:
    return type(settings).__name__


def _table(head: list[str], rows: Any) -> Markup:
    first = Markup("<tr>{}</tr>").format(Markup("").join(Markup("<th>{}</th>").format(name) for name in head))
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row))
        for row in rows
    )
    return Markup("<table>{}{}</table>").format(first if head else "", body)


def _shown(parts: list[Markup]) -> str:
    key = f"indubio-{next(_cells)}"
    return str(Markup('{}<div id="{}">{}</div>').format(STYLE.format(id=escape(key)), key, Markup("\n").join(parts)))
