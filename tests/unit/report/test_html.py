"""The HTML report: complete, self-contained, safe, and true to the assessment."""

import re
from dataclasses import replace
from datetime import date, datetime
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from indubio import Budget, Detector, Deterministic, UncertaintyThreshold
from indubio.data import Table
from indubio.decision import Verdict
from indubio.errors import DataError, ShapeError
from indubio.evaluation import accuracy_rejection_curve
from indubio.judging import UNCERTAINTIES
from indubio.report import html_report
from tests.small_examples import (
    GOOD,
    LABELS,
    NAMES,
    ROWS,
    SIGNALS,
    TRAINING,
    table,
    windows,
)

HOSTILE = "<script>alert(1)</script>"
VOID = {"meta", "link", "br", "img", "hr", "input"}
IDS = {"part": [f"A-{i}" for i in range(80)], "weight": np.full(80, 797.95)}


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(missing="refer", referral=Budget(share=0.3)).fit(table(TRAINING))


@pytest.fixture(scope="module")
def plain(detector) -> str:
    return html_report(detector, table(ROWS, ids=IDS), title="Line 3 & 4", made=date(2026, 11, 2))


@pytest.fixture(scope="module")
def labelled(detector) -> str:
    return html_report(detector, table(ROWS), labels=LABELS)


def test_a_report_in_german_has_german_words_and_numbers_and_escapes_as_before(detector):
    ids = {"part": [HOSTILE] * 80}
    german = html_report(detector, table(ROWS, ids=ids), labels=LABELS, language="de")
    english = html_report(detector, table(ROWS, ids=ids), labels=LABELS)
    page = Page(german)
    assert ("lang", "de") in page.attributes
    assert sections(german) == sections(english)
    for words in ("Zusammenfassung", "Beispiele geprüft", "Anomaliewahrscheinlichkeit [0 bis 1]", "im Training"):
        assert words in page.text
    for words in ("Summary", "probability of an anomaly", "referred to a person", "uncertainty"):
        assert words in Page(english).text
        assert words not in page.text
    assert re.search(r">0,\d+</text>", german), "ticks have a decimal comma"
    assert not re.search(r">0\.\d+</text>", german)
    assert HOSTILE not in german


