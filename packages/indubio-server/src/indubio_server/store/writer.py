"""Group commit: one thread writes all that waits in one transaction, and reports when it is durable.

A disk confirms some hundred transactions a second, whatever their size; so the size follows the load. A piece of work
is a function of the connection. One that raises is undone alone; when the transaction itself fails, all of it does.
On a disk that is faster than that, every transaction still costs the time of some requests, so they keep a distance.

Verdicts come first. What people do on pages waits in a line of its own, and gets a little time of each transaction.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from indubio.errors import StoreError
from indubio_server.store.database import Database

T = TypeVar("T")
MOST_AT_ONCE = 512
APART = 0.005  # seconds from one transaction's beginning to the next one's: under load more share one
PAGES_WITHIN = 0.02  # seconds of a transaction after which no further piece of the second line joins it
Work = Callable[[Connection], Any]
Piece = tuple[Work, "Future[Any]"]


class Writer:
    """The thread that writes, and the queue before it.

    Args:
        database: to write to.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: queue.SimpleQueue[Piece | Literal["pages", "end"]] = queue.SimpleQueue()
        self._pages: deque[Piece] = deque()
        self._closed = False
        self.last_commit = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="indubio-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Connection], T], *, page: bool = False) -> "Future[T]":
        """Do the work in the next transaction; the future is done when it is durable.

        Args:
            work: a function of the connection.
            page: whether verdicts go before it.
        """
        if self._closed:
            raise StoreError("the store is closed.")
        future: Future[T] = Future()
        if page:
            self._pages.append((work, future))
        self._waiting.put("pages" if page else (work, future))
        return future

    @property
    def waiting(self) -> int:
        """How many pieces of work wait."""
        return self._waiting.qsize()

    def close(self) -> None:
        """Write what waits, and end the thread."""
        self._closed = True
        self._waiting.put("end")
        self._thread.join()

    def _run(self) -> None:
        ended, began = False, 0.0
        while not ended or self._pages:
            group = [self._waiting.get()]
            if (early := began + APART - time.monotonic()) > 0:
                time.sleep(early)
            began = time.monotonic()
            while len(group) < MOST_AT_ONCE and not self._waiting.empty():
                group.append(self._waiting.get())
            ended = ended or "end" in group
            self._write([item for item in group if not isinstance(item, str) and _begins(item)])
            if self._pages:
                self._waiting.put("pages")

    def _pieces(self, first: list[Piece]) -> Iterator[Piece]:
        """What one transaction writes: all of the first line, and of the second as much as there is time for."""
        began = time.monotonic()
        yield from first
        some = False
        while self._pages and not (some and time.monotonic() - began > PAGES_WITHIN):
            if _begins(piece := self._pages.popleft()):
                some = True
                yield piece

    def _pieces_of_pages(self) -> list[Piece]:
        return [piece for _ in range(len(self._pages)) if _begins(piece := self._pages.popleft())]

    def _write(self, first: list[Piece]) -> None:
        if not first and not self._pages:
            return
        if len(first) + len(self._pages) == 1:
            piece = first[0] if first else self._pages.popleft()
            if first or _begins(piece):
                self._write_alone(*piece)
            return
        group: list[Piece] = []
        done: list[tuple[Future[Any], Any]] = []
        failed: list[tuple[Future[Any], BaseException]] = []
        try:
            with self._database.writing() as connection:
                for piece in self._pieces(first):
                    group.append(piece)
                    work, future = piece
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
            if not group:  # there is no connection: nobody is to wait until that is found out again
                group = [*first, *self._pieces_of_pages()]
            for _, future in group if len(group) > len(first) else first:
                future.set_exception(told)
            return
        self.last_commit = time.monotonic()
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
            self.last_commit = time.monotonic()
            future.set_result(result)


def _begins(piece: Piece) -> bool:
    """Whether a piece is still wanted; it cannot be cancelled from here on."""
    return piece[1].set_running_or_notify_cancel()
