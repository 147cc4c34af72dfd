"""Transactions that fail: alarms, budget and cases move with the commit or not at all, where they really fail."""

import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from indubio.errors import StoreError
from indubio_server.models import ExampleOrigin, Loaded, Model, Recorder, ScoredBatch
from indubio_server.models import recorder as recording
from indubio_server.server_settings import AlarmRule, ServerSettings
from indubio_server.store import ServerStore, alarm_history, cases_waiting, ringing, verify
from indubio_server.store.audit_trail import entries
from tests.served import good_rows, table_model
from tests.server_databases import PostgresServer

RULE = AlarmRule(raise_at=3, of=4, clear_at=0)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("model") / "press"
    table_model(folder)
    return Loaded(name="press", version=1, model=Model.load(folder))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "RETRY", 0.02)


def batch(loaded: Loaded, verdicts: str, machine: str = "m") -> ScoredBatch:
    """A batch with these verdicts: A, I or R; what R refers is a case."""
    words = {"A": "ANOMALY", "I": "INLIER", "R": "REFER"}
    detector: Any = loaded.detector
    found = detector.assess(good_rows(len(verdicts)))
    origins = [ExampleOrigin(machine=machine, external_id=None, by="line 3")] * len(verdicts)
    made = ScoredBatch(loaded, found, [b"{}"] * len(verdicts), origins, 0.0)
    made.columns["verdict"] = [words[one] for one in verdicts]
    made.columns["case"] = [f"{np.random.default_rng().integers(2**62):032x}" * (one == "R") for one in verdicts]
    return made


