"""`indubio serve` and `indubio live` on one database at the same time, about the same machines."""

import threading
import time
from collections import defaultdict
from pathlib import Path

import httpx
import pytest

from indubio_server.store import ServerStore, verify
from indubio_server.store.audit_trail import entries
from tests.live_broker import MOSQUITTO, Live, Mosquitto, Publisher, wait_for
from tests.live_machines import WIDE, assessed, fitted, recording, shuffled, wide_messages
from tests.served import row, table_model
from tests.server_killing import free_port, started

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto, a real broker, is not installed"),
]
TOPICS = [{"topic": "plant/{machine}", "values": "v", "time": "t"}]
SETTINGS = {"topics": TOPICS, "ordering": {"behind": 1e10, "lateness": 0.5}}
MACHINES = 4
TURN = 10 * MACHINES  # rows that are good, or bad, before it is the others' turn: ten of each machine


def told_over_http(url: str, ended: threading.Event) -> int:
    """Ask about the machines that are listened to, good and bad rows by turns; how many verdicts were given.

    Four turns follow when the listening has ended. A bad one and the good one after it are whole among them, so that
    every machine has an alarm that is raised and cleared, whatever came before and however slow the computer is.
    """
    count, last = 0, None
    with httpx.Client(base_url=url, timeout=60) as client:
        while last is None or count < last:
            if last is None and ended.is_set():
                last = count + 4 * TURN
            rows = [row(flow=40.0 if count // TURN % 2 else 0.1)] * 2
            answer = client.post("/assess", json={"rows": rows, "machine": f"m{count // 2 % MACHINES}", "top": 0})
            assert answer.status_code == 200, answer.text
            count += len(rows)
            time.sleep(0.005)
    return count


def test_alarms_of_machines_that_both_judge_are_neither_lost_nor_doubled(database_url: str, tmp_path: Path) -> None:
    model = fitted(tmp_path / "press", WIDE)
    table_model(tmp_path / "parts")
    (tmp_path / "served").mkdir()
    port, ended, asked = free_port(), threading.Event(), []
    broker = Mosquitto(tmp_path)
    broker.start()
    server = started(tmp_path / "parts", tmp_path / "served" / "state", port, "--db", database_url)
    live = Live(tmp_path, model, broker, dict(SETTINGS), "--db", database_url)
    live.start()
    rows = recording(MACHINES, 400)
    asking = threading.Thread(target=lambda: asked.append(told_over_http(f"http://127.0.0.1:{port}", ended)))
    try:
        wait_for(live.healthy)
        asking.start()
        publisher = Publisher(broker.port)
        messages = list(wide_messages(shuffled(rows, within=0.45)))
        for first in range(0, len(messages), 40):
            publisher.send(messages[first : first + 40])
        publisher.close()
        wait_for(lambda: live.metric("samples_total") >= len(messages))
    finally:
        ended.set()
        asking.join()
        assert live.stop() == 0
        server.terminate()
        server.wait()
        broker.stop()
    with ServerStore(database_url) as store:
        assert store.read(verify).findings == ()
        trail = store.read(lambda c: list(entries(c)))
    verdicts = [one for entry in trail if entry.kind == "verdicts" for one in entry.content["records"]]
    listened = [(one["machine"], one["start"]) for one in verdicts if "start" in one]
    assert len(listened) == len(set(listened)) > 0.9 * len(assessed(model, rows))
    assert asked == [len(verdicts) - len(listened)]
    assert _alarms_by_the_rule(trail) == [
        (alarm["machine"], entry.kind)
        for entry in trail
        if entry.kind.startswith("alarm ")
        for alarm in entry.content["rows"]["alarms"].values()
    ]


def _alarms_by_the_rule(trail: list) -> list[tuple[str, str]]:
    """3 anomalies or unfamiliar ones of the last 5 raise an alarm, none of 5 clears it: in order, by a plain loop."""
    last: dict[str, list[bool]] = defaultdict(list)
    ringing: set[str] = set()
    expected = []
    for entry in trail:
        for record in entry.content["records"] if entry.kind == "verdicts" else ():
            machine = record["machine"]
            last[machine].append(record["verdict"] == "ANOMALY" or record["reason"] == "unfamiliar")
            bad = sum(last[machine][-5:])
            if machine not in ringing and bad >= 3:
                ringing.add(machine)
                expected.append((machine, "alarm raised"))
            elif machine in ringing and bad == 0 and len(last[machine]) >= 5:
                ringing.remove(machine)
                expected.append((machine, "alarm cleared"))
    assert len(expected) >= 2 * MACHINES, "the test is about alarms"
    return expected
