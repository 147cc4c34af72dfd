"""Whatever a reader sees comes from the catalogue: pages are made in a language whose every text is in brackets.

What then stands outside of brackets on a page would be English in every language. Values that are filled in stand
outside too, so that what is left are names of the data, of settings and of people, and numbers.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from gettext import GNUTranslations, translation
from html.parser import HTMLParser
from typing import Any

import httpx
import numpy as np
import pytest

import indubio.texts
from indubio import Budget, Detector, HoldOut
from indubio.detector import EnsembleDetector
from indubio.errors import DataWarning
from indubio.report import html_report
from indubio.texts import DOMAIN, FOLDER
from indubio_server.store import all_jobs, cases_waiting, chosen_cases, claim, review
from tests.review_server import Running, logged_in, running, token
from tests.small_examples import LABELS, NAMES, ROWS, SENSORS, SIGNALS, SMALL_NETWORK, TRAINING, quick, table, windows

PLACE = re.compile(r"%\(\w+\)s|\{[^{}]*\}|\n")
WORD = re.compile(r"[^\W\d_]{2,}")
READ = {"aria-label", "title", "placeholder", "alt", "data-no-answer", "data-name"}
SYMBOLS = {
    "indubio",
    "UTC",
    "GSS",
    "AUROC",
    "NLL",
    "NLL²",
    "CSV",
    "JSON",
    "Label",
    "Studio",
    "min",
    "English",
    "Deutsch",
    "NaN",
}
SYMBOLS |= {"Esc", "Ctrl"}  # keys


class Bracketed(GNUTranslations):
    """A language like English, but for brackets around all that it says."""

    def gettext(self, message: str) -> str:
        known = vars(self)["_catalog"].keys()
        return bracketed(message) if {message, (message, 0)} & known else message

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return bracketed(msgid1 if n == 1 else msgid2)

    def pgettext(self, context: str, message: str) -> str:
        return bracketed(message)


def bracketed(text: str) -> str:
    """The text with brackets around its own words, and its values outside of them."""
    parts = [f"«{part}»" if part else "" for part in PLACE.split(text)]
    places = PLACE.findall(text)
    return "".join(part + place for part, place in zip(parts, [*places, ""], strict=True))


class Outside(HTMLParser):
    """The words of a page that stand outside of brackets."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: set[str] = set()
        self.depth, self.silent = 0, ""
        self.feed(page)
        assert self.depth == 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.silent = tag if tag in ("style", "script", "pre", "code", "kbd", "metadata") else self.silent
        for name, value in attrs:
            self.handle_data(value or "" if name in READ else "")

    def handle_endtag(self, tag: str) -> None:
        self.silent = "" if tag == self.silent else self.silent

    def handle_data(self, data: str) -> None:
        if self.silent:
            return
        for part in re.split("([«»])", data):
            self.depth += {"«": 1, "»": -1}.get(part, 0)
            if not self.depth:
                self.words |= set(WORD.findall(part))


def names_in(settings: Any) -> set[str]:
    """Names and values that a configuration of these settings would have."""
    if isinstance(settings, tuple):
        return set().union(*map(names_in, settings))
    if not is_dataclass(settings) or isinstance(settings, type):
        return set(WORD.findall(str(settings)))
    below = (names_in(getattr(settings, field.name)) for field in fields(settings))
    return names_in((type(settings).__name__, *(field.name for field in fields(settings)))).union(*below)


def names_of(detector: Any) -> set[str]:
    used = detector.settings_in_use()
    known = [getattr(used, field.name) for field in fields(used)] if is_dataclass(used) else [used.referral]
    chain = [detector.conversion_.conversion, getattr(detector, "calibration_", None), detector.preparation_.missing]
    network = (
        used.architecture_for(detector.input_shape_, detector.n_training_) if isinstance(detector, Detector) else ()
    )
    spectra = getattr(detector.preparation_.spectra, "spectra", None)
    return names_in((*known, *chain, network, detector.preparation_.unseen, spectra))


@pytest.fixture(autouse=True, scope="module")
def in_brackets() -> Iterator[None]:
    """Whoever asks for German gets English in brackets."""
    made = translation(DOMAIN, FOLDER, ["de"], class_=Bracketed)
    plain = indubio.texts._catalogue
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indubio.texts, "_catalogue", lambda name: made if name == "de" else plain(name))
        yield


def odd_training() -> np.ndarray:
    rows = np.column_stack([TRAINING, np.full(len(TRAINING), 7.0), 2 * TRAINING[:, 0] + 1])
    rows[:, 3] = np.arange(len(rows))
    return rows


def odd_rows() -> np.ndarray:
    rows = np.column_stack([ROWS, np.full(len(ROWS), 7.0), 2 * ROWS[:, 0] + 1])
    rows[:4, 1], rows[4:8, 0] = np.nan, 1e6
    return rows


@pytest.mark.parametrize("labels", [None, LABELS], ids=["plain", "labelled"])
def test_a_report_of_odd_rows(labels):
    names = (*NAMES, "mode", "twin")
    with pytest.warns(DataWarning):
        detector = Detector(missing="refer", range_margin=0.5).fit(table(odd_training(), names=names))
    page = html_report(detector, table(odd_rows(), names=names), labels=labels, title="T", language="de")
    assert "«missing: »pressure" in page
    assert "« never changes.»" in page
    assert Outside(page).words - SYMBOLS - {*names} - names_of(detector) == set()


