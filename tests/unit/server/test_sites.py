"""Rights by site: whoever is for some sites scores, sees and labels what is theirs, and learns of nothing else."""

import csv
import io
import re
import time
from collections.abc import Iterator

import httpx
import pytest
from sqlalchemy import text

from indubio import Budget, Detector
from indubio.errors import ConfigError, NotFoundError
from indubio_server.store import (
    Filters,
    Role,
    add_key,
    case_by_id,
    chosen_cases,
    history,
    keys_in_use,
    review,
    revoke_key,
    undo,
    verify,
)
from indubio_server.store import ringing as ringing_now
from indubio_server.store.audit_trail import entries
from tests.review_server import Running, logged_in, running, token
from tests.small_examples import ROWS, TRAINING, table

PLANT = """
[sites.hamburg.lines.press]
machines = ["press-*"]
[sites.hamburg.lines.mill]
machines = ["mill-1"]
[sites.berlin.lines.press]
machines = ["b-*"]
"""
SITES = {
    "hanna": (Role.REVIEWER, ["hamburg"]),
    "boris": (Role.REVIEWER, ["berlin"]),
    "hamburg admin": (Role.ADMIN, ["hamburg"]),
    "hamburg line": (Role.SCORER, ["hamburg"]),
}
MACHINES = ["press-1", "mill-1", "b-1", "elsewhere", ""]


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("sites")
    plant = folder / "plant.toml"
    plant.write_text(PLANT)
    detector = Detector(referral=Budget(share=0.2)).fit(table(TRAINING))
    with running(detector, folder, plant=plant, sites=SITES, control_share=1.0, referrals_per_hour=500) as started:
        for machine in MACHINES:
            started.assess(ROWS[:3], machine)
        yield started


@pytest.fixture(scope="module")
def hanna(server) -> Iterator[httpx.Client]:
    with logged_in(server, "hanna") as client:
        yield client


def numbers(server: Running, *machines: str) -> list[int]:
    return [one.id for one in server.store.read(chosen_cases) if one.machine in machines]


def asked(server: Running, path: str, name: str, **options) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", headers={"X-API-Key": server.keys[name]}, **options)


def test_a_scorer_scores_for_its_own_machines_only(server):
    verdicts = server.store.read(lambda c: sum(entry.kind == "verdicts" for entry in entries(c)))
    for machine in ("b-1", "elsewhere", "", ["press-1", "b-1"]):
        answer = server.asked(ROWS[:2], machine, key="hamburg line")
        assert answer.status_code == 403
        assert "may score for the machines of hamburg only" in answer.json()["error"]
    told = server.asked(ROWS[:1], "", key="hamburg line").json()["error"]
    assert "say in `machine` which one" in told
    headers = {"X-API-Key": server.keys["hamburg line"]}
    tensor = {"name": "rows", "shape": [1, ROWS.shape[1]], "datatype": "FP64", "data": ROWS[0].tolist()}
    for machine, status in (("b-1", 403), ("press-1", 200)):
        body = {"inputs": [tensor], "parameters": {"machine": machine}}
        answer = httpx.post(f"{server.url}/v2/models/press/infer", json=body, headers=headers)
        assert answer.status_code == status, answer.text
    assert server.store.read(lambda c: sum(entry.kind == "verdicts" for entry in entries(c))) == verdicts + 1


def test_a_reviewer_sees_the_queue_of_their_sites_and_counts_nothing_else(server, hanna):
    own = numbers(server, "press-1", "mill-1")
    page = hanna.get("/review").text
    assert f"{len(own)} cases wait" in page
    assert f"of {len(own)} cases decided" in page
    assert {int(one) for one in re.findall(r"/review/cases/(\d+)", page)} == set(own)
    assert "berlin" not in page
    assert "elsewhere" not in page
    line = hanna.get("/review", params={"site": "hamburg/mill"}).text
    assert {int(one) for one in re.findall(r"/review/cases/(\d+)", line)} == set(numbers(server, "mill-1"))
    assert hanna.get("/review", params={"machine": "b-1"}).text.count("/review/cases/") == 0
    with logged_in(server, "ada") as ada:
        assert f"{len(numbers(server, *MACHINES))} cases wait" in ada.get("/review").text
        berlin = ada.get("/review", params={"site": "berlin"}).text
        assert f"{len(numbers(server, 'b-1'))} cases wait" in berlin


