"""A server with people's pages, for tests: a real one, on a port of its own."""

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import uvicorn

from indubio.storage import save
from indubio_server.app import build_app
from indubio_server.plant import PlantFile
from indubio_server.server_settings import ServerSettings
from indubio_server.service import Service
from indubio_server.store import Role, ServerStore, add_key

PEOPLE = {"ada": Role.REVIEWER, "bob": Role.REVIEWER, "eve": Role.ADMIN, "line": Role.SCORER}


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server that runs."""

    url: str
    keys: dict[str, str]
    store: ServerStore
    service: Service

    def assess(self, rows: np.ndarray, machine: str | list[str] = "press-1", *, key: str = "line") -> httpx.Response:
        """Score rows as a machine would."""
        answer = self.asked(rows, machine, key=key)
        assert answer.status_code == 200, answer.text
        return answer

    def asked(self, rows: np.ndarray, machine: str | list[str], *, key: str) -> httpx.Response:
        """Ask for verdicts with somebody's key; the answer, whatever it is."""
        names = self.service.registry.model().model.input.schema.names
        plain = [dict(zip(names, np.moveaxis(row, -1, 0).tolist(), strict=True)) for row in rows]
        headers = {"X-API-Key": self.keys[key]}
        return httpx.post(f"{self.url}/assess", json={"rows": plain, "machine": machine}, headers=headers, timeout=120)


@contextlib.contextmanager
def running(
    detector,
    folder: Path,
    *,
    training: Path | None = None,
    plant: Path | None = None,
    login=None,
    sites=None,
    **settings,
) -> Iterator[Running]:
    """Serve a detector as "press"; `sites` has more people, each with a role and sites."""
    save(detector, folder / "press")
    with ServerStore(f"sqlite:///{folder / 'store.sqlite'}") as store:
        keys = {
            name: store.write(lambda c, name=name, role=role: add_key(c, name, role, actor="test"))
            for name, role in PEOPLE.items()
        }
        for name, (role, theirs) in (sites or {}).items():
            keys[name] = store.write(
                lambda c, name=name, role=role, theirs=theirs: add_key(c, name, role, sites=theirs, actor="test")
            )
        known = {} if training is None else {"press": training}
        service = Service(
            store,
            {"press": folder / "press"},
            folder / "state",
            ServerSettings(**settings),
            known,
            plant=PlantFile(plant),
            login=login,
        )
        server = uvicorn.Server(uvicorn.Config(build_app(service), port=0, log_config=None, ws="none"))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.02)
            port = server.servers[0].sockets[0].getsockname()[1]
            yield Running(url=f"http://127.0.0.1:{port}", keys=keys, store=store, service=service)
        finally:
            server.should_exit = True
            thread.join()
            service.close()


@contextlib.contextmanager
def logged_in(server: Running, name: str) -> Iterator[httpx.Client]:
    """A client of one of the people."""
    with httpx.Client(base_url=server.url, follow_redirects=True, timeout=60) as client:
        answer = client.post("/login", data={"key": server.keys[name], "token": token(client, "/login")})
        assert answer.url.path == "/review"
        yield client


def token(client: httpx.Client, path: str = "/review") -> str:
    """What a form must send back."""
    found = re.search(r'name="token" value="(\w+)"', client.get(path).text)
    assert found is not None
    return found[1]
