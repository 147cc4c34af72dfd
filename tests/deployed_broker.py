"""Mosquitto as `deploy/` sets it up, on a free port and in a folder of its own, and clients of it."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt

from tests.monitoring import DEPLOY


class BrokerClient(mqtt.Client):
    """A client that notes what happens to it."""

    def __init__(self, name: str, *, clean: bool) -> None:
        super().__init__(mqtt.CallbackAPIVersion.VERSION2, client_id=name, clean_session=clean)
        self.heard: list[tuple[str, bytes]] = []
        self.granted = self.refused = False
        self.on_message = lambda _, __, message: self.heard.append((message.topic, message.payload))

        def connected(_: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
            self.refused = reason.is_failure

        def subscribed(*_: Any) -> None:
            self.granted = True

        self.on_connect, self.on_subscribe = connected, subscribed


class DeployedBroker:
    """A broker that can be stopped and started again."""

    def __init__(self, executable: str, folder: Path) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        given = (DEPLOY / "mosquitto" / "mosquitto.conf").read_text()
        for old, new in (
            ("listener 1883", f"listener {self.port} 127.0.0.1"),
            ("/mosquitto/data/passwd", f"{folder}/passwd"),
            ("/mosquitto/config/acl", f"{DEPLOY}/mosquitto/acl"),
            ("/mosquitto/data/", f"{folder}/data/"),
        ):
            assert old in given
            given = given.replace(old, new)
        (folder / "data").mkdir()
        (folder / "mosquitto.conf").write_text(given + ("user root\n" if os.geteuid() == 0 else ""))
        self._executable, self.folder = executable, folder

    def start(self) -> None:
        with (self.folder / "broker.log").open("a") as log:
            command = [self._executable, "-c", str(self.folder / "mosquitto.conf")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.await_(self._listens)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _listens(self) -> bool:
        assert self._process.poll() is None, (self.folder / "broker.log").read_text()
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    @contextmanager
    def client(self, user: str | None, *, password: str | None = None, clean: bool = True) -> Iterator[BrokerClient]:
        """A client that is connected, or refused."""
        client = BrokerClient(f"test-{user}", clean=clean)
        if user is not None:
            secrets = self.folder / "secrets"
            known = dict(line.split(":") for line in (secrets / "mqtt_machines").read_text().splitlines())
            known["live"] = (secrets / "mqtt_live_password").read_text()
            client.username_pw_set(user, password or known[user])
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        try:
            yield client
        finally:
            client.disconnect()
            client.loop_stop()

    @staticmethod
    def await_(condition: Callable[[], Any], seconds: float = 20) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until
            time.sleep(0.02)
