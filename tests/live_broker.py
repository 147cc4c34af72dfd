"""A real Mosquitto and a real `indubio live`, which tests and the load benchmark start, kill and start again."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import paho.mqtt.client as mqtt
import tomlkit
from paho.mqtt.enums import CallbackAPIVersion

from tests.server_killing import free_port

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
CONFIG = """
listener {port} 127.0.0.1
allow_anonymous true
persistence true
persistence_location {folder}/
autosave_interval 1
max_queued_messages 0
max_queued_bytes 0
log_dest file {folder}/mosquitto.log
"""
PATIENCE = 60.0  # seconds


class Process:
    """A process that is started again and again."""

    command: list[str]
    folder: Path
    running: subprocess.Popen[bytes]

    def start(self) -> None:
        """Start it, again."""
        log = (self.folder / f"{type(self).__name__}.log").open("ab")
        with log:
            self.running = subprocess.Popen(self.command, stdout=log, stderr=log)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.running.kill()
        self.running.wait()

    def stop(self) -> int:
        """End it as an operator would; its exit code."""
        if self.running.poll() is None:
            self.running.send_signal(signal.SIGTERM)
        return self.running.wait(PATIENCE)


class Mosquitto(Process):
    """A broker that writes what it has to disk every second: what it got since is lost when it is killed."""

    def __init__(self, folder: Path, *, passwords: Path | None = None) -> None:
        self.folder, self.port = folder, free_port()
        assert MOSQUITTO is not None
        config = folder / "mosquitto.conf"
        text = CONFIG.format(port=self.port, folder=folder)
        if passwords is not None:
            text = text.replace("allow_anonymous true", f"allow_anonymous false\npassword_file {passwords}")
        config.write_text(text + ("user root\n" if os.geteuid() == 0 else ""))
        self.command = [MOSQUITTO, "-c", str(config)]

    def start(self) -> None:
        """Start it, and wait until it listens."""
        super().start()
        wait_for(lambda: _listens(self.port))
        assert self.running.poll() is None, "another process took the port"

    def forget(self) -> None:
        """Kill it, and lose all that it had on disk: sessions, messages, what was retained."""
        self.kill()
        (self.folder / "mosquitto.db").unlink(missing_ok=True)


class Live(Process):
    """`indubio live` on a model and a broker."""

    def __init__(self, folder: Path, model: Path, broker: Mosquitto, settings: dict[str, Any], *options: str) -> None:
        self.folder, self.state, self.port = folder, folder / "state", free_port()
        config = folder / "live.toml"
        where = {"host": "127.0.0.1", "port": broker.port, "longest_wait": 1}
        config.write_text(tomlkit.dumps({"broker": where | settings.pop("broker", {}), **settings}))
        arguments = ["--config", config, "--model", f"press={model}", "--state", self.state]
        address = f"127.0.0.1:{self.port}"
        program = "from indubio.cli import main; main()"
        self.command = [sys.executable, "-c", program, "live", *map(str, arguments), "--metrics", address, *options]

    def healthy(self) -> bool:
        """Whether it says that all is well."""
        assert self.running.poll() is None, (self.folder / "Live.log").read_text()[-2000:]
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/health").is_success
        except httpx.HTTPError:
            return False

    def metric(self, name: str) -> float:
        """One of its metrics, summed over the labels."""
        lines = httpx.get(f"http://127.0.0.1:{self.port}/metrics").text.splitlines()
        found = [line for line in lines if line.startswith((f"indubio_live_{name} ", f"indubio_live_{name}{{"))]
        return sum(float(line.rpartition(" ")[2]) for line in found)


class Publisher:
    """A gateway of machines: what the broker has not confirmed is sent again, and after a broken connection the last
    messages too, for a broker that was killed may have confirmed what it then lost.
    """

    def __init__(self, port: int, *, again: int = 2000) -> None:
        self._port, self._again = port, again
        self.lost = False  # the broker may have lost what it confirmed: the last messages are sent again
        self._sent: list[tuple[str, bytes]] = []
        self._client: mqtt.Client | None = None

    def send(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Publish in order, and return when the broker has confirmed all of it."""
        pending = [*(self._sent[-self._again :] if self.lost else ()), *messages]
        self.lost = False
        while pending:
            try:
                self._confirmed(pending)
            except (OSError, ValueError, RuntimeError):
                self.close()
                time.sleep(0.2)
                pending = [*self._sent[-self._again :], *pending]
            else:
                self._sent += pending
                self._sent = self._sent[-self._again :]
                return

    def _confirmed(self, messages: list[tuple[str, bytes]]) -> None:
        if self._client is None:
            self._client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
            self._client.max_inflight_messages_set(1000)
            self._client.connect("127.0.0.1", self._port, keepalive=60)
            self._client.loop_start()
        infos = [self._client.publish(topic, body, qos=1) for topic, body in messages]
        until = time.monotonic() + 5.0
        while not all(info.is_published() for info in infos):
            if not self._client.is_connected() and time.monotonic() > until - 4.0:
                raise OSError("the broker is gone")
            if time.monotonic() > until + len(messages) / 500:
                raise OSError("the broker does not confirm")
            time.sleep(0.002)

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None


def wait_for(condition: Any, patience: float = PATIENCE) -> None:
    """Until something is so."""
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def plain(body: bytes) -> dict[str, Any]:
    """A message's JSON."""
    content: dict[str, Any] = json.loads(body)
    return content
