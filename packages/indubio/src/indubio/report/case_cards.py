"""Single examples of a report: the most anomalous and the most uncertain, and what made their scores."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from markupsafe import Markup

from indubio.chain import Contributions
from indubio.data import Column
from indubio.decision import Reason
from indubio.detector import Detector
from indubio.report.contributions import plot_contributions
from indubio.report.figures import ROW, WIDTH, Drawing
from indubio.report.subject import Subject
from indubio.report.words import count, doubt_in_words, novelty_in_words, number, of_hundred, percent, verdict_in_words
from indubio.texts import _, marked

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
        novelty: that nothing like it was seen; "" where it is familiar, and where `decision` says it.
        numbers: names and values of score and uncertainties.
        label: what the label says; "" without labels.
        notes: on the data.
        values: of the features that contribute most; empty for windows that are scored as they are, and for images.
        figures: contributions; for windows also the signals, for images the image with a heat map.
    """

    example: int
    ids: dict[str, str]
    verdict: str
    decision: str
    probability: str
    doubt: str
    novelty: str
    numbers: dict[str, str]
    label: str
    notes: str
    values: tuple[Value, ...]
    figures: tuple[Markup, ...]


DOUBTS = {"total": marked("doubt"), "epistemic": marked("epistemic"), "aleatoric": marked("aleatoric")}
CALLED = {"nll": marked("score"), "p_value": marked("p-value"), "novelty": marked("novelty")} | DOUBTS


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
        rows = subject.values(places)
        return [
            _card(subject, place, () if subject.signals or subject.images else _furthest(subject, row), ())
            for place, row in zip(places.tolist(), rows, strict=True)
        ]
    found = subject.detector.contributions(subject.given.select(places))
    raw, scored, reconstruction = subject.raw(places), subject.values(places), subject.reconstruction(places)
    made = []
    for index, place in enumerate(places.tolist()):
        figures: tuple[Markup, ...] = ()
        values: tuple[Value, ...] = ()
        if subject.windows:
            expected = reconstruction[:, index] if subject.signals else None
            figures = _window_figures(subject, found.by_sensor, index, raw[index], expected, drawing)
        if subject.images:
            figures = _image_figures(found, index, raw[index], reconstruction[:, index], drawing)
        elif not subject.signals:
            figures = (*figures, _bars(found, index, _("What each feature adds to the score"), drawing))
            places_of = _largest(found, index, BARS)
            values = _values(subject, places_of, scored[index], reconstruction[:, index].mean(axis=0))
        made.append(_card(subject, place, values, figures))
    return made


def _card(subject: Subject, place: int, values: tuple[Value, ...], figures: tuple[Markup, ...]) -> Card:
    found = subject.found
    known = [name for name in ("novelty", "p_value") if not np.isnan(getattr(found, name)[place])]
    shown = ("nll", *known, "total", "epistemic", "aleatoric")
    told = found.reason[place] == Reason.UNFAMILIAR
    label = "" if subject.labels is None else marked("anomaly") if subject.labels[place] else marked("normal")
    return Card(
        example=place,
        ids=subject.ids(place),
        verdict=str(found.verdict[place]),
        decision=verdict_in_words(found, place),
        probability=percent(float(found.probability[place])),
        doubt=doubt_in_words(found, place),
        novelty="" if told else novelty_in_words(found, place),
        numbers={CALLED[name]: _number(name, float(getattr(found, name)[place])) for name in shown},
        label=label,
        notes=str(found.notes[place]),
        values=values,
        figures=figures,
    )


def _number(name: str, value: float) -> str:
    return of_hundred(value) if name in DOUBTS else number(value)


def _largest(found: Contributions, index: int, most: int) -> list[int]:
    return [int(place) for place in np.argsort(-found.features.value[index], kind="stable")[:most]]


