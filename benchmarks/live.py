"""`python -m benchmarks.live`: many machines through a real Mosquitto into `indubio live`, and what came out.

A generator sends every machine's values ten times a second, in a process of its own. Afterwards every verdict in the
store is compared with what the library says of everything that was sent: none may be missing, doubled or different.
With `--kills N`, `indubio live` and the broker are killed by turns (two to one) meanwhile. What a killed broker had
confirmed and not yet written is lost, so the generator sends the last seconds again after a broken connection, as a
gateway that must not lose anything does.
"""

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import platform
import random
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as mqtt
import pandas as pd
from paho.mqtt.enums import CallbackAPIVersion

from indubio import Detector
from indubio.data import Reading, Wide, Windowing
from indubio.networks import Training
from indubio.posteriors import AnchoredEnsemble
from indubio.storage import load, save
from indubio_server.store import ServerStore, alarm_history, verify
from indubio_server.store.audit_trail import entries
from tests.live_broker import MOSQUITTO, Live, Mosquitto, wait_for

OUT = Path(__file__).parents[1] / "build" / "live_load.txt"
AGAIN = 10.0  # seconds that are sent again after a broken connection
TICK = 0.1  # seconds
LENGTH = 50  # samples of a window
EPOCH = struct.Struct(">H")


def names(count: int) -> tuple[str, ...]:
    return tuple(f"s{number}" for number in range(count))


