"""The reviewers' pages over HTTP: who may what, what is kept, what comes out escaped."""

import csv
import io
import json
import re
import time
from collections.abc import Iterator
from datetime import timedelta, timezone

import httpx
import numpy as np
import pytest

from indubio import Budget, Detector
from indubio.report import Drawing
from indubio_server.review import downloads
from indubio_server.review.page_request import safe_path
from indubio_server.review.plots import styled_by_attributes
from indubio_server.store import cases_waiting, claim, final_labels, history, next_to, now, review, undo, verify
from indubio_server.store.audit_trail import entries
from tests.review_server import Running, logged_in, running, token
from tests.small_examples import ROWS, SIGNALS, SMALL_NETWORK, TRAINING, quick, table, windows
from tests.stored_cases import assessed, stored

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    detector = Detector(referral=Budget(share=0.2)).fit(table(TRAINING))
    with running(detector, tmp_path_factory.mktemp("server"), control_share=1.0) as started:
        started.assess(ROWS[50:], HOSTILE)
        yield started


def waiting(server: Running, count: int = 1) -> list:
    """Cases that nobody holds."""
    return server.store.read(lambda c: cases_waiting(c, reviewer="nobody", limit=count))


def test_a_session_is_a_cookie_that_scripts_and_other_sites_cannot_use(server):
    with httpx.Client(base_url=server.url) as client:
        answer = client.post("/login", data={"key": server.keys["ada"], "token": token(client, "/login")})
        cookie = next(one for one in answer.headers.get_list("set-cookie") if one.startswith("indubio_session"))
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert client.get("/review").status_code == 200
        secret = client.cookies["indubio_session"]
        client.post("/review/logout", data={"token": token(client)})
        client.cookies.set("indubio_session", secret)
        assert client.get("/review").headers["location"] == "/login?then=%2Freview"


@pytest.mark.parametrize("name", ["line", None])
def test_neither_a_scorer_nor_a_stranger_can_log_in(server, name):
    with httpx.Client(base_url=server.url) as client:
        key = server.keys.get(name, "indubio_guess")
        answer = client.post("/login", data={"key": key, "token": token(client, "/login")})
        assert answer.status_code == 401
        assert "indubio_session" not in client.cookies


def test_a_form_needs_the_token_of_its_own_session(server):
    case = waiting(server)[0]
    with logged_in(server, "ada") as ada, logged_in(server, "bob") as bob:
        for wrong in ("", token(bob), "0" * 64):
            answer = ada.post(f"/review/cases/{case.id}", data={"label": "A", "token": wrong})
            assert answer.status_code == 403
        assert ada.post("/review/undo").status_code == 403
    assert not server.store.read(lambda c: history(c, case.id))


def test_only_an_admin_changes_models(server):
    with logged_in(server, "ada") as ada:
        for action in ("activate", "learn", "retrain", "recalibrate"):
            answer = ada.post(f"/review/models/press/{action}", data={"version": "1", "token": token(ada)})
            assert answer.status_code == 403
            assert "admin" in answer.text


@pytest.mark.parametrize(
    "path",
    ["?order=best", "?reason=none", "?since=yesterday", "?from=-1", "/cases/999999", "/insights?share=101",
     "/insights?version=x", "/insights?model=none"],
)  # fmt: skip
def test_an_address_that_makes_no_sense_is_told_so(server, path):
    with logged_in(server, "ada") as ada:
        answer = ada.get(f"/review{path}")
        assert answer.status_code in (400, 404)
        assert "That did not work" in answer.text


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", "/\\evil.example", "", "javascript:1"])
def test_logging_in_never_leads_to_another_site(path):
    assert safe_path(path) == "/review"
    assert safe_path("/review/cases/3?order=age") == "/review/cases/3?order=age"


def test_what_machines_and_people_write_is_escaped_everywhere(server):
    case = waiting(server)[0]
    with logged_in(server, "ada") as ada:
        ada.post(f"/review/cases/{case.id}/comment", data={"comment": HOSTILE, "token": token(ada)})
        for path in ("", f"/cases/{case.id}", "/status", "/insights", "/models"):
            text = ada.get(f"/review{path}").text
            assert HOSTILE not in text
            assert not re.search(r'\sstyle="|\son\w+="|<style', text), "the content security policy forbids them"
        assert HOSTILE.replace("<", "&lt;").replace(">", "&gt;") in ada.get(f"/review/cases/{case.id}").text


