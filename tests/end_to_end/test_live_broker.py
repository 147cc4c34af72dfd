"""`indubio live` beside a real Mosquitto: killed, restarted, and told nonsense; nothing is lost and nothing doubled."""

import contextlib
import hashlib
import hmac
import http.server
import json
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import paho.mqtt.client as mqtt
import pandas as pd
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from indubio_server.live.live_metrics import LiveMetrics
from indubio_server.live.settings_of_live import Broker
from indubio_server.live.subscription import Subscription
from indubio_server.store import ServerStore, add_events, alarm_history, all_events, append, outbox, verify
from indubio_server.store.audit_trail import entries
from tests.live_broker import MOSQUITTO, Live, Mosquitto, Publisher, wait_for
from tests.live_machines import WIDE, assessed, fitted, recording, shuffled, wide_messages

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto, a real broker, is not installed"),
]
TOPICS = [{"topic": "plant/{machine}", "values": "v", "time": "t"}]
SETTINGS = {"topics": TOPICS, "ordering": {"behind": 1e10, "lateness": 0.5}, "snapshot_every": 1.0}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted(tmp_path_factory.mktemp("wide") / "press", WIDE)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    one = Mosquitto(tmp_path)
    one.start()
    yield one
    one.stop()


def written(live: Live) -> dict[tuple[str, str], dict[str, Any]]:
    """The verdicts in the audit trail, by machine and start of the window; each is there once."""
    with ServerStore(f"sqlite:///{live.state / 'indubio.sqlite'}") as store:
        assert not store.read(verify).findings
        told = [
            record
            for entry in store.read(lambda c: list(entries(c)))
            if entry.kind == "verdicts"
            for record in entry.content["records"]
        ]
    found = {(record["machine"], record["start"]): record for record in told}
    assert len(found) == len(told), "a verdict was written twice"
    return found


def alarms(live: Live) -> list[tuple[str, str]]:
    with ServerStore(f"sqlite:///{live.state / 'indubio.sqlite'}") as store:
        return [(one.machine, one.kind) for one in reversed(store.read(lambda c: alarm_history(c, limit=1000)))]


def with_an_end(rows: pd.DataFrame) -> pd.DataFrame:
    """A last row of every machine after a pause: with it all that came before is passed on."""
    last = rows.groupby("machine", sort=False).tail(1).copy()
    last["time"] += pd.Timedelta(hours=1)
    return pd.concat([rows, last], ignore_index=True)


def test_kills_of_both_lose_nothing_and_double_nothing(model, broker, tmp_path):
    rows = recording(6, 400)
    live = Live(tmp_path, model, broker, dict(SETTINGS))
    live.start()
    publisher = Publisher(broker.port)
    messages = list(wide_messages(shuffled(rows, within=0.45)))
    chance, kills = random.Random(5), [live, broker, live, live, broker]
    parts = [messages[first : first + 60] for first in range(0, len(messages), 60)]
    for number, part in enumerate(parts):
        publisher.send(part)
        time.sleep(chance.uniform(0.0, 0.1))
        if number % 8 == 7 and kills:
            wait_for(live.healthy)
            time.sleep(chance.uniform(0.0, 0.5))
            victim = kills.pop()
            victim.kill()
            publisher.lost = publisher.lost or victim is broker
            victim.start()
    assert not kills
    publisher.send(wide_messages(with_an_end(rows).groupby("machine").tail(1)))
    publisher.close()
    should = assessed(model, rows)
    wait_for(lambda: len(written(live)) >= len(should))
    assert live.stop() == 0
    found = written(live)
    assert found.keys() == should.keys()
    for key, record in found.items():
        assert (record["probability"], record["verdict"]) == (should[key]["probability"], should[key]["verdict"])
    rung = alarms(live)
    assert sorted(machine for machine, kind in rung if kind == "raised") == ["m1", "m3", "m5"]
    assert sorted(machine for machine, kind in rung if kind == "cleared") == ["m1", "m3", "m5"]


