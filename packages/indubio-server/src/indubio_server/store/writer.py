"""Group commit: one thread writes all that waits in one transaction, and reports when it is durable.

A disk confirms some hundred transactions a second, whatever their size; so the size follows the load. A piece of work
is a function of the connection. One that raises is undone alone; when the transaction itself fails, all of it does.
On a disk that is faster than that, every transaction still costs the time of some requests, so they keep a distance.
"""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from indubio.errors import StoreError
from indubio_server.store.database import Database

T = TypeVar("T")
MOST_AT_ONCE = 512
APART = 0.005  # seconds from one transaction's beginning to the next one's: under load more share one
Work = Callable[[Connection], Any]


class Writer:
    """The thread that writes, and the queue before it.

    Args:
        database: to write to.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: queue.SimpleQueue[tuple[Work, Future[Any]] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="indubio-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Connection], T]) -> "Future[T]":
        """Do the work in the next transaction; the future is done when it is durable."""
        if self._closed:
            raise StoreError("the store is closed.")
        future: Future[T] = Future()
        self._waiting.put((work, future))
        return future

    @property
    def waiting(self) -> int:
        """How many pieces of work wait."""
        return self._waiting.qsize()

    def close(self) -> None:
        """Write what waits, and end the thread."""
        self._closed = True
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended, began = False, 0.0
        while not ended:
            group = [self._waiting.get()]
            if (early := began + APART - time.monotonic()) > 0:
                time.sleep(early)
            began = time.monotonic()
            while len(group) < MOST_AT_ONCE and not self._waiting.empty():
                group.append(self._waiting.get())
            ended = None in group
            self._write([item for item in group if item is not None and item[1].set_running_or_notify_cancel()])

    def _write(self, group: list[tuple[Work, "Future[Any]"]]) -> None:
        if not group:
            return
        if len(group) == 1:
            self._write_alone(*group[0])
            return
        done: list[tuple[Future[Any], Any]] = []
        failed: list[tuple[Future[Any], BaseException]] = []
        try:
            with self._database.writing() as connection:
                for work, future in group:
                    alone = connection.begin_nested()
                    try:
                        done.append((future, work(connection)))
                    except Exception as error:
                        if isinstance(error, DBAPIError) and not isinstance(error, IntegrityError):
                            raise  # the disk is full or the server gone: the transaction is no more
                        alone.rollback()
                        failed.append((future, error))
                    else:
                        alone.commit()
        except Exception as error:  # noqa: BLE001 - it goes to everybody who asked
            told = error if isinstance(error, StoreError) else StoreError(f"{self._database.shown}: {error}")
            for _, future in group:
                future.set_exception(told)
            return
        for future, result in done:
            future.set_result(result)
        for future, refused in failed:
            future.set_exception(refused)

    def _write_alone(self, work: Work, future: "Future[Any]") -> None:
        """Write one piece of work; the transaction itself undoes it where it fails."""
        try:
            with self._database.writing() as connection:
                result = work(connection)
        except Exception as error:  # noqa: BLE001 - it goes to whoever asked
            told = error.__cause__ if isinstance(error.__cause__, IntegrityError) else error
            future.set_exception(told)
        else:
            future.set_result(result)