def test_a_second_opinion_is_given_blind(server):
    case = waiting(server)[0]
    with logged_in(server, "ada") as ada, logged_in(server, "bob") as bob:
        form = {"label": "A", "comment": "crack at the edge", "token": token(ada)}
        ada.post(f"/review/cases/{case.id}", data=form)
        assert "crack at the edge" not in bob.get(f"/review/cases/{case.id}?second=yes").text
        assert f"/review/cases/{case.id}?second=yes" in bob.get("/review?second=yes").text
        bob.post(f"/review/cases/{case.id}?second=yes", data={"label": "I", "token": token(bob)})
        assert "crack at the edge" in bob.get(f"/review/cases/{case.id}?second=yes").text
        assert f"case {case.id}</a>" in bob.get("/review/insights").text, "what they disagree on is listed"


def test_what_was_never_seen_in_training_is_filtered_and_said(server):
    strange, familiar, old = stored(
        server.store,
        [
            assessed(model="lathe", machine="lathe-1", reason="unfamiliar", novelty=3.25),
            assessed(model="lathe", machine="lathe-1", novelty=0.52),
            assessed(model="lathe", machine="lathe-1", novelty=None),
        ],
    )
    with logged_in(server, "ada") as ada:
        listed = ada.get("/review?reason=unfamiliar").text
        assert f"/review/cases/{strange.id}?" in listed
        assert f"/review/cases/{familiar.id}?" not in listed
        pages = [ada.get(f"/review/cases/{case.id}").text for case in (strange, familiar, old)]
        assert pages[0].count("othing like it was seen in training (novelty 3.25)") == 1
        assert "Examples like it were seen in training (novelty 0.52)" in pages[1]
        assert "ovelty" not in pages[2]
        rows = csv.DictReader(io.StringIO(ada.get("/review/exchange/reviews.csv").text))
        told = {row["reference"]: row["novelty"] for row in rows}
        assert [told[case.reference] for case in (strange, familiar, old)] == ["3.25", "0.52", ""]
    for case in (strange, familiar, old):
        server.store.write(lambda c, case=case: review(c, case.id, "ada", "I", ""))


def test_a_case_that_somebody_holds_cannot_be_labelled_by_another(server):
    case = waiting(server)[0]
    server.store.write(lambda c: claim(c, case.id, "bob"))
    with logged_in(server, "ada") as ada:
        answer = ada.post(f"/review/cases/{case.id}", data={"label": "A", "token": token(ada)})
        assert answer.status_code == 409
        assert "held by bob" in answer.text


@pytest.mark.parametrize(("separator", "encoding"), [(",", "utf-8"), (";", "utf-16")])  # the second as Excel saves it
def test_reviews_go_out_as_csv_and_come_back_signed_by_whoever_brings_them(server, separator, encoding):
    case, other = waiting(server, 2)
    server.store.write(lambda c: review(c, case.id, "bob", "I", '=HYPERLINK("x")'))
    with logged_in(server, "ada") as ada:
        rows = list(csv.DictReader(io.StringIO(ada.get("/review/exchange/reviews.csv").text)))
        row = next(row for row in rows if row["reference"] == case.reference)
        assert (row["label"], row["reviewer"], float(row["total"])) == ("inlier", "bob", case.total)
        assert row["comment"].startswith("'="), "a spreadsheet must not compute it"
        lines = (("reference", "label", "comment"), (other.reference, "anomaly", "schön gesehen"))
        file = ("a.csv", "".join(f"{separator.join(line)}\n" for line in lines).encode(encoding))
        ada.post("/review/exchange/labels", data={"token": token(ada)}, files={"labels": file})
    said = server.store.read(lambda c: history(c, other.id))[-1]
    assert (said.reviewer, said.label, said.comment) == ("ada", "A", "schön gesehen")
    kinds = [entry.kind for entry in server.store.read(lambda c: list(entries(c)))]
    assert {"exported", "imported"} <= set(kinds)
    server.store.write(lambda c: undo(c, "ada"))
    server.store.write(lambda c: undo(c, "bob"))


