"""Ends connections to a database that does not answer: one that hangs is then one that fails.

A server that was stopped, swapped out or cut off says nothing: its socket stays open, and whoever waits on it waits
for minutes. So every statement has a time in which its answer must come. After it a thread ends the connection, and
whoever waits is told so at once.
"""

import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DisconnectionError

LOOK_EVERY = 0.25  # seconds
AT_ALL = 3.0  # seconds in which a connection must show that it is one, before it is used
UNTIL, WITHIN = "indubio_until", "indubio_within"  # in a connection's `info`; times of `time.monotonic`


class UnansweredStatements:
    """Watches the connections of some engines, each with a limit of its own."""

    def __init__(self) -> None:
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._out: dict[int, tuple[Any, Any]] = {}  # connections in use: the driver's, and the pool's record
        self._thread: threading.Thread | None = None

    def watch(self, engine: Engine, seconds: float) -> None:
        """Give every statement of an engine so many seconds; connections are tried before they are used."""

        @event.listens_for(engine, "checkout")
        def begin(driver: Any, record: Any, _fairy: Any) -> None:
            with self._lock:
                self._out[id(record)] = driver, record
            self._begin()
            record.info |= {UNTIL: time.monotonic() + AT_ALL, WITHIN: seconds}
            try:
                engine.dialect.do_ping(driver)
            except engine.dialect.loaded_dbapi.Error as error:
                end(driver, record)
                raise DisconnectionError from error
            record.info.pop(UNTIL, None)

        def end(_driver: Any, record: Any, _error: object = None) -> None:
            record.info.pop(UNTIL, None)
            with self._lock:
                self._out.pop(id(record), None)

        for name in ("checkin", "invalidate", "close"):
            event.listen(engine, name, end)
        for name in ("commit", "rollback"):
            event.listen(engine, name, _asked)
        event.listen(engine, "before_cursor_execute", lambda connection, *_: _asked(connection))
        event.listen(engine, "after_cursor_execute", lambda connection, *_: _answered(connection))

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _begin(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="indubio-unanswered", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(LOOK_EVERY):
            now = time.monotonic()
            with self._lock:  # nobody closes a connection meanwhile, so its number is that of no other file
                for driver, record in self._out.values():
                    if now > record.info.get(UNTIL, math.inf):
                        _cut(driver)


@contextlib.contextmanager
def asking(connection: Connection) -> Iterator[None]:
    """A statement that is given to the driver itself."""
    _asked(connection)
    try:
        yield
    finally:
        _answered(connection)


@contextlib.contextmanager
def patient(connection: Connection) -> Iterator[None]:
    """Let statements take as long as they need, as changes of large tables do."""
    within = connection.info.pop(WITHIN, math.inf)
    try:
        yield
    finally:
        connection.info[WITHIN] = within


def _asked(connection: Connection) -> None:
    connection.info[UNTIL] = time.monotonic() + connection.info.get(WITHIN, math.inf)


def _answered(connection: Connection) -> None:
    connection.info.pop(UNTIL, None)


def _cut(driver: Any) -> None:
    """End the connection under whoever waits on it."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(driver.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)
