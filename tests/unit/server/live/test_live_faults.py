"""Faults of what `indubio live` depends on: names, receivers, disks, sockets and versions that are ill."""

import contextlib
import json
import logging
import resource
import select
import socket
import threading
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from indubio.errors import ConfigError, DataError, StoreError
from indubio_server.http import RESERVED
from indubio_server.http.connection_table import GIVE_WAY
from indubio_server.live import delivery
from indubio_server.live.delivery import Delivery, WebhookPoster
from indubio_server.live.journal import Journal, JournalEntry
from indubio_server.live.live_metrics import LIMITS, LiveMetrics, MetricsServer
from indubio_server.live.messages import MessageReader
from indubio_server.live.settings_of_live import Webhook
from indubio_server.models import require_printable
from indubio_server.store import OutboxEvent, ServerStore, add_events, all_events, append, outbox
from tests.live_machines import START, settings

BAD = [
    "m\x85",
    "m\x80",
    "\ufdd0",
    "\uffff",
    "\U0001fffe",
    "press\u202e3",
    "\u200bpress",
    unicodedata.normalize("NFD", "Mühle"),
]
GOOD = ["press-3", "Mühle 7", "压机", "ربط", "a/b", "100 %"]


@pytest.mark.parametrize("name", [*BAD, *GOOD], ids=ascii)
def test_one_rule_for_names_holds_for_messages_and_for_requests(name: str) -> None:
    metrics = LiveMetrics()
    given = settings([{"topic": "gate", "machine": "m"}])
    reader = MessageReader(given.topics, ["flow"], given.ordering, metrics)
    samples = reader.read(JournalEntry(START.value, 1, "gate", json.dumps({"m": name, "flow": 1.0}).encode()))
    by_topic = settings([{"topic": "plant/{machine}"}])
    reader = MessageReader(by_topic.topics, ["flow"], by_topic.ordering, metrics)
    if "/" not in name:
        samples += reader.read(JournalEntry(START.value, 1, f"plant/{name}", b'{"flow": 1.0}'))
    bad = metrics.registry.get_sample_value("indubio_live_bad_total", {"kind": "bad_name"}) or 0
    if name in BAD:
        assert (samples, bad) == ([], 2)
        with pytest.raises(DataError, match="a name must"):
            require_printable(name, "$.machine")
    else:
        assert {sample.machine for sample in samples} == {require_printable(name, "$.machine")}
        assert not bad


def test_a_name_cannot_make_a_topic_that_a_broker_refuses() -> None:
    from indubio_server.live.publishing import topic_of

    assert topic_of("alarms/{machine}", "$SYS/+#%", "press") == "alarms/%24SYS%2F%2B%23%25"
    for template in ("{machine}/alarms", "{model}", "$SYS/{machine}", "alarms\x85/{machine}"):
        with pytest.raises(ConfigError, match="topic to publish at"):
            settings([{"topic": "plant/{machine}"}], publish={"alarms": template})


