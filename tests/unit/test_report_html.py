"""The report: one page that is whole, safe and says what was computed."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from indubio import AnchoredEnsemble, Detector, NoReferral, Training, UncertaintyThreshold
from indubio.data import read_table
from indubio.evaluation import evaluate
from indubio.report import html_report

RNG = np.random.default_rng(0)
GOOD = RNG.normal(size=(150, 1)) + 0.3 * RNG.normal(size=(150, 4))
NEW = np.concatenate([RNG.normal(size=(40, 1)) + 0.3 * RNG.normal(size=(40, 4)), RNG.normal(size=(20, 4)) * 3])
LABELS = np.repeat([0, 1], [40, 20])
VOID = {"meta", "link", "br", "hr", "img", "input", "col", "path", "use", "rect", "circle", "line", "stop"}


class Whole(HTMLParser):
    """Follows the tags, so that what is opened is closed in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "title"):
            self.texts.append(data.strip())


def parsed(page: str) -> Whole:
    whole = Whole()
    whole.feed(page)
    assert whole.open == []
    return whole


def words(page: str) -> str:
    return re.sub(r"\s+", " ", " ".join(parsed(page).texts))


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(posterior=AnchoredEnsemble(members=3), training=Training(epochs=20)).fit(GOOD)


def test_the_page_is_whole_and_needs_nothing_else(detector):
    page = html_report(detector, NEW, labels=LABELS)
    tags = parsed(page).tags
    assert "script" not in tags
    assert "svg" in tags
    assert not re.search(r"(src|href)\s*=\s*[\"']?https?://", page)
    assert "@import" not in page


def test_the_same_input_gives_the_same_page(detector):
    assert html_report(detector, NEW, labels=LABELS) == html_report(detector, NEW, labels=LABELS)


def test_the_numbers_are_those_of_the_assessment(detector):
    found = detector.assess(NEW)
    text = words(html_report(detector, NEW, found=found))
    for verdict, said in (("INLIER", "pass as normal"), ("ANOMALY", "flagged as anomalies"), ("REFER", "referred")):
        count = np.count_nonzero(found.verdict == verdict)
        assert re.search(rf"\b{count} {said}", text)
    assert f"{len(NEW)} examples checked" in text


def test_with_labels_it_says_what_referral_buys(detector):
    found = detector.assess(NEW)
    gain = evaluate(LABELS, found.prediction, found.total).gss.gain
    text = words(html_report(detector, NEW, labels=LABELS))
    assert f"{100 * gain:+.1f}".replace("-", "−") in text or f"{100 * gain:+.1f}" in text
    assert "Gain" in text


def test_without_labels_nothing_is_said_of_right_and_wrong(detector):
    text = words(html_report(detector, NEW))
    assert "Gain" not in text
    assert "sensitivity" not in text


def test_it_warns_where_referral_does_not_help(detector):
    found = detector.assess(NEW)
    # Certain where it is wrong: the worst uncertainty there is.
    wrong = found.prediction != LABELS
    swapped = type(found)(**(found.to_dict() | {"total": np.where(wrong, 0.0, 0.2 + 0.01 * RNG.random(len(NEW)))}))
    assert evaluate(LABELS, swapped.prediction, swapped.total).gss.gain < 0
    assert "Referral does not help" in words(html_report(detector, NEW, found=swapped, labels=LABELS))


def test_it_warns_where_the_data_is_unlike_the_training_data(detector):
    assert "unlike the training data" in words(html_report(detector, GOOD + 5))
    assert "unlike the training data" not in words(html_report(detector, GOOD))


def test_remarks_title_and_date_are_printed(detector):
    text = words(html_report(detector, NEW, title="Line 3", made="2024-05-01", remarks=("The traces are generated.",)))
    assert "Line 3" in text
    assert "2024-05-01" in text
    assert "The traces are generated." in text


def test_hostile_names_are_text_and_nothing_else():
    hostile = "<script>alert(1)</script>"
    frame = pd.DataFrame(GOOD, columns=[hostile, "b", "c", "d"])
    frame["id & <b>"] = [f"<img src=x onerror=alert({i})>" for i in range(len(frame))]
    table = read_table(frame, ids=["id & <b>"])
    detector = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=2)).fit(table)
    page = html_report(detector, table, title=hostile, remarks=(hostile,))
    tags = parsed(page).tags
    assert "script" not in tags
    assert "img" not in tags


@pytest.mark.parametrize("rule", [NoReferral(), UncertaintyThreshold(threshold=0.0)])
def test_nothing_or_nearly_everything_may_be_referred(detector, rule):
    changed = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=2)).fit(GOOD).refer_by(rule)
    parsed(html_report(changed, NEW, labels=LABELS))


def test_windows_are_shown_with_their_signals():
    windows = np.sin(np.linspace(0, 6, 30))[None, :, None] + 0.1 * RNG.normal(size=(30, 30, 2))
    detector = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=3)).fit(windows)
    text = words(html_report(detector, windows))
    assert "time steps" in text
    assert "x1" in text


def test_one_example_is_enough(detector):
    parsed(html_report(detector, NEW[:1]))
    parsed(html_report(detector, NEW[:1], labels=LABELS[:1]))