def eventually(condition: Any) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def refuse_commits(store: ServerStore, kind: str) -> None:
    """From now on the disk is full when an entry of this kind is written; on PostgreSQL when it is committed."""
    if store.database.is_sqlite:
        trigger = "CREATE TRIGGER broken BEFORE INSERT ON audit WHEN NEW.kind = '{}' BEGIN {}; END"
        fill = "INSERT INTO filler VALUES (zeroblob(50000000))"
        for statement in ("CREATE TABLE filler (x)", trigger.format(kind, fill)):
            store.write(lambda c, statement=statement: c.exec_driver_sql(statement))
        store.write(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 1000").all())
        return
    function = (
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NEW.kind = '{}' THEN RAISE EXCEPTION SQLSTATE '53100' USING MESSAGE = 'disk full'; END IF; "
        "RETURN NEW; END $$"
    )
    store.write(lambda c: c.exec_driver_sql(function.format(kind)))
    # deferred: it is the COMMIT itself that fails
    trigger = "CREATE CONSTRAINT TRIGGER broken AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
    store.write(lambda c: c.exec_driver_sql(f"{trigger} EXECUTE FUNCTION broken()"))


def work_again(store: ServerStore) -> None:
    of = "" if store.database.is_sqlite else " ON audit"
    with store.database.writing() as connection:  # alone: the recorder's next attempt would take it down with it
        connection.execute(text(f"DROP TRIGGER broken{of}"))


def kinds(store: ServerStore) -> list[str]:
    return [one.kind for one in reversed(store.read(alarm_history))]


def test_an_alarm_whose_commit_fails_is_raised_late_and_once(store: ServerStore, loaded: Loaded) -> None:
    recorder = Recorder(store, ServerSettings(alarm=RULE), lambda count: None)
    recorder.record(batch(loaded, "AA"), []).result()
    refuse_commits(store, "alarm raised")
    with pytest.raises(StoreError):
        recorder.record(batch(loaded, "A"), []).result()
    assert store.read(ringing) == {}
    work_again(store)
    eventually(lambda: not recorder.failing)
    assert list(store.read(ringing)) == ["m"]
    recorder.record(batch(loaded, "A"), []).result()
    assert kinds(store) == ["raised"]
    assert store.read(verify).findings == ()


def test_verdicts_that_are_written_late_raise_and_clear_alarms_in_order(store: ServerStore, loaded: Loaded) -> None:
    recorder = Recorder(store, ServerSettings(alarm=RULE), lambda count: None)
    refuse_commits(store, "verdicts")
    for verdicts in ("AAA", "IIII", "AA"):
        with pytest.raises(StoreError):
            recorder.record(batch(loaded, verdicts), []).result()
    work_again(store)
    recorder.record(batch(loaded, "A"), []).result()  # newer than all that waits, and written after it
    eventually(lambda: not recorder.failing)
    assert kinds(store) == ["raised", "cleared", "raised"]
    found = store.read(verify)
    assert (found.findings, found.verdicts) == ((), 10)


def test_refused_rows_leave_no_trace(store: ServerStore, loaded: Loaded) -> None:
    overflow: list[int] = []
    settings = ServerSettings(alarm=RULE, referrals_per_hour=2)
    recorder = Recorder(store, settings, overflow.append)
    refuse_commits(store, "verdicts")
    with pytest.raises(StoreError):
        recorder.record(batch(loaded, "RRRAAA"), range(6)).result()
    work_again(store)
    eventually(lambda: not recorder.failing)
    assert (store.read(cases_waiting), kinds(store), overflow) == ([], [], [])
    assert [entry.kind for entry in store.read(lambda c: list(entries(c)))] == []
    recorder.record(batch(loaded, "RRR"), range(3)).result()
    assert [case.overflow for case in store.read(cases_waiting)] == [False, False, True]
    assert overflow == [1]


def test_two_processes_share_the_alarms_and_the_budget_of_a_store(database_url: str, loaded: Loaded) -> None:
    settings = ServerSettings(alarm=RULE, referrals_per_hour=8)
    with ServerStore(database_url) as one, ServerStore(database_url) as two:
        recorders = [Recorder(store, settings, lambda count: None) for store in (one, two)]
        waiting = [recorders[number % 2].record(batch(loaded, "AR"), []) for number in range(12)]
        for done in waiting:
            done.result()
        recorders[1].record(batch(loaded, "AAA"), []).result()
        recorders[0].record(batch(loaded, "IIII"), []).result()
        assert kinds(one) == ["raised", "cleared"]
        assert sum(not case.overflow for case in one.read(cases_waiting)) == 8
        assert one.read(verify).findings == ()


class LosesTheAnswer:
    """A relay to PostgreSQL that passes a COMMIT on and then hangs up, so that nobody hears whether it came through."""

    def __init__(self, target: str, folder: Path) -> None:
        self._target = target
        self.armed = threading.Event()
        self._sockets: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            self._sockets += [client, server]
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
            threading.Thread(target=_copy, args=(server, client), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed at the end
            while content := client.recv(65536):
                if self.armed.is_set() and b"COMMIT" in content:
                    self.armed.clear()
                    client.shutdown(socket.SHUT_RDWR)
                    server.sendall(content)
                    return
                server.sendall(content)
            server.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for one in (self._listening, *self._sockets):
            one.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            target.sendall(content)


@pytest.fixture
def relayed(postgres_server: PostgresServer) -> Iterator[Any]:
    url = postgres_server.new_database()
    folder = Path(url.partition("host=")[2].partition("&")[0])
    with tempfile.TemporaryDirectory(prefix="relay-") as place:
        relay = LosesTheAnswer(str(folder / ".s.PGSQL.5432"), Path(place))
        yield relay, url.replace(str(folder), place)
        relay.close()


def test_a_commit_that_came_through_though_its_answer_was_lost_is_not_written_again(
    relayed: tuple[LosesTheAnswer, str], loaded: Loaded
) -> None:
    relay, url = relayed
    with ServerStore(url) as store:
        recorder = Recorder(store, ServerSettings(alarm=RULE), lambda count: None)
        recorder.record(batch(loaded, "AA"), []).result()
        relay.armed.set()
        with pytest.raises(StoreError):
            recorder.record(batch(loaded, "A"), []).result()
        eventually(lambda: not recorder.failing)
        found = store.read(verify)
        assert (found.findings, found.verdicts, kinds(store)) == ((), 3, ["raised"])
