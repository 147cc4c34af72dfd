"""What a factory does to a server: kill -9, a database that goes away, a disk that is full."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from indubio.errors import StoreError
from indubio_server import service
from indubio_server.store import ServerStore, append, cases_waiting, count_waiting, database, unanswered, verify
from indubio_server.store.audit_trail import entries
from tests.served import mixed_model, serving
from tests.server_databases import PostgresServer, postgres
from tests.server_killing import killed_under_load

BAD = {"weight": None, "colour": "red"}
GOOD = {"weight": 0.0, "colour": "blue"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "parts"
    mixed_model(folder)
    return folder


@pytest.fixture
def stoppable() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


def eventually(condition: Any, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_was_acknowledged_survives_a_kill(model: Path, tmp_path: Path) -> None:
    cases = reviews = 0
    for seed in range(2):
        told, found = killed_under_load(model, tmp_path / "state", seed)
        cases, reviews = cases + len(told.cases), reviews + len(told.reviews)
        assert found.findings == ()
    assert found.cases >= cases > 0
    assert found.reviews >= reviews > 0


@pytest.mark.slow
def test_what_was_acknowledged_survives_fifty_kills(model: Path, tmp_path: Path) -> None:
    cases = reviews = 0
    for seed in range(50):
        told, found = killed_under_load(model, tmp_path / "state", seed)
        cases, reviews = cases + len(told.cases), reviews + len(told.reviews)
        assert found.findings == ()
    assert found.cases >= cases > 0
    assert found.reviews >= reviews > 0


def test_without_its_database_the_server_refuses_and_loses_nothing(
    stoppable: PostgresServer, model: Path, tmp_path: Path
) -> None:
    with ServerStore(stoppable.new_database()) as store, serving(store, {"parts": model}, tmp_path) as (_, client):
        kept = [client.post("/assess", json={"rows": [BAD]}).json()["results"][0]["case"]]
        stoppable.stop()
        gone = client.post("/assess", json={"rows": [BAD]})
        assert (gone.status_code, gone.headers["retry-after"]) == (503, "5")
        assert "socket" not in gone.text
        assert client.post("/assess", json={"rows": [GOOD]}).status_code == 503
        assert client.get("/v2/health/ready").status_code == 503
        assert client.get("/v2/health/live").status_code == 200
        assert client.get("/cases/x").status_code == 503
        watched = client.get("/metrics")
        assert watched.status_code == 200
        assert {"indubio_database_up 0.0", "indubio_cases_waiting NaN"} <= set(watched.text.splitlines())
        stoppable.start()
        eventually(lambda: client.get("/v2/health/ready").status_code == 200)
        kept.append(client.post("/assess", json={"rows": [BAD]}).json()["results"][0]["case"])
        assert {case.reference for case in store.read(cases_waiting)} == set(kept)
        assert store.read(verify).whole


def test_a_database_that_hangs_is_refused_as_one_that_fails(
    stoppable: PostgresServer, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen, its connections stay open and say nothing: everybody is told so within seconds."""
    monkeypatch.setattr(database, "WRITE_WITHIN", 1)
    monkeypatch.setattr(unanswered, "AT_ALL", 1.0)
    monkeypatch.setitem(database.GONE, "connect_timeout", 2)
    with ServerStore(stoppable.new_database()) as store, serving(store, {"parts": model}, tmp_path) as (_, client):
        kept = [client.post("/assess", json={"rows": [BAD]}).json()["results"][0]["case"]]
        with stoppable.frozen():
            assert client.post("/assess", json={"rows": [BAD]}, timeout=30).status_code == 503
            assert client.get("/v2/health/ready").status_code == 503
            assert client.get("/cases/x", timeout=30).status_code == 503
            assert "indubio_database_up 0.0" in client.get("/metrics", timeout=30).text.splitlines()
        eventually(lambda: client.get("/v2/health/ready").status_code == 200)
        kept.append(client.post("/assess", json={"rows": [BAD]}).json()["results"][0]["case"])
        assert {case.reference for case in store.read(cases_waiting)} == set(kept)
        assert store.read(verify).whole