def test_a_case_of_another_site_is_as_if_it_were_not_there(server, hanna):
    other = numbers(server, "b-1", "elsewhere", "")
    said = {"label": "A", "comment": "mine", "token": token(hanna)}
    missing = hanna.get("/review/cases/999999")
    for number in other[::3]:
        for path in (f"/review/cases/{number}", f"/review/cases/{number}/comment"):
            assert hanna.post(path, data=said).status_code == 404
        shown = hanna.get(f"/review/cases/{number}")
        assert shown.status_code == missing.status_code == 404
        named = re.sub(rf"(case |cases%2F){number}\b", r"\g<1>999999", shown.text)  # as the address asked
        assert named == missing.text
        assert server.store.read(lambda c, number=number: history(c, number)) == []
        case = server.store.read(lambda c, number=number: case_by_id(c, number))
        assert asked(server, f"/cases/{case.reference}", "hanna").status_code == 404
        assert asked(server, f"/cases/{case.reference}", "ada").status_code == 200
    held = server.store.read(lambda c: [row.case_id for row in c.execute(text("SELECT case_id FROM claims"))])
    assert not set(held) & set(other)


def test_walking_through_the_queue_never_leaves_the_site(server):
    with logged_in(server, "boris") as boris:
        own, seen = set(numbers(server, "b-1")), []
        while True:
            page = boris.get("/review/next")
            if page.url.path == "/review":
                break
            number = int(page.url.path.rsplit("/", 1)[1])
            seen.append(number)
            boris.post(f"/review/cases/{number}", data={"label": "I", "token": token(boris)})
        assert set(seen) == own
        assert "Nothing more waits for you" in page.text
    with logged_in(server, "hanna") as hanna:
        assert "/review/cases/" not in hanna.get("/review", params={"second": "yes"}).text
    with logged_in(server, "ada") as ada:
        assert ada.get("/review", params={"second": "yes"}).text.count("/review/cases/") == len(own)


def test_insights_status_and_models_tell_of_the_own_site_only(server, hanna):
    for number in numbers(server, "elsewhere", ""):
        server.store.write(lambda c, number=number: review(c, number, "bob", "A"))
    assert "0 of 0" in hanna.get("/review/insights").text
    with logged_in(server, "ada") as ada:
        assert "Site" in ada.get("/review/insights").text
        assert "Nobody has decided" in ada.get("/review/insights", params={"site": "hamburg"}).text
        assert "In no line" in ada.get("/review/status").text
    status = hanna.get("/review/status").text
    assert "hamburg/press" in status
    assert "hamburg/mill" in status
    for hidden in ("berlin", "b-1", "elsewhere", "In no line", " examples", "of 500"):
        assert hidden not in status, hidden
    assert "confirmed inlier" not in hanna.get("/review/models").text
    for path in ("/review", "/review/insights", "/review/status", "/review/exchange", "/alarms"):
        for unknown in ("berlin", "berlin/press", "atlantis"):
            assert hanna.get(path, params={"site": unknown}).status_code == 404, path


def test_exports_and_imports_stay_within_the_site(server, hanna):
    rows = list(csv.DictReader(io.StringIO(hanna.get("/review/exchange/reviews.csv").text)))
    assert {row["machine"] for row in rows} == {"press-1", "mill-1"}
    tasks = hanna.get("/review/exchange/label-studio.json", params={"site": "hamburg/mill"}).json()
    assert {task["data"]["machine"] for task in tasks} == {"mill-1"}
    last = server.store.read(lambda c: [one for one in entries(c) if one.kind == "exported"][-1])
    assert last.content == {"cases": len(tasks), "as": "Label Studio", "sites": ["hamburg"], "site": "hamburg/mill"}
    other = server.store.read(lambda c: chosen_cases(c, Filters(machine="b-1")))[0].reference
    told = []
    for reference in (other, "0" * 32):
        file = {"labels": ("l.csv", f"reference,label\n{reference},anomaly\n")}
        answer = hanna.post("/review/exchange/labels", data={"token": token(hanna)}, files=file)
        assert answer.status_code == 400
        told.append(answer.text.replace(reference, "?"))
    assert told[0] == told[1]


def test_what_is_for_all_sites_is_not_for_the_admin_of_one(server):
    headers = {"X-API-Key": server.keys["hamburg admin"]}
    for path in ("/models/press/activate", "/v2/repository/models/press/load"):
        answer = httpx.post(f"{server.url}{path}", json={"version": 1}, headers=headers)
        assert answer.status_code == 403
        assert "this is for all sites" in answer.json()["error"]
    for path in ("activate", "retrain", "learn", "recalibrate"):
        answer = httpx.post(f"{server.url}/review/models/press/{path}", data={"version": 1}, headers=headers)
        assert answer.status_code == 403
    assert asked(server, "/metrics", "hamburg admin").status_code == 403
    assert "evaluation" not in asked(server, "/models/press", "hamburg admin").text
    assert server.asked(ROWS[:1], "press-1", key="hamburg admin").status_code == 200


