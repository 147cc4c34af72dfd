"""Single examples of a report: the most anomalous and the most uncertain, and what made their scores."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from markupsafe import Markup

from indubio.detector import Detector
from indubio.explain import Contributions, contributions
from indubio.report.contributions import plot_contributions
from indubio.report.figures import ROW, WIDTH, Drawing
from indubio.report.subject import Subject
from indubio.report.words import doubt_in_words, number, percent, verdict_in_words

SHOWN = 6  # examples of each kind
BARS = 6  # features or sensors per example
SENSORS = 3  # signals per window


@dataclass(frozen=True, kw_only=True)
class Value:
    """One feature of an example.

    Args:
        name: of the feature.
        value: as it came in.
        expected: mean of the draws' reconstructions; "-" for a detector that has none.
        usual: range of the training data.
        outside: whether the value is out of that range.
    """

    name: str
    value: str
    expected: str
    usual: str
    outside: bool


@dataclass(frozen=True, kw_only=True)
class Card:
    """One example of a report, ready to print.

    Args:
        example: its place in the data, counted from 0.
        ids: columns that are passed through.
        verdict: INLIER, ANOMALY or REFER.
        decision: the verdict in words.
        probability: in percent.
        doubt: the uncertainty in words.
        numbers: names and values of score and uncertainties.
        label: what the label says; "" without labels.
        notes: on the data.
        values: of the features that contribute most; empty for windows.
        figures: contributions; for windows also the signals.
    """

    example: int
    ids: dict[str, str]
    verdict: str
    decision: str
    probability: str
    doubt: str
    numbers: dict[str, str]
    label: str
    notes: str
    values: tuple[Value, ...]
    figures: tuple[Markup, ...]


CALLED = {"nll": "score", "p_value": "p-value"}


def most_anomalous(subject: Subject) -> Int[np.ndarray, " chosen"]:
    """The examples with the highest scores, the highest first; scores rank where probabilities are all 1."""
    return np.argsort(-subject.found.nll, kind="stable")[:SHOWN]


def most_uncertain(subject: Subject) -> Int[np.ndarray, " chosen"]:
    """The examples whose verdict is most uncertain, by the uncertainty that decides on referral; none that is sure."""
    order = np.argsort(-subject.uncertainty, kind="stable")
    return order[subject.uncertainty[order] > 0][:SHOWN]


def cards(subject: Subject, places: Int[np.ndarray, " chosen"], drawing: Drawing) -> list[Card]:
    """The examples at these places, in this order."""
    if not len(places):
        return []
    if not isinstance(subject.detector, Detector):
        rows = subject.raw(places)
        return [
            _card(subject, place, () if subject.windows else _furthest(subject, row), ())
            for place, row in zip(places.tolist(), rows, strict=True)
        ]
    found = contributions(subject.detector, subject.chosen(places))
    raw, reconstruction = subject.raw(places), subject.reconstruction(places)
    made = []
    for index, place in enumerate(places.tolist()):
        if subject.windows:
            figures = _window_figures(subject, found, index, raw[index], reconstruction[:, index], drawing)
            values: tuple[Value, ...] = ()
        else:
            figures = (_bars(found, index, "feature", drawing),)
            places_of = _largest(found, index, BARS)
            values = _values(subject, places_of, raw[index], reconstruction[:, index].mean(axis=0))
        made.append(_card(subject, place, values, figures))
    return made


def _card(subject: Subject, place: int, values: tuple[Value, ...], figures: tuple[Markup, ...]) -> Card:
    found = subject.found
    known = () if np.isnan(found.p_value[place]) else ("p_value",)
    shown = ("nll", *known, "total", "epistemic", "aleatoric")
    label = "" if subject.labels is None else "anomaly" if subject.labels[place] else "normal"
    return Card(
        example=place,
        ids=subject.ids(place),
        verdict=str(found.verdict[place]),
        decision=verdict_in_words(found, place),
        probability=percent(float(found.probability[place])),
        doubt=doubt_in_words(found, place),
        numbers={CALLED.get(name, name): number(float(getattr(found, name)[place])) for name in shown},
        label=label,
        notes=str(found.notes[place]),
        values=values,
        figures=figures,
    )


def _largest(found: Contributions, index: int, most: int) -> list[int]:
    return [int(place) for place in np.argsort(-found.features.value[index], kind="stable")[:most]]


def _bars(found: Contributions, index: int, kind: str, drawing: Drawing) -> Markup:
    bars = min(BARS, len(found.names))
    return drawing.one(
        f"Part of each {kind} in the score",
        lambda axes: plot_contributions(axes, found, index, most=BARS),
        (WIDTH, 0.75 + ROW * max(bars, 3)),
    )


def _furthest(subject: Subject, raw: Float[np.ndarray, " features"]) -> tuple[Value, ...]:
    """Features furthest from the middle of their training range: all that is known of a detector without parts."""
    low, high = subject.training_ranges()
    with np.errstate(invalid="ignore", divide="ignore"):  # a constant feature is at the middle, or infinitely far away
        distance = np.nan_to_num(np.abs(raw - (low + high) / 2) / (high - low), posinf=np.inf)
    return _values(subject, np.argsort(-distance, kind="stable")[:BARS].tolist(), raw)


def _values(
    subject: Subject,
    places: list[int],
    raw: Float[np.ndarray, " features"],
    expected: Float[np.ndarray, " features"] | None = None,
) -> tuple[Value, ...]:
    low, high = subject.training_ranges()
    return tuple(
        Value(
            name=subject.names[place],
            value=number(raw[place]),
            expected="-" if expected is None else number(expected[place]),
            usual="-" if np.isnan(low[place]) else f"{number(low[place])} to {number(high[place])}",
            outside=bool((raw[place] < low[place]) | (raw[place] > high[place])),
        )
        for place in places
    )


def _window_figures(
    subject: Subject,
    found: Contributions,
    index: int,
    signal: Float[np.ndarray, "steps sensors"],
    reconstruction: Float[np.ndarray, "draws steps sensors"],
    drawing: Drawing,
) -> tuple[Markup, ...]:
    signals = drawing.signals(
        "Signals, their reconstructions, and the score over time",
        signal=signal,
        reconstruction=reconstruction,
        found=found,
        example=index,
        sensors=_largest(found, index, SENSORS),
        rate=subject.rate,
    )
    return (signals,) if len(found.names) == 1 else (signals, _bars(found, index, "sensor", drawing))