def test_an_export_comes_back_unchanged(server):
    comments = ["=1+1", "＝1+1", "  @sum", "'quoted'", "'=both", 'line\n"two"', "plain"]
    cases = waiting(server, len(comments))
    for case, comment in zip(cases, comments, strict=True):
        server.store.write(lambda c, case=case, comment=comment: review(c, case.id, "bob", "U", comment))
    with logged_in(server, "ada") as ada:
        file = ada.get("/review/exchange/reviews.csv").content
        rows = [row for row in csv.DictReader(io.StringIO(file.decode(), newline="")) if row["reviewer"] == "bob"]
        ours = [row for row in rows if row["reference"] in {case.reference for case in cases}]
        assert sum(row["comment"].startswith("'") for row in ours) == 5, "what would be computed, and what begins so"
        out = io.StringIO(newline="")
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(ours)
        files = {"labels": ("reviews.csv", out.getvalue().encode())}
        assert (
            "7 labels taken over" in ada.post("/review/exchange/labels", data={"token": token(ada)}, files=files).text
        )
    for case, comment in zip(cases, comments, strict=True):
        said = server.store.read(lambda c, case=case: history(c, case.id))
        assert [(one.reviewer, one.label, one.comment) for one in said[-2:]] == [
            ("bob", "U", comment),
            ("ada", "U", comment),
        ]


def test_the_queue_names_part_and_model_and_the_case_says_why_it_is_kept(server):
    serial = f"SN-{'0' * 90}-7"
    kept, referred = stored(
        server.store,
        [
            assessed(model="lathe", machine="lathe-9", external_id=serial, verdict="INLIER", reason="", version=3),
            assessed(model="lathe", machine="lathe-9", external_id="part 12", version=3),
        ],
    )
    with logged_in(server, "ada") as ada:
        queue = ada.get("/review?machine=lathe-9").text
        assert "part 12" in queue
        assert "lathe, version 3" in queue
        assert re.search(r">SN-0+…0+-7<", queue), "a long one is abridged, and its end is there"
        assert f'title="{serial}"' in queue
        page = ada.get(f"/review/cases/{kept.id}").text
        assert serial in page
        assert "It is kept for control" in page
        assert "It is kept for control" not in ada.get(f"/review/cases/{referred.id}").text
    for case in (kept, referred):
        server.store.write(lambda c, case=case: review(c, case.id, "ada", "I", ""))


def test_pages_speak_the_language_of_the_browser_until_another_is_chosen(server):
    case = waiting(server)[0]
    with logged_in(server, "ada") as ada:
        german = {"Accept-Language": "de-DE,de;q=0.9,en;q=0.5"}
        page = ada.get("/review", headers=german).text
        assert '<html lang="de">' in page
        assert "Prüfung beginnen" in page
        assert '<html lang="en">' in ada.get("/review").text
        shown = ada.get(f"/review/cases/{case.id}", headers=german).text
        assert "Wahrscheinlichkeit einer Anomalie" in shown
        assert re.search(r"\d,\d", shown), "numbers have a decimal comma"
        assert "Das hat nicht geklappt" in ada.get("/review?order=best", headers=german).text
        answer = ada.get("/review/language?to=de&then=/review/status")
        assert answer.url.path == "/review/status"
        assert '<html lang="de">' in answer.text
        assert '<html lang="en">' in ada.get("/review/language?to=en&then=/review", headers=german).text
        assert ada.get("/review/language?to=de&then=//evil.example").url.path == "/review"
        assert ada.get("/review/language?to=xx").status_code == 400
        problem = ada.get("/cases/none", headers=german)
        assert "there is no" in problem.text, "programs are answered in English"