def test_a_server_that_nobody_asks_is_not_ready_while_its_database_hangs(
    stoppable: PostgresServer, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "SILENT", 3.0)
    with ServerStore(stoppable.new_database()) as store, serving(store, {"parts": model}, tmp_path) as (_, client):
        assert client.get("/v2/health/ready").status_code == 200
        with stoppable.frozen():
            eventually(lambda: client.get("/v2/health/ready").status_code == 503)
        eventually(lambda: client.get("/v2/health/ready").status_code == 200)


def test_without_its_database_the_server_scores_where_it_was_told_to_and_says_so(
    stoppable: PostgresServer, model: Path, tmp_path: Path
) -> None:
    with (
        ServerStore(stoppable.new_database()) as store,
        serving(store, {"parts": model}, tmp_path, when_database_fails="score") as (service, client),
    ):
        stoppable.stop()
        answer = client.post("/assess", json={"rows": [BAD, GOOD]}).json()
        assert (answer["kept"], answer["results"][0]["verdict"], answer["results"][0]["case"]) == (False, "REFER", None)
        assert client.get("/v2/health/ready").status_code == 200
        stoppable.start()
        eventually(lambda: not service.recorder.failing)
        assert client.post("/assess", json={"rows": [BAD]}).json()["kept"]
        late = [entry.content for entry in store.read(lambda c: list(entries(c))) if entry.kind == "verdicts"]
        assert [len(one["records"]) for one in late if one.get("late")] == [2]
        found = store.read(verify)
        assert found.whole
        assert (found.verdicts, found.cases) == (3, 1)


def test_a_full_disk_is_told_and_corrupts_nothing(sqlite_store: ServerStore, model: Path, tmp_path: Path) -> None:
    def limit(pages: int) -> None:
        sqlite_store.write(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages}").all())

    with serving(sqlite_store, {"parts": model}, tmp_path) as (service, client):
        (pages,) = sqlite_store.read(lambda c: c.exec_driver_sql("PRAGMA page_count").one())
        limit(pages + 2)
        kept: list[str] = []
        while (answer := client.post("/assess", json={"rows": [BAD] * 20})).status_code == 200:
            kept += [result["case"] for result in answer.json()["results"]]
        assert answer.status_code == 503
        with pytest.raises(StoreError, match="disk is full"):
            sqlite_store.write(lambda c: append(c, "noted", {"text": "x" * 50_000}))
        limit(1_000_000)
        eventually(lambda: not service.recorder.failing)
        assert client.post("/assess", json={"rows": [BAD]}).status_code == 200
        assert sqlite_store.read(lambda c: count_waiting(c)) == len(kept) + 1
        assert sqlite_store.read(verify).whole
        assert sqlite_store.read(lambda c: c.exec_driver_sql("PRAGMA integrity_check").scalar()) == "ok"


def test_a_stopped_server_answers_first_and_anchors_its_trail(model: Path, tmp_path: Path) -> None:
    from indubio_server.store import read_anchors
    from tests.server_killing import ask, free_port, started

    port, state = free_port(), tmp_path / "state"
    process = started(model, state, port)
    assert len(ask(port, [BAD])) == 1
    process.terminate()
    assert process.wait() == 0
    with ServerStore(f"sqlite:///{state / 'indubio.sqlite'}") as store:
        trail = store.read(lambda c: list(entries(c)))
        assert [trail[0].kind, trail[-1].kind] == ["version added", "stopped"]
        anchors = read_anchors(state / "audit.anchor").heads
        assert anchors[-1].hash == trail[-1].hash
        assert store.read(lambda c: verify(c, anchors)).whole


def test_slow_bodies_are_given_up(model: Path, tmp_path: Path, sqlite_store: ServerStore, monkeypatch: Any) -> None:
    monkeypatch.setattr("indubio_server.http.request_bodies.BODY_SECONDS", 0.2)

    def slow() -> Iterator[bytes]:
        yield b"{"
        time.sleep(1)
        yield b"}"

    with serving(sqlite_store, {"parts": model}, tmp_path) as (_, client):
        try:
            answer = client.post("/assess", content=slow(), headers={"content-type": "application/json"})
            assert answer.status_code == 408
        except httpx.WriteError:
            pass  # the server closed before all was sent