class Page(HTMLParser):
    """Every tag opened and closed in order, every attribute, and the text of the page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.attributes += attrs

    def handle_startendtag(self, tag, attrs):
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def sections(html: str) -> list[str]:
    return re.findall(r'<section id="(\w+)"', html)


def tiles(html: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r'<div class="tile.*?<b>(.*?)</b>', html, re.DOTALL)]


def cards(html: str, section: str) -> list[str]:
    inside = re.search(rf'<section id="{section}">(.*?)</section>', html, re.DOTALL)
    return re.findall(r'<article class="card">.*?</article>', inside.group(1), re.DOTALL)


# ----- a page that needs nothing else


@pytest.mark.parametrize("name", ["plain", "labelled"])
def test_a_report_is_a_balanced_page_with_unique_identifiers(name, request):
    html = request.getfixturevalue(name)
    identifiers = [value for attribute, value in Page(html).attributes if attribute == "id"]
    assert html.startswith("<!DOCTYPE html>")
    assert len(identifiers) == len(set(identifiers))


@pytest.mark.parametrize("name", ["plain", "labelled"])
def test_a_report_loads_nothing_and_runs_nothing(name, request):
    html = request.getfixturevalue(name)
    attributes = Page(html).attributes
    assert not re.search(r"https?:|@import|url\((?!#)|<script|<link|<iframe|<img|<object|javascript:", html)
    assert not [name for name, _ in attributes if name.startswith("on")]
    assert all(value.startswith("#") for name, value in attributes if name in ("href", "src", "xlink:href"))


def test_names_ids_notes_and_texts_cannot_bring_in_markup():
    names = [HOSTILE, '"><img src=x onerror=alert(1)>', "--><b>bold</b>", r"$\frac{1}$ & co"]
    rows = ROWS.copy()
    rows[-1, 0] = np.nan
    data = table(rows, names=names, ids={HOSTILE: [HOSTILE] * len(rows)})
    detector = Detector(missing="refer").fit(table(GOOD, names=names))
    html = html_report(detector, data, labels=LABELS, title=HOSTILE, made=HOSTILE, remarks=[HOSTILE])
    text = Page(html).text
    assert not re.search(r"<script|<img|<b>bold", html)
    assert text.count(HOSTILE) > 10
    assert r"$\frac{1}$ & co" in text


def test_categories_cannot_bring_in_markup():
    features = pa.table({"size": GOOD[:, 0], "colour": [HOSTILE, "blue"] * 30})
    data = Table(features=features, categorical={"colour": None})
    html = html_report(Detector().fit(data), data)
    assert "<script" not in html
    assert f"colour {HOSTILE}" in Page(html).text


# ----- the summary


def test_the_summary_counts_examples_and_verdicts(detector, labelled):
    verdict = detector.assess(table(ROWS)).verdict
    assert tiles(labelled) == [len(ROWS), *(np.count_nonzero(verdict == name) for name in Verdict)]


def test_the_summary_says_what_referral_buys(detector, labelled):
    found = detector.assess(table(ROWS))
    wrong, kept = found.prediction != LABELS, found.verdict != "REFER"
    rows = re.findall(r"<tr><th>(With.*?)</th>(.*?)</tr>", labelled, re.DOTALL)
    assert [name for name, _ in rows] == ["Without referral", "With referral"]
    for (_, cells), considered in zip(rows, (np.ones(80, dtype=bool), kept), strict=True):
        errors = wrong & considered
        shown = [int(number) for number in re.findall(r">(\d+)<", cells)]
        assert shown == [considered.sum(), errors.sum(), (errors & LABELS).sum(), (errors & ~LABELS).sum()]
    assert 0 < np.count_nonzero(~kept) < 80
    assert f"{(wrong & ~kept).sum()} of the {wrong.sum()} error" in Page(labelled).text


def test_the_curve_of_every_uncertainty_has_w_base_and_gain(detector, labelled):
    found = detector.assess(table(ROWS))
    for name in UNCERTAINTIES:
        curve = accuracy_rejection_curve(LABELS, found.prediction, getattr(found, name))
        row = re.search(rf"<th>{name}</th>(.*?)</tr>", labelled, re.DOTALL).group(1)
        shown = [float(number) for number in re.findall(r">([+-]?[\d.]+)</td>", row)[:3]]
        expected = [100 * curve.weighted_average, 100 * curve.base, 100 * curve.gain]
        np.testing.assert_allclose(shown, expected, atol=0.051)


def test_an_assessment_and_labels_that_are_there_are_used_and_the_page_is_the_same(detector, labelled, monkeypatch):
    found = detector.assess(table(ROWS))
    monkeypatch.setattr(Detector, "assess", lambda self, X: pytest.fail("assessed twice"))
    assert html_report(detector, table(ROWS, labels=LABELS), found=found) == labelled


def test_what_is_not_of_the_same_examples_is_refused(detector):
    with pytest.raises(ShapeError, match="`labels` must be of the same 80 examples, got 3"):
        html_report(detector, table(ROWS), labels=LABELS[:3])
    with pytest.raises(ShapeError, match="`found` must be of the same 80 examples, got 2"):
        html_report(detector, table(ROWS), found=detector.assess(table(ROWS[:2])))
    with pytest.raises(DataError, match="`labels` must be 0"):
        html_report(detector, table(ROWS), labels=np.full(80, -1))


# ----- sections


def test_without_labels_there_is_no_section_that_needs_them(plain):
    assert set(sections(plain)) - {"warnings"} == {"summary", "distributions", "anomalous", "uncertain", "model"}
    for words in ("Without referral", "The label says", "Gain", "sensitivity"):
        assert words not in plain


def test_with_labels_there_is_a_section_on_quality(labelled):
    assert "quality" in sections(labelled)
    assert labelled.count("Confusion matrix") == 2
    assert labelled.count("of right and wrong predictions") == 4  # the heading and three boxes
    assert "The label says" in labelled


def test_title_and_date_are_printed_and_remarks_only_where_there_are_some(plain, labelled):
    assert "<title>Line 3 &amp; 4</title>" in plain
    assert "2026-11-02 · Prototypes" in Page(plain).text
    assert "· Prototypes" not in Page(labelled).text
    assert 'class="remark"' not in plain


def test_the_most_anomalous_and_the_most_uncertain_are_shown_in_order(detector, plain):
    found = detector.assess(table(ROWS))
    for section, values in (("anomalous", found.nll), ("uncertain", found.total)):
        shown = [int(re.search(r"Example (\d+)", card).group(1)) for card in cards(plain, section)]
        assert shown == np.argsort(-values, kind="stable")[:6].tolist()


def test_a_card_has_ids_numbers_and_the_values_that_made_the_score(detector, plain):
    found = detector.assess(table(ROWS))
    worst = int(np.argmax(found.nll))
    card = cards(plain, "anomalous")[0]
    for words in (f"part A-{worst}", "weight 797.95"):
        assert words in Page(card).text
    (share,) = re.findall(r"([\d.]+)% probability", Page(card).text)
    assert float(share) == pytest.approx(100 * found.probability[worst], abs=0.1)
    values = dict(re.findall(r"<th>(\w+)</th><td>([-\d.]+)</td>", card))
    assert set(values) == set(NAMES)
    for place, name in enumerate(NAMES):
        assert float(values[name]) == pytest.approx(ROWS[worst, place], rel=1e-3)


def test_what_is_unlike_the_training_data_is_counted_drawn_and_said_on_its_card(detector):
    found = detector.assess(table(ROWS))
    novelty = np.where(np.arange(len(found)) == found.nll.argmax(), 3.25, 0.5)
    page = html_report(detector, table(ROWS), found=replace(found, novelty=novelty))
    assert "1 example is unlike anything in the training data" in page
    assert "Nothing like it was seen in training (novelty 3.25)" in cards(page, "anomalous")[0]
    assert "seen in training" not in cards(page, "anomalous")[1]
    assert "Histogram of the novelty" in page
    reason = replace(
        found, novelty=novelty, verdict=np.full(len(found), "REFER"), reason=np.full(len(found), "unfamiliar")
    )
    shown = cards(html_report(detector, table(ROWS), found=reason), "anomalous")[0]
    assert shown.count("like it was seen in training") == 1


def test_warnings_stand_before_the_figures(detector):
    html = html_report(detector, table(GOOD + 50), labels=np.zeros(60), made=datetime(2026, 11, 2, 8, 5, 1))
    assert sections(html)[:3] == ["summary", "warnings", "distributions"]
    assert "The data has drifted away from the training data" in html
    assert "2026-11-02 08:05 ·" in Page(html).text
    # One class only: no curve, and a sentence instead.
    assert "too few anomalies" in html
    assert "Accuracy-rejection curves" not in html
    assert "nan" not in Page(html).text.lower().split()


def test_when_nothing_is_anomalous_or_uncertain_the_report_says_so(detector):
    calm = replace(
        detector.assess(table(GOOD)),
        prediction=np.zeros(60, dtype=bool),
        verdict=np.full(60, "INLIER"),
        reason=np.full(60, ""),
        total=np.zeros(60),
    )
    html = html_report(detector, table(GOOD), found=calm)
    assert "No example reaches the anomaly threshold" in html
    assert "Nothing is referred to a person" in html
    assert "No example has any total uncertainty" in html
    assert not cards(html, "uncertain")


def test_windows_show_signals_and_the_score_over_time():
    faulty = SIGNALS.copy()
    faulty[5, 10:15, 1] += 4
    detector = Detector().fit(windows(SIGNALS))
    html = html_report(detector, windows(faulty, rate=10.0), remarks=["The traces are generated."])
    text = Page(cards(html, "anomalous")[0]).text
    for words in (
        *("Example 5", "file run_5.csv", "start 7.5", "force [kN]", "torque"),
        *("measured", "expected", "score [NLL]", "time [s]"),
    ):
        assert words in text
    assert "Sensors and their ranges" in html
    assert '<p class="remark">The traces are generated.</p>' in html


# ----- every form of data, every detector, every size


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, lambda rows: pd.DataFrame(rows, columns=NAMES)])
def test_arrays_and_frames_are_reported_too(form):
    data = form(ROWS)
    html = html_report(Detector().fit(data), data)
    assert tiles(html)[0] == 80
    assert ("pressure" in html) == isinstance(data, pd.DataFrame)


@pytest.mark.parametrize(
    "settings",
    [
        {"posterior": Deterministic()},
        {"referral": UncertaintyThreshold(threshold=0.0, by="var_nll")},
        {"referral": Budget(share=0.1, by="exceed")},
    ],
    ids=["one draw", "all referred", "by exceed"],
)
def test_every_kind_of_detector_is_reported(settings):
    detector = Detector(**settings).fit(ROWS)
    text = Page(html_report(detector, ROWS, labels=LABELS)).text
    assert "object at 0x" not in text


@pytest.mark.parametrize("labels", [None, [1]], ids=["plain", "labelled"])
def test_a_single_example_is_reported(detector, labels):
    html = html_report(detector, table(ROWS[:1]), labels=labels)
    assert tiles(html)[0] == 1
    Page(html)


def test_a_report_on_ten_thousand_examples_stays_small(detector):
    rows = np.tile(ROWS, (125, 1)) + 0.01 * np.random.default_rng(0).normal(size=(10_000, 4))
    html = html_report(detector, table(rows), labels=np.tile(LABELS, 125))
    assert tiles(html)[0] == 10_000
    assert len(html.encode()) < 500_000