def test_a_report_of_windows():
    detector = quick(architecture=SMALL_NETWORK, missing="median", calibration=HoldOut()).fit(
        windows(SIGNALS, rate=10.0)
    )
    values = SIGNALS.copy()
    values[0, 3, 0], values[1, :, 1] = np.nan, 0.5
    found = windows(values, rate=10.0, held={SENSORS[0]: 5, SENSORS[1]: 0})
    page = html_report(detector, found, title="T", language="de")
    sensors = {word for name in SENSORS for word in WORD.findall(name)}
    origin = {"file", "start", "run", "csv"}
    assert "«frozen: »torque" in page
    assert Outside(page).words - SYMBOLS - sensors - origin - names_of(detector) == set()


def test_a_report_of_another_detector():
    from sklearn.ensemble import IsolationForest

    detector = EnsembleDetector(IsolationForest(n_estimators=10), members=3).fit(table(TRAINING))
    page = html_report(detector, table(ROWS), title="T", language="de")
    forest = names_in(("IsolationForest", "n_estimators", "TrainScores"))
    assert Outside(page).words - SYMBOLS - {*NAMES} - forest - names_of(detector) == set()


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    detector = Detector(referral=Budget(share=0.2), missing="refer").fit(table(TRAINING))
    folder = tmp_path_factory.mktemp("server")
    with running(detector, folder, control_share=1.0, referrals_per_hour=5, language="de") as started:
        rows = ROWS.astype(object)
        rows[0, 1] = None
        started.assess(rows[::2], "m1")
        started.assess(rows[1::2], "m2")
        yield started


PEOPLE = {"ada", "bob", "eve", "press", "admin", "reviewer", "system"} | {*NAMES}
RULES = {"Budget", "UncertaintyThreshold", "TargetRisk"}
PAGES = [
    "/login",
    "/review",
    "/review?second=1",
    "/review/insights?share=15",
    "/review/models",
    "/review/status",
    "/review/exchange",
]


def seen(client: httpx.Client, path: str, **posted: Any) -> set[str]:
    """The words outside of brackets, of a page or of the answer to a form."""
    answer = client.post(path, data={"token": token(client)} | posted) if posted else client.get(path)
    assert '<html lang="de">' in answer.text, path
    return Outside(answer.text).words - SYMBOLS - PEOPLE - RULES


def ended(client: httpx.Client) -> set[str]:
    """The words outside of brackets on the page of models, after the job has ended."""
    while 'class="job running"' in client.get("/review/models").text:
        time.sleep(0.1)
    return seen(client, "/review/models")


def test_all_pages(server):
    cases = server.store.read(chosen_cases)
    with logged_in(server, "ada") as ada:
        assert {path: seen(ada, path) for path in PAGES} == {path: set() for path in PAGES}
        assert [seen(ada, f"/review/cases/{case.id}") for case in cases[:6]] == [set()] * 6
        assert "«missing: »pressure" in ada.get(f"/review/cases/{cases[0].id}").text


def test_errors_of_forms_and_addresses(server):
    case, held = server.store.read(lambda c: cases_waiting(c, reviewer="nobody", limit=2))
    server.store.write(lambda c: claim(c, held.id, "bob"))
    wrong = [
        "/review?order=best",
        "/review?since=noon",
        "/review/cases/x",
        "/review/cases/999999",
        "/review/nowhere",
        "/review?site=north",
    ]
    posted = {
        f"/review/cases/{case.id}": {"label": "X"},
        f"/review/cases/{case.id}/comment": {"comment": ""},
        f"/review/cases/{held.id}": {"label": "I"},  # refused by the thread that writes, whose language is none
        "/review/undo": {"again": "1"},
        "/review/models/press/learn": {"again": "1"},
        "/review/exchange/labels": {"again": "1"},
    }
    with logged_in(server, "ada") as ada:
        told = {path: seen(ada, path) for path in wrong} | {
            path: seen(ada, path, **one) for path, one in posted.items()
        }
        values = {"best", "order", "age", "uncertainty", "since", "noon", "north", "label"}
        assert {path: words - values for path, words in told.items()} == {path: set() for path in told}
        large = ada.post("/review/undo", data={"token": "x" * 70_000})
        assert large.status_code == 413
        assert "« bytes, and may have »" in large.text


@pytest.mark.slow
def test_jobs_that_end_well_and_badly(server):
    for case in server.store.read(chosen_cases)[10:]:  # nobody holds these
        server.store.write(lambda c, case=case: review(c, case.id, "bob", "A" if case.probability > 0.5 else "I"))
    with logged_in(server, "eve") as eve:
        assert seen(eve, "/review/models/press/recalibrate", share="10") == set()
        assert ended(eve) == set()
        assert "«version »2« is ready; it is not active yet.»" in eve.get("/review/models").text
        assert server.store.read(all_jobs)[0].message == "version 2 is ready; it is not active yet.", "kept in English"
        assert seen(eve, "/review/models/press/recalibrate", rule="target_risk", alpha="0.1", confidence="99") == set()
        assert ended(eve) == set()
        assert "« as it is set needs at least »" in eve.get("/review/models").text
        assert seen(eve, "/review/insights?share=15") == set()
