"""A server that tests can ask over real sockets, and the small models it serves."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
from starlette.types import ASGIApp

from indubio import AnchoredEnsemble, Detector, save
from indubio.data import read_table
from indubio.networks import Training
from indubio_server.app import build_app
from indubio_server.process import LimitedServer, configured
from indubio_server.server_settings import ServerSettings
from indubio_server.service import Service
from indubio_server.store import ServerStore

NAMES = ("pressure", "flow", "heat", "noise")
QUICK = {"posterior": AnchoredEnsemble(members=3), "training": Training(epochs=3)}


def good_rows(count: int = 120, seed: int = 0) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(count, len(NAMES))), columns=list(NAMES))


def table_model(folder: Path, **settings: Any) -> Detector:
    """Four numbers a row; missing values are refused."""
    detector = Detector(**QUICK | settings).fit(good_rows())
    save(detector, folder, overwrite=True)
    return detector


def mixed_model(folder: Path) -> Detector:
    """A number and a category; missing values are referred."""
    rows = pd.DataFrame({"weight": np.random.default_rng(1).normal(size=80), "colour": ["red", "blue"] * 40})
    detector = Detector(**QUICK, missing="refer").fit(read_table(rows, categorical=["colour"]))
    save(detector, folder)
    return detector


def window_model(folder: Path) -> Detector:
    """Windows of 16 samples of two sensors."""
    detector = Detector(**QUICK).fit(np.random.default_rng(2).normal(size=(60, 16, 2)))
    save(detector, folder)
    return detector


def image_model(folder: Path) -> Detector:
    """Images of 7 x 6 pixels and two channels."""
    detector = Detector(**QUICK).fit(np.random.default_rng(2).normal(size=(60, 7, 6, 2)))
    save(detector, folder)
    return detector


@contextlib.contextmanager
def running(app: ASGIApp, **options: Any) -> Iterator[tuple[str, int]]:
    """The address of an application that answers, on our connections; options of `configured`."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address: tuple[str, int] = one.getsockname()
    server = LimitedServer(configured(app, host=address[0], port=address[1], **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def listening(service: Service, **options: Any) -> Iterator[str]:
    """The URL of a service that answers; options of `configured`."""
    with running(build_app(service), settings=service.settings, **options) as (host, port):
        yield f"{'https' if options else 'http'}://{host}:{port}"


@contextlib.contextmanager
def serving(
    store: ServerStore,
    sources: Mapping[str, Path],
    state: Path,
    *,
    pinned: Mapping[str, str] | None = None,
    **settings: Any,
) -> Iterator[tuple[Service, httpx.Client]]:
    """A service, and a client of it."""
    service = Service(store, sources, state, ServerSettings(**{"open": True} | settings), pinned=pinned)
    try:
        with listening(service) as url, httpx.Client(base_url=url, timeout=60) as client:
            yield service, client
    finally:
        service.close()


def row(**changes: Any) -> dict[str, Any]:
    """A good row of the table model."""
    return dict.fromkeys(NAMES, 0.1) | changes


def all_of(connection: socket.socket) -> bytes:
    """All that comes until the connection ends."""
    received = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(65536):
            received += more
    return bytes(received)


def until(true: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait for what comes about soon."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