def test_alarms_and_rates_are_told_by_site_and_line(server):
    for machine in ("b-2", "press-9"):
        server.assess(ROWS[:1] + 50.0, [machine])
        for _ in range(4):
            server.assess(ROWS[:1] + 50.0, machine)
    rules = set(server.store.read(ringing_now))
    assert {"b-2", "press-9"} <= rules
    ringing = {name: set(asked(server, "/alarms", name).json()["ringing"]) for name in ("hanna", "boris", "ada")}
    assert ringing["hanna"] == {one for one in rules if one.startswith(("press", "mill"))}
    assert ringing["boris"] == {one for one in rules if one.startswith("b-")}
    assert ringing["ada"] == rules
    chosen = asked(server, "/alarms", "ada", params={"site": "berlin/press"}).json()
    assert set(chosen["ringing"]) == ringing["boris"]
    assert {event["machine"] for event in chosen["events"]} <= {"b-1", "b-2"}
    assert asked(server, "/alarms", "hanna").json()["drift"] == []
    metrics = asked(server, "/metrics", "eve").text
    assert 'indubio_line_cases_waiting{line="mill",site="hamburg"} 3.0' in metrics
    assert re.search(r'indubio_line_verdicts_total\{line="press",site="berlin",verdict="\w+"\} \d', metrics)
    assert re.search(r'indubio_line_verdicts_total\{line="",site="",verdict="\w+"\} \d', metrics)
    assert 'indubio_line_referrals_hour{line="press",site="berlin"}' in metrics
    assert "elsewhere" not in metrics  # machines are no labels


def plants_read(server: Running) -> list[list[str]]:
    read = server.store.read(lambda c: [one for one in entries(c) if one.kind == "plant read"])
    return [sorted(one.content["lines"]) for one in read]


def wait_for(server: Running, lines: list[str]) -> None:
    """Until the server has followed its plant file; it looks every few seconds."""
    until = time.monotonic() + 30
    while plants_read(server)[-1] != lines:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_plant_can_change_under_those_who_are_logged_in(server):
    path = server.service.state.parent / "plant.toml"
    before = ["berlin/press", "hamburg/mill", "hamburg/press"]
    assert plants_read(server) == [before]
    with logged_in(server, "boris") as boris:
        assert boris.get("/review", params={"site": "berlin"}).status_code == 200
        path.write_text(PLANT.replace("berlin", "leipzig"))
        try:
            wait_for(server, ["hamburg/mill", "hamburg/press", "leipzig/press"])
            assert "0 cases wait" in boris.get("/review").text
            assert boris.get("/review", params={"site": "berlin"}).status_code == 404
        finally:
            path.write_text(PLANT)
            wait_for(server, before)
        assert boris.get("/review", params={"site": "berlin"}).status_code == 200


def test_a_label_of_another_site_cannot_be_undone_from_this_one(server):
    number = numbers(server, "b-1")[0]
    seen = Filters(machines=server.service.plant.patterns({"hamburg"}))
    server.store.write(lambda c: review(c, number, "hanna", "A"))
    with pytest.raises(NotFoundError):
        server.store.write(lambda c: undo(c, "hanna", filters=seen))


def test_the_audit_trail_holds_a_keys_sites(store):
    store.write(lambda c: add_key(c, "line 1", Role.SCORER, sites=["hamburg", "berlin"], actor="test"))
    store.write(lambda c: add_key(c, "line 2", Role.SCORER, actor="test"))
    added = store.read(lambda c: [one.content["rows"]["keys"] for one in entries(c) if one.kind == "key added"])
    assert [key.get("sites") for rows in added for key in rows.values()] == ['["berlin","hamburg"]', None]
    assert [key.sites for key in store.read(keys_in_use).values()] == [frozenset({"berlin", "hamburg"}), None]
    assert store.read(verify).findings == ()
    for change in ("NULL WHERE name = 'line 1'", "'[\"berlin\"]' WHERE name = 'line 2'"):
        with store.database.writing() as connection:
            connection.execute(text(f"UPDATE keys SET sites = {change}"))
            assert len(verify(connection).findings) == 1
            connection.rollback()
    store.write(lambda c: revoke_key(c, "line 1", actor="test"))
    assert store.read(verify).findings == ()
    for bad in ([], ["a/b"], [""]):
        with pytest.raises(ConfigError):
            store.write(lambda c, bad=bad: add_key(c, "line 3", Role.SCORER, sites=bad, actor="test"))
    with pytest.raises(ConfigError, match="oidc:"):
        store.write(lambda c: add_key(c, "oidc:ada", Role.ADMIN, actor="test"))