class Receiver(http.server.BaseHTTPRequestHandler):
    """A webhook that refuses every event once."""

    seen: list[tuple[str, dict[str, Any], bool]]
    refused: set[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        event = self.headers["Indubio-Event"]
        signed = hmac.new(b"hush", self.headers["Indubio-Time"].encode() + b"." + body, hashlib.sha256).hexdigest()
        self.seen.append((event, json.loads(body), self.headers["Indubio-Signature"] == f"v1={signed}"))
        first = event not in self.refused
        self.refused.add(event)
        self.send_response(503 if first else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def test_alarms_and_verdicts_go_to_topics_and_a_webhook(model, broker, tmp_path, monkeypatch):
    monkeypatch.setenv("INDUBIO_WEBHOOK_SECRET", "hush")
    Receiver.seen, Receiver.refused = [], set()
    hook = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{hook.server_address[1]}/events"
    out = {"verdicts": "judged/{model}/{machine}", "alarms": "alarms/{machine}"}
    live = Live(tmp_path, model, broker, SETTINGS | {"publish": out, "webhook": {"url": url}})
    live.start()
    wait_for(live.healthy)
    heard: dict[str, list[dict[str, Any]]] = {}
    listener = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    listener.on_message = lambda *args: heard.setdefault(args[2].topic, []).append(json.loads(args[2].payload))
    listener.connect("127.0.0.1", broker.port)
    listener.subscribe([("judged/#", 1), ("alarms/#", 1)])
    listener.loop_start()
    rows = recording(2, 400)
    publisher = Publisher(broker.port)
    publisher.send(wide_messages(shuffled(rows, within=0.4)))
    publisher.send([("plant/m0", b"{"), ("plant/m0", b'{"t": "2031-01-01", "v": {"flow": 1}}')])
    publisher.send(wide_messages(with_an_end(rows).groupby("machine").tail(1)))
    should = assessed(model, rows)
    try:
        wait_for(lambda: sum(len(heard.get(f"judged/press/{m}", [])) for m in ("m0", "m1")) == len(should))
        for machine in ("m0", "m1"):
            for told in heard[f"judged/press/{machine}"]:
                assert told["probability"] == should[machine, told["start"]]["probability"]
        # The last state is published again on every new connection, so an event is told by its id.
        wait_for(lambda: [*{t["id"]: t["alarm"] for t in heard.get("alarms/m1", [])}.values()] == ["raised", "cleared"])
        wait_for(lambda: len(Receiver.seen) >= 4)  # each is refused once
        assert all(signed for _, _, signed in Receiver.seen)
        assert len({event for event, _, _ in Receiver.seen}) == 2
        wait_for(lambda: live.metric("outbox") == 0)
        assert live.metric("bad_total") == 2
    finally:
        publisher.close()
        listener.disconnect()
        listener.loop_stop()
        hook.shutdown()
        hook.server_close()
        assert live.stop() == 0
    listed = subprocess.run(
        [*live.command[:3], "live", "outbox", "list", "--state", live.state], capture_output=True, text=True, check=True
    )
    assert listed.stdout == ""


BY_GATEWAY = [{"topic": "gateway", "machine": "m", "values": "v", "time": "t"}]


def by_gateway(rows: pd.DataFrame) -> Iterator[tuple[str, bytes]]:
    """A message per row, with the machine's name in it."""
    for (_, body), machine in zip(wide_messages(rows), rows["machine"], strict=True):
        yield "gateway", json.dumps(json.loads(body) | {"m": machine}).encode()


def test_a_name_that_no_topic_may_have_ends_nobody_elses_alarms(model, broker, tmp_path):
    """The broker would drop the connection over the topic, again at every attempt."""
    out = {"publish": {"alarms": "alarms/{machine}"}, "topics": BY_GATEWAY}
    live = Live(tmp_path, model, broker, SETTINGS | out)
    live.start()
    try:
        wait_for(live.healthy)
        rows = recording(2, 120)  # m1 still fails at the end
        publisher = Publisher(broker.port)
        publisher.send(by_gateway(rows.assign(machine=rows["machine"].replace("m1", "press\x85"))))
        publisher.send(by_gateway(rows))
        publisher.close()
        wait_for(lambda: "alarms/m1" in retained(broker, "alarms/#"), 20.0)
        assert live.metric("bad_total") == 120
        assert live.healthy()
    finally:
        assert live.stop() == 0


def test_an_event_that_ends_the_connection_is_given_up_and_the_others_get_out(model, broker, tmp_path):
    """As a topic that this broker does not take, whatever the reason: the event is dead, and that is told."""
    live = Live(tmp_path, model, broker, SETTINGS | {"publish": {"alarms": "alarms/{machine}"}})
    live.start()
    wait_for(live.healthy)
    assert live.stop() == 0
    with ServerStore(f"sqlite:///{live.state / 'indubio.sqlite'}") as store:

        def poison(connection: Any) -> None:
            told = [(name, {"id": name, "model": "press", "machine": name}) for name in ("bad\x85", "good")]
            append(connection, "noted", {}, rows={outbox: add_events(connection, ["mqtt"], "alarm", told)})

        store.write(poison)
    live.start()
    try:
        wait_for(lambda: "alarms/good" in retained(broker, "alarms/#"), 30.0)
        wait_for(lambda: live.metric("trouble") == 1)
        assert live.healthy()
        assert "1 events were given up" in httpx.get(f"http://127.0.0.1:{live.port}/health").text
        assert live.metric("reconnects_total") == 0  # what comes in never noticed
    finally:
        assert live.stop() == 0


def test_what_the_broker_refuses_was_not_delivered(model, tmp_path):
    (tmp_path / "acl").write_text("topic readwrite plant/#\ntopic readwrite alarms/m1\n")
    broker = Mosquitto(tmp_path)
    with (tmp_path / "mosquitto.conf").open("a") as config:
        config.write(f"acl_file {tmp_path / 'acl'}\n")
    broker.start()
    live = Live(tmp_path, model, broker, SETTINGS | {"publish": {"alarms": "state/{machine}"}})
    live.start()
    try:
        wait_for(live.healthy)
        publisher = Publisher(broker.port)
        publisher.send(wide_messages(recording(2, 120)))
        publisher.close()
        wait_for(lambda: "1 events were given up" in httpx.get(f"http://127.0.0.1:{live.port}/health").text, 30.0)
    finally:
        assert live.stop() == 0
        broker.stop()
    with ServerStore(f"sqlite:///{live.state / 'indubio.sqlite'}") as store:
        (dead,) = store.read(lambda c: all_events(c, dead=True))
    assert "refused" in dead.error


def retained(broker: Mosquitto, topics: str) -> dict[str, dict[str, Any]]:
    """What the broker has retained, as somebody who comes new hears it."""
    heard: dict[str, dict[str, Any]] = {}
    with closing_client(broker) as listener:
        listener.on_message = lambda *args: heard.update({args[2].topic: json.loads(args[2].payload)})
        listener.subscribe(topics, 1)
        time.sleep(0.3)
    return heard


@contextlib.contextmanager
def closing_client(broker: Mosquitto) -> Iterator[mqtt.Client]:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    yield client
    client.disconnect()
    client.loop_stop()


def test_a_broker_that_lost_the_state_of_alarms_is_told_it_again(model, broker, tmp_path):
    live = Live(tmp_path, model, broker, SETTINGS | {"publish": {"alarms": "alarms/{model}/{machine}"}})
    live.start()
    try:
        wait_for(live.healthy)
        rows = recording(2, 120)  # m1 still fails at the end
        publisher = Publisher(broker.port)
        publisher.send(wide_messages(rows))
        publisher.close()
        wait_for(lambda: "alarms/press/m1" in retained(broker, "alarms/#"))
        before = retained(broker, "alarms/#")
        assert [(topic, told["alarm"]) for topic, told in before.items()] == [("alarms/press/m1", "raised")]
        broker.forget()
        broker.start()
        wait_for(lambda: retained(broker, "alarms/#") == before)
    finally:
        assert live.stop() == 0
    assert alarms(live) == [("m1", "raised")]


def test_a_broker_that_asks_for_a_password_gets_the_one_of_the_file(model, tmp_path):
    program = shutil.which("mosquitto_passwd")
    if program is None:
        pytest.skip("mosquitto_passwd is not installed here")
    passwords, secret = tmp_path / "passwords", tmp_path / "secret"
    subprocess.run([program, "-c", "-b", passwords, "line", "hush"], check=True, capture_output=True)
    passwords.chmod(0o600)
    broker = Mosquitto(tmp_path, passwords=passwords)
    broker.start()
    login = {"broker": {"user": "line", "password_file": str(secret)}}
    live = Live(tmp_path, model, broker, SETTINGS | login)
    try:
        secret.write_text("wrong\n")
        live.start()
        wait_for(lambda: "refuses the connection" in (tmp_path / "Live.log").read_text())
        assert not live.healthy()
        assert live.stop() == 0
        assert "hush" not in (tmp_path / "Live.log").read_text()
        secret.write_text("hush\n")
        live.start()
        wait_for(live.healthy)
    finally:
        assert live.stop() == 0
        broker.stop()


def test_no_more_messages_come_than_may_be_without_acknowledgement(broker):
    settings = Broker(host="127.0.0.1", port=broker.port, in_flight=20)
    source = Subscription(settings, ["plant/+"], largest=1000, metrics=LiveMetrics())
    source.start()
    wait_for(lambda: source.connection == 1)
    publisher = Publisher(broker.port)
    try:
        sent = [b"%d" % number for number in range(500)]
        publisher.send(("plant/m0", body) for body in sent)
        heard: list[bytes] = []
        wait_for(lambda: source.waiting == 20)
        time.sleep(0.5)
        assert source.waiting == 20
        while len(heard) < len(sent):
            some = source.take(5.0)
            assert 0 < len(some) <= 20
            heard += [one.payload for one in some]
            source.acknowledge(some)
        assert heard == sent
    finally:
        publisher.close()
        source.stop()