def values_of(machines: int, sensors: int, ticks: int, *, faults: bool) -> np.ndarray:
    """What every machine's sensors say at every tick; every seventh machine fails now and then."""
    chance = np.random.default_rng(0)
    seconds = np.arange(ticks)[:, None, None] * TICK
    phase = np.arange(machines)[None, :, None] + np.arange(sensors)[None, None, :]
    values = np.sin(seconds + phase) + 0.05 * chance.normal(size=(ticks, machines, sensors))
    if faults:
        failing = (np.arange(ticks) // (4 * LENGTH)) % 3 == 1
        values[np.ix_(failing, np.arange(machines) % 7 == 0)] += 3.0
    return np.round(values, 6)


def table(values: np.ndarray, start: int) -> pd.DataFrame:
    """The values as a recording, machine after machine."""
    ticks, machines, sensors = values.shape
    stamps = pd.to_datetime(start + np.arange(ticks) * round(TICK * 1e9), unit="ns", utc=True)
    frame = pd.DataFrame(values.transpose(1, 0, 2).reshape(-1, sensors), columns=list(names(sensors)))
    frame.insert(0, "machine", np.repeat([f"m{number}" for number in range(machines)], ticks))
    frame.insert(0, "time", np.tile(stamps, machines))
    return frame


def fit(folder: Path, sensors: int) -> None:
    reading = Reading(
        layout=Wide(time="time", sensors=names(sensors), group="machine"),
        windowing=Windowing(length=LENGTH, gaps="hold", longest_gap=1.0),
    )
    rows = table(values_of(20, sensors, 2000, faults=False), 0)
    detector = Detector(posterior=AnchoredEnsemble(members=5), training=Training(epochs=20), missing="refer")
    save(detector.fit(reading.read(rows)).read_by(reading), folder)


class Wire:
    """MQTT 3.1.1 with nothing but QoS 1 publishing: a generator must cost little beside what is measured."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        client = os.urandom(6).hex().encode()
        body = b"\x00\x04MQTT\x04\x02\x00\x00" + EPOCH.pack(len(client)) + client
        self._socket.sendall(b"\x10" + bytes([len(body)]) + body)
        if self._read(4)[3] != 0:
            raise OSError("refused")
        self._packets = itertools.cycle(range(1, 65536))
        self.open = 0  # messages without confirmation

    def send(self, messages: list[tuple[bytes, bytes]]) -> None:
        """Publish messages; waits where too many are without confirmation."""
        parts = []
        for topic, body in messages:
            length = 4 + len(topic) + len(body)
            sizes = bytes([length % 128 | 128, length // 128]) if length > 127 else bytes([length])
            parts += [b"\x32", sizes, EPOCH.pack(len(topic)), topic, EPOCH.pack(next(self._packets)), body]
        self._socket.sendall(b"".join(parts))
        self.open += len(messages)
        while self.open > 20_000:
            self.confirmed(wait=True)

    def confirmed(self, *, wait: bool) -> None:
        """Read the confirmations that have come."""
        self._socket.settimeout(5.0 if wait else 1e-6)
        with contextlib.suppress(TimeoutError if not wait else ()):
            self.open -= len(self._read(4 * min(self.open, 5000) or 4, whole=False)) // 4

    def _read(self, count: int, *, whole: bool = True) -> bytes:
        got = b""
        while len(got) < count and (whole or not got or len(got) % 4):
            more = self._socket.recv(count - len(got))
            if not more:
                raise OSError("closed")
            got += more
        return got

    def close(self) -> None:
        """Break the connection."""
        self._socket.close()


def generate(port: int, values: np.ndarray, start: int, form: str, done: Event, worst: Any) -> None:
    """Send every tick at its time; those that are behind as fast as they go."""
    ticks = len(values)
    wire, recent = Wire(port), deque[list[tuple[bytes, bytes]]](maxlen=round(AGAIN / TICK))
    for tick in range(ticks):
        stamp = start + tick * round(TICK * 1e9)
        messages = list(tick_messages(values[tick], stamp, form))
        late = time.time() - stamp / 1e9
        if late < 0:
            time.sleep(-late)
        worst.value = max(worst.value, late)
        waiting = [messages]
        while waiting:
            try:
                for part in waiting:
                    wire.send(part)
                    wire.confirmed(wait=False)
                if tick == ticks - 1:
                    while wire.open:
                        wire.confirmed(wait=True)
                waiting = []
            except OSError:
                time.sleep(0.2)
                with contextlib.suppress(OSError):
                    wire.close()
                    wire = Wire(port)
                waiting = [*recent, messages]
        recent.append(messages)
    done.set()


def tick_messages(values: np.ndarray, stamp: int, form: str) -> Iterator[tuple[bytes, bytes]]:
    micro = stamp // 1000
    for machine, row in enumerate(values.tolist()):
        if form == "rows":
            cells = ",".join(f'"s{number}":{value}' for number, value in enumerate(row))
            yield f"plant/m{machine}".encode(), f'{{"t":{micro},"v":{{{cells}}}}}'.encode()
        else:
            for number, value in enumerate(row):
                yield f"plant/m{machine}/s{number}".encode(), f'{{"t":{micro},"value":{value}}}'.encode()


def listen(port: int) -> tuple[mqtt.Client, list[tuple[str, str, float]]]:
    """Hear the published verdicts: machine, end of the window, and the delay since then."""
    heard: list[tuple[str, str, float]] = []

    def on_message(_client: Any, _data: Any, message: Any) -> None:
        told = json.loads(message.payload)
        end = pd.Timestamp(told["end"]).timestamp()
        heard.append((told["machine"], told["start"], time.time() - end))

    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.on_message = on_message
    client.on_connect = lambda one, *_: one.subscribe("judged/#", 1)
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", port)
    client.loop_start()
    return client, heard


def kill(count: int, seconds: float, live: Live, broker: Mosquitto, done: Event, killed: list[str]) -> None:
    chance = random.Random(1)
    for number in range(count):
        victim = broker if number % 3 == 2 else live
        wait_for(live.healthy, 120)
        if done.wait(chance.uniform(0.4, 1.2) * max(0.1, seconds / count - 5.0)):
            return  # no more of them fit into the time
        victim.kill()
        victim.start()
        killed.append(type(victim).__name__)
        print(f"kill {number + 1} of {count}: {killed[-1]}")


def written(live: Live) -> tuple[dict[tuple[str, str], dict[str, Any]], int, int, bool]:
    """The verdicts in the store, how many were doubled, alarms, and whether the trail is whole."""
    with ServerStore(f"sqlite:///{live.state / 'indubio.sqlite'}") as store:
        told = [
            record
            for entry in store.read(lambda c: list(entries(c)))
            if entry.kind == "verdicts"
            for record in entry.content["records"]
        ]
        rung = store.read(lambda c: alarm_history(c, limit=10**6))
        whole = not store.read(verify).findings
    found = {(one["machine"], one["start"]): one for one in told}
    return found, len(told) - len(found), rung, whole  # type: ignore[return-value]


def compared(live: Live, model: Path, rows: pd.DataFrame) -> list[str]:
    """What is in the store beside what the library says of all that was sent."""
    detector = load(model)
    windows = detector.reading_.read(rows)
    found = detector.assess(windows)
    last = rows["time"].max() - pd.Timedelta(seconds=0.5)
    starts, ends = (windows.origin.column(name).to_pandas() for name in ("start", "end"))
    should = {
        (machine, start.isoformat()): (verdict, probability)
        for machine, start, end, verdict, probability in zip(
            windows.origin.column("group").to_pylist(), starts, ends, found.verdict, found.probability, strict=True
        )
        if end <= last
    }
    there, doubled, rung, whole = written(live)
    missing = [key for key in should if key not in there]
    other = [
        key
        for key, (verdict, probability) in should.items()
        if key in there and (there[key]["verdict"], there[key]["probability"]) != (str(verdict), float(probability))
    ]
    events = [(one.machine, one.kind) for one in rung]
    wanted = alarms_of(should)
    same = sorted(events) == sorted(wanted)
    return [
        f"windows expected {len(should)}, in the store {len(there)}, missing {len(missing)}, doubled {doubled}, "
        f"different {len(other)}",
        f"alarm events expected {len(wanted)}, in the store {len(events)}, the same: {'yes' if same else 'NO'}",
        f"audit trail whole: {'yes' if whole else 'NO'}",
    ]


def alarms_of(verdicts: dict[tuple[str, str], tuple[Any, float]]) -> list[tuple[str, str]]:
    """The alarms by a plain loop: 3 of the last 5 begin one, none of 5 end it."""
    events, last, rings = [], {}, set()
    for (machine, _), (verdict, _) in sorted(verdicts.items(), key=lambda one: one[0]):
        flags = last[machine] = [*last.get(machine, []), str(verdict) == "ANOMALY"][-5:]
        if machine not in rings and sum(flags) >= 3:
            rings.add(machine)
            events.append((machine, "raised"))
        elif machine in rings and len(flags) == 5 and not any(flags):
            rings.discard(machine)
            events.append((machine, "cleared"))
    return events


def memory(live: Live) -> float:
    lines = Path(f"/proc/{live.running.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def cpu(process: Any) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder: Path, given: argparse.Namespace, stack: contextlib.ExitStack) -> list[str]:
    ticks = round(given.minutes * 60 / TICK) + 10
    values = values_of(given.machines, given.sensors, ticks, faults=True)
    model = folder / "press"
    fit(model, given.sensors)
    broker = Mosquitto(folder)
    broker.start()
    stack.callback(broker.stop)
    topic = "plant/{machine}" if given.form == "rows" else "plant/{machine}/{sensor}"
    mapped = {"topic": topic, "time": "t", "time_unit": "us"} | ({"values": "v"} if given.form == "rows" else {})
    settings = {
        "topics": [mapped],
        "ordering": {"lateness": given.lateness},
        "publish": {"verdicts": "judged/{machine}", "top": 0},
        "alarm": {"unfamiliar": False},  # as `alarms_of` has it
    }
    live = Live(folder, model, broker, settings)
    live.start()
    stack.callback(live.stop)
    wait_for(live.healthy, 120)
    listener, heard = listen(broker.port)
    start = (time.time_ns() // 10**9 + 2) * 10**9
    context = multiprocessing.get_context("fork")
    done, worst = context.Event(), context.Value("d", 0.0)
    generator = context.Process(target=generate, args=(broker.port, values, start, given.form, done, worst))
    generator.start()
    began = cpu(live.running)
    killed: list[str] = []
    killer = threading.Thread(target=kill, args=(given.kills, given.minutes * 60, live, broker, done, killed))
    killer.start()
    while not done.wait(1.0):
        if not generator.is_alive():
            raise SystemExit("the generator failed")
    busy, took = cpu(live.running) - began, time.time() - start / 1e9
    killer.join()
    generator.join()
    rows = table(values, start)
    rest = given.machines * ((ticks - 6) // LENGTH)
    began = time.monotonic()
    while len(written(live)[0]) < rest and time.monotonic() - began < 120:
        time.sleep(1.0)
    behind = time.monotonic() - began
    peak = memory(live)
    lines = {name: live.metric(name) for name in ("late_values_total", "duplicate_values_total", "bad_total")}
    live.stop()
    listener.disconnect()
    listener.loop_stop()
    delays = np.array([delay for _, _, delay in heard]) if heard else np.array([np.nan])
    per_second = given.machines * (1 if given.form == "rows" else given.sensors) / TICK
    speed = "" if given.kills else f", CPU of `indubio live` {busy / took:.2f} of a core"
    return [
        f"{given.machines} machines x {given.sensors} sensors x {1 / TICK:g} Hz, as {given.form}: "
        f"{per_second:,.0f} messages/s for {given.minutes:g} minutes, {killed.count('Live')} kills of `indubio live`, "
        f"{killed.count('Mosquitto')} of the broker",
        f"the generator was {worst.value:.2f} s late at most; all verdicts were there {behind:.0f} s after the end",
        f"delay from the time stamp of a window's last sample to its verdict being published, lateness "
        f"{given.lateness:g} s: median {np.median(delays):.3f} s, p99 {np.quantile(delays, 0.99):.3f} s, "
        f"largest {delays.max():.3f} s, of {len(heard)}",
        *compared(live, model, rows),
        f"memory at most {peak:.0f} MB{speed}; since the last start "
        + ", ".join(f"{k} {v:g}" for k, v in lines.items()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=200)
    parser.add_argument("--sensors", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--form", choices=("rows", "values"), default="rows", help="8 sensors a message, or one")
    parser.add_argument("--lateness", type=float, default=0.2)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    parser.add_argument("--out", type=Path, default=OUT, help="the results are added to this file")
    given = parser.parse_args()
    if MOSQUITTO is None:
        raise SystemExit("mosquitto is not installed")
    folder = given.keep or Path(tempfile.mkdtemp(prefix="indubio-live-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.ExitStack() as stack:
            lines = measure(folder, given, stack)
    finally:
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    text = "\n".join([f"python {platform.python_version()}, {os.cpu_count()} cores", *lines])
    print(text)
    given.out.parent.mkdir(exist_ok=True)
    with given.out.open("a") as file:
        file.write(text + "\n\n")


if __name__ == "__main__":
    main()