class Slow:
    """A receiver that says 200 at once, and then a byte of its answer a second."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self.events: list[str] = []
        self.before, self.ended = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self.ended.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            head = b""
            while b"Indubio-Signature" not in head:
                head += connection.recv(65536)
            self.events += [line.split()[1] for line in head.decode().splitlines() if line.startswith("Indubio-Event")]
            try:
                connection.sendall(self.before)
                while not self.ended.wait(0.05):
                    connection.sendall(b"x")
            except OSError:
                pass

    def close(self) -> None:
        self.ended.set()
        self._socket.close()


@pytest.fixture
def slow() -> Iterator[Slow]:
    one = Slow()
    yield one
    one.close()


def told(store: ServerStore, *names: str) -> None:
    def write(connection: Any) -> None:
        events = [(name, {"model": "press", "machine": "m0"}) for name in names]
        append(connection, "live started", {}, rows={outbox: add_events(connection, ["webhook"], "alarm", events)})

    store.write(write)


def eventually(condition: Any, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("before", ["status", "nothing"])
def test_a_receiver_that_trickles_holds_nobody_up(
    sqlite_store: ServerStore, slow: Slow, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """A status that came counts, whatever follows; where none comes, the attempt ends by its deadline."""
    monkeypatch.setenv("INDUBIO_WEBHOOK_SECRET", "hush")
    slow.before = slow.before if before == "status" else b"HTTP/1.1 200 OK\r\nX: "
    told(sqlite_store, "one", "two")
    poster = WebhookPoster(Webhook(url=slow.url, timeout=0.5))
    one = Delivery("webhook", "press", poster.send, sqlite_store, LiveMetrics(), attempts=1, longest_wait=0.05)
    try:
        left = [] if before == "status" else ["no answer within 0.5 s"] * 2
        eventually(lambda: [event.error for event in sqlite_store.read(all_events)] == left, 10.0)
        assert slow.events == ["one", "two"]
    finally:
        one.close()
        poster.close()


def test_the_thousandth_attempt_and_a_fault_of_ours_do_not_end_the_thread(
    sqlite_store: ServerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LOOK_EVERY", 0.02)
    told(sqlite_store, "old", "ill", "well")
    sqlite_store.write(lambda c: c.execute(update(outbox).where(outbox.c.event == "old").values(attempts=1100)))
    taken: list[str] = []

    def send(event: OutboxEvent) -> None:
        if event.event == "old":
            raise delivery.DeliveryError("answered 503")
        if event.event == "ill":
            raise ZeroDivisionError
        taken.append(event.event)

    metrics = LiveMetrics()
    one = Delivery("webhook", "press", send, sqlite_store, metrics, attempts=2000, longest_wait=60)
    try:
        eventually(lambda: taken == ["well"])
        eventually(lambda: {e.event: e.attempts for e in sqlite_store.read(all_events)} == {"old": 1101, "ill": 1})
        assert metrics.registry.get_sample_value("indubio_live_faults_total", {"part": "webhook"}) == 1
    finally:
        one.close()


def test_a_part_that_is_silent_is_told_of() -> None:
    metrics = LiveMetrics()
    metrics.connected.set(1)
    metrics.living("engine")
    assert metrics.trouble() == ([], [])
    metrics.living("webhook", within=0.0)
    time.sleep(0.01)
    ((silent,), others) = metrics.trouble()
    assert silent.startswith("no sign of life from the part 'webhook'")
    assert others == []


def entry(number: int) -> JournalEntry:
    return JournalEntry(number, number, "plant/m0", b"x" * 1000)


def test_a_full_disk_leaves_the_journal_as_it_was_and_the_same_can_be_written_later(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append([entry(1)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2500, limits[1]))
    try:
        for _ in range(3):
            with pytest.raises(OSError, match="File too large"):
                journal.append([entry(2), entry(3), entry(4)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [one for _, one in journal.read(0)][:1] == [entry(1)]
    journal.append([entry(2), entry(5)])
    assert [one for _, one in journal.read(0)] == [entry(1), entry(2), entry(5)]
    journal.close()
    again = Journal(tmp_path)
    assert again.position == 3
    again.close()


def left_open(sockets: list[socket.socket]) -> list[socket.socket]:
    """Those that the other side has not ended."""
    ended, _, _ = select.select(sockets, [], [], 0)
    return [one for one in sockets if one not in ended]


def test_idle_sockets_at_the_port_for_metrics_cost_no_thread_and_give_way() -> None:
    metrics = LiveMetrics()
    metrics.connected.set(1)
    server = MetricsServer(metrics, "127.0.0.1", 0)
    threads, idle = threading.active_count(), []
    # All places, as many as give way at once, and all but one of those that are kept for health checks.
    most = LIMITS.connections_per_address + int(GIVE_WAY[1]) + RESERVED - 1
    try:
        for _ in range(most):
            idle.append(socket.create_connection(("127.0.0.1", server.port)))
            with contextlib.suppress(OSError):  # it may have been refused by now
                idle[-1].sendall(b"GET /metrics HTTP/1.1\r\n")
        answer = httpx.get(f"http://127.0.0.1:{server.port}/health")
        assert (answer.status_code, answer.text) == (200, "all is well\n")
        # Some give way per second; until enough have, whoever comes is told to come again.
        eventually(lambda: "indubio_live_messages_total" in httpx.get(f"http://127.0.0.1:{server.port}/metrics").text)
        assert threading.active_count() <= threads + 1
        assert len(left_open(idle)) <= 200
    finally:
        for one in idle:
            one.close()
        server.close()


def test_a_full_port_is_told_before_anything_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="cannot be listened at"):
        MetricsServer(LiveMetrics(), "127.0.0.1", taken.getsockname()[1])


def test_the_database_that_fails_is_only_told_of_by_a_worker(caplog: pytest.LogCaptureFixture) -> None:
    from indubio_server.live.workers import Worker

    rounds: list[int] = []

    def work() -> float:
        rounds.append(1)
        if len(rounds) == 1:
            raise StoreError("gone")
        return 60.0

    worker = Worker("part", work, LiveMetrics(), within=1.0)
    with caplog.at_level(logging.WARNING):
        worker.start()
        eventually(lambda: len(rounds) == 2)
        worker.close()
    assert [record.message for record in caplog.records] == ["the database failed"]