def test_label_studio_tasks_come_back_with_their_annotations(server):
    with logged_in(server, "ada") as ada:
        tasks = ada.get("/review/exchange/label-studio.json").json()
        case = waiting(server)[0]
        chosen = next(task for task in tasks if task["data"]["reference"] == case.reference)
        assert chosen["predictions"][0]["result"][0]["value"]["choices"][0] in ("inlier", "anomaly")
        assert set(chosen["data"]["values"]) == {"temperature", "pressure", "flow", "speed"}
        annotation = {"result": [chosen["predictions"][0]["result"][0] | {"value": {"choices": ["unsure"]}}]}
        file = json.dumps([chosen | {"annotations": [annotation, {"was_cancelled": True, "result": []}]}]).encode()
        answer = ada.post("/review/exchange/labels", data={"token": token(ada)}, files={"labels": ("a.json", file)})
        assert "1 label taken over" in answer.text
    assert server.store.read(lambda c: history(c, case.id))[-1].label == "U"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", "reference,label\n{good},A\nnone,A\n", "line 3: there is no case"),
        ("a.csv", "reference,label\n{good},perhaps\n", "line 2: the label must be"),
        ("a.csv", "{good},A\n", "must name the columns"),
        ("a.csv", "reference,label\n", "there are no labels"),
        ("a.json", '[{{"data": {{"reference": "{good}"}}, "annotations": [{{}}]}}]', "task 0 is no task of ours"),
        ("a.json", '{{"tasks": 1}}', "a list of tasks"),
        ("a.json", "[", "no json"),
    ],
)
def test_a_file_that_is_not_right_is_refused_whole_and_says_where(server, name, content, told):
    before = server.store.read(final_labels)
    with logged_in(server, "ada") as ada:
        file = content.format(good=waiting(server)[0].reference).encode()
        answer = ada.post("/review/exchange/labels", data={"token": token(ada)}, files={"labels": (name, file)})
    assert answer.status_code == 400
    assert told in re.search(r"<p>(.+)</p>", answer.text)[1].lower()
    assert server.store.read(final_labels) == before


def given(client, text, name="labels.csv"):
    return client.post(
        "/review/exchange/labels", data={"token": token(client)}, files={"labels": (name, text.encode())}
    )


def test_a_file_has_one_label_for_a_case_and_giving_it_again_changes_nothing(server):
    case, other = waiting(server, 2)
    lines = ["reference,label,comment", *[f"{case.reference},I,seen"] * 2000, f"{other.reference},I,"]
    entries_before = server.store.read(lambda c: len(list(entries(c))))
    with logged_in(server, "ada") as ada:
        assert "2 labels taken over" in given(ada, "\n".join(lines)).text
        assert "2 labels taken over" in given(ada, "\n".join(lines)).text
        contradicting = given(ada, f"reference,label\n{case.reference},I\n{other.reference},I\n{case.reference},A\n")
    assert contradicting.status_code == 400
    assert "line 4: case" in contradicting.text.lower()
    assert "has another label in line 2. Nothing was taken." in contradicting.text
    said = server.store.read(lambda c: history(c, case.id))
    assert [(one.reviewer, one.label) for one in said if one.comment == "seen"] == [("ada", "I")]
    assert server.store.read(lambda c: len(list(entries(c)))) == entries_before + 2, "a login, and one for the labels"
    assert server.store.read(verify).whole
    for one in (case, other):
        server.store.write(lambda c, one=one: undo(c, "ada", one.id))


def test_a_time_with_an_offset_is_that_time(server):
    at = now() + timedelta(days=400)
    stored(server.store, [assessed(at=at, machine="clock-1")])
    with logged_in(server, "ada") as ada:
        for moved, there in ((-1, True), (1, False)):
            since = (at + timedelta(hours=moved)).astimezone(timezone(timedelta(hours=5)))
            listed = ada.get("/review", params={"machine": "clock-1", "since": since.isoformat()}).text
            assert ("/review/cases/" in listed) == there, since


def test_too_many_downloads_of_one_person_are_refused(server, monkeypatch):
    with logged_in(server, "ada") as ada:
        for _ in range(5):
            assert ada.get("/review/exchange/reviews.csv").status_code == 200
        monkeypatch.setattr(downloads, "MOST_EACH", 0)
        refused = ada.get("/review/exchange/label-studio.json")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
        monkeypatch.undo()
        assert ada.get("/review/exchange/label-studio.json").status_code == 200