def _bars(found: Contributions, index: int, label: str, drawing: Drawing) -> Markup:
    bars = min(BARS, len(found.names))
    return drawing.one(
        label,
        lambda axes: plot_contributions(axes, found, index, most=BARS),
        (WIDTH, 0.75 + ROW * max(bars, 3)),
    )


def _furthest(subject: Subject, raw: Float[np.ndarray, " values"]) -> tuple[Value, ...]:
    """Features furthest from the middle of their training range: all that is known of a detector without parts."""
    columns = _columns(subject)
    ends = np.array(
        [(np.nan, np.nan) if c.smallest is None or c.largest is None else (c.smallest, c.largest) for c in columns]
    )
    low, high = ends.T
    value = raw[np.cumsum([0, *(len(column.encoded) for column in columns)])[:-1]]
    with np.errstate(invalid="ignore", divide="ignore"):  # a constant feature is at the middle, or infinitely far away
        distance = np.nan_to_num(np.abs(value - (low + high) / 2) / (high - low), posinf=np.inf)
    return _values(subject, np.argsort(-distance, kind="stable")[:BARS].tolist(), raw)


def _values(
    subject: Subject,
    places: list[int],
    raw: Float[np.ndarray, " values"],
    expected: Float[np.ndarray, " values"] | None = None,
) -> tuple[Value, ...]:
    columns = _columns(subject)
    ends = np.cumsum([len(column.encoded) for column in columns])
    chosen = []
    for place in places:
        own = slice(ends[place] - len(columns[place].encoded), ends[place])
        chosen.append(_value(columns[place], raw[own], None if expected is None else expected[own]))
    return tuple(chosen)


def _columns(subject: Subject) -> list[Column]:
    return [column for column in subject.detector.fitted_chain.preparation.value_schema.columns if column.encoded]


def _value(column: Column, raw: Float[np.ndarray, " own"], expected: Float[np.ndarray, " own"] | None) -> Value:
    if column.kind == "category":
        new = not raw.any()
        known_one = _("new") if new else column.categories[raw.argmax()]
        category = _("missing") if np.isnan(raw).any() else known_one
        return Value(
            name=column.name,
            value=category,
            expected="-" if expected is None else column.categories[expected.argmax()],
            usual=count(len(column.categories), "category", "categories"),
            outside=new,
        )
    low, high = column.smallest, column.largest
    known = low is not None and high is not None
    return Value(
        name=column.name,
        value=number(raw[0]),
        expected="-" if expected is None else number(expected[0]),
        usual=_("{low} to {high}", low=number(low), high=number(high)) if low is not None and high is not None else "-",
        outside=known and bool((raw[0] < low) | (raw[0] > high)),
    )


def _window_figures(
    subject: Subject,
    found: Contributions,
    index: int,
    signal: Float[np.ndarray, "steps sensors"],
    reconstruction: Float[np.ndarray, "draws steps sensors"] | None,
    drawing: Drawing,
) -> tuple[Markup, ...]:
    signals = drawing.signals(
        _("Signals") if reconstruction is None else _("Signals, their reconstructions, and the score over time"),
        signal=signal,
        reconstruction=reconstruction,
        found=found,
        example=index,
        sensors=_largest(found, index, SENSORS),
        rate=subject.given.rate,
    )
    return (
        (signals,)
        if len(found.names) == 1
        else (signals, _bars(found, index, _("What each sensor adds to the score"), drawing))
    )


def _image_figures(
    found: Contributions,
    index: int,
    image: Float[np.ndarray, "height width channels"],
    reconstruction: Float[np.ndarray, "draws height width channels"],
    drawing: Drawing,
) -> tuple[Markup, ...]:
    assert found.pixels is not None  # of every image
    pictures = drawing.images(
        _("The image, its reconstruction, and what each pixel adds to the score"),
        image=image,
        reconstruction=reconstruction.mean(axis=0),
        heat=found.pixels.value[index],
    )
    return (
        (pictures,)
        if len(found.names) == 1
        else (pictures, _bars(found, index, _("What each channel adds to the score"), drawing))
    )