def test_a_job_that_cannot_be_done_ends_with_the_reason(server):
    with logged_in(server, "eve") as eve:
        answer = eve.post("/review/models/press/retrain", data={"token": token(eve)})
        assert "upload it" in answer.text
        files = {"training": ("good.csv", b"temperature,pressure\n1,2\n")}
        eve.post("/review/models/press/retrain", data={"token": token(eve)}, files=files)
        again = eve.post("/review/models/press/retrain", data={"token": token(eve)}, files=files)
        assert again.status_code == 409, "one job at a time"
        while 'class="job running"' in (page := eve.get("/review/models").text):
            time.sleep(0.2)
        assert 'class="job failed"' in page
        assert "flow" in page, "the column that is missing is named"
    assert len(server.service.registry.known("press")) == 1


def test_a_version_is_trained_on_a_file_that_an_admin_brings(tmp_path):
    with running(Detector().fit(table(TRAINING)), tmp_path) as started, logged_in(started, "eve") as eve:
        names = started.service.registry.model().model.input.schema.names
        content = "\n".join([",".join(names), *(",".join(map(str, row)) for row in TRAINING[10:].tolist())])
        page = eve.post(
            "/review/models/press/retrain",
            data={"token": token(eve)},
            files={"training": ("good.csv", content.encode())},
        ).text
        while 'class="job running"' in page:
            time.sleep(0.2)
            page = eve.get("/review/models").text
        assert 'class="job done"' in page, page
        assert "Activate version 2" in page
        versions = started.service.registry.known("press")
        assert [(one.version, one.origin, one.by) for one in versions][1:] == [(2, "retrained", "eve")]


def test_a_window_shows_its_signals_and_what_the_draws_expected(tmp_path):
    detector = quick(architecture=SMALL_NETWORK).fit(windows(SIGNALS))
    with running(detector, tmp_path, control_share=1.0) as started:
        started.assess(SIGNALS[:1])
        with logged_in(started, "ada") as ada:
            text = ada.get("/review/next").text
        assert "expected, ±1 s.d. of the draws" in text
        assert "torque" in text
        gone = stored(started.store, [assessed(version=99)])[0]
        with logged_in(started, "ada") as ada:
            text = ada.get(f"/review/cases/{gone.id}").text
        assert "There is no plot" in text
        assert "5.25" in text, "the values are there all the same"


def test_an_image_shows_its_pixels_and_a_heat_map(tmp_path):
    images = np.random.default_rng(0).normal(size=(40, 7, 6, 1))
    with running(Detector().fit(images), tmp_path, control_share=1.0) as started:
        started.assess(images[:1])
        with logged_in(started, "ada") as ada:
            answer = ada.get("/review/next")
        assert "what each pixel adds to the score" in answer.text
        assert answer.text.count("data:image/png;base64") == 3
        assert "img-src 'self' data:" in answer.headers["content-security-policy"]


def test_the_next_case_is_the_one_that_the_queue_shows_below(store):
    totals = [0.1, 0.2, 0.2, 0.05]
    stored(store, [assessed(total=total, overflow=total == 0.05) for total in totals])
    for order in ("age", "uncertainty"):
        queue = store.read(lambda c, order=order: cases_waiting(c, order))
        after = [store.read(lambda c, case=case, order=order: next_to(c, case, order)) for case in queue]
        assert after == [*queue[1:], None]
        earlier = [store.read(lambda c, case=case, order=order: next_to(c, case, order, before=True)) for case in queue]
        assert earlier == [None, *queue[:-1]]


def test_a_figure_keeps_its_looks_without_inline_styles():
    figure = Drawing().one("a line", lambda axes: axes.plot([0, 1], label="x"))
    plain = styled_by_attributes(figure)
    assert " style=" not in plain
    for name, value in re.findall(r"(stroke-width|stroke-dasharray|fill|text-anchor): ([^;\"]+)", figure):
        assert f'{name}="{value}"' in plain
    assert 'font-size="' in plain
