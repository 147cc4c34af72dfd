"""Writes verdicts to the store: audit entries, cases for people, alarms; and copes with a database that fails.

All that waits is one entry of the audit trail. When the database cannot be written, what was to be kept is refused or
told as not kept, and the verdicts that were answered already wait in memory until it is back. Then they are written
before anything newer and go through the alarm rule in order: an alarm can be late, but is neither lost nor doubled. The
trail says so where they were too many.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from sqlalchemy import Connection

from indubio.errors import StoreError
from indubio_server.models.scored_batch import ScoredBatch
from indubio_server.models.verdict_entries import VerdictEntry
from indubio_server.server_settings import ServerSettings
from indubio_server.store import Head, ServerStore, append, has_entry

log = logging.getLogger("indubio_server")
MOST_UNWRITTEN = 100_000  # verdicts whose entries wait for the database
RETRY = 0.5  # seconds


@dataclass(eq=False)
class _Waiting:
    """A batch that waits to be written; see `Recorder.record`.

    Args:
        batch: the batch.
        refused: rows whose verdict is not given out when it cannot be written.
        late: whether the answer was given before it could be written: what was to be kept was told as not kept.
        attempted: the entry that was to cover it, where a transaction failed: its commit may have come through though
            the answer did not.
        done: when it is durable.
    """

    batch: ScoredBatch
    refused: frozenset[int]
    late: bool = False
    attempted: Head | None = None
    done: "Future[None]" = field(default_factory=Future)

    @property
    def rows(self) -> Sequence[int]:
        """The rows that are written: all, or late those that were given out."""
        rows = range(len(self.batch.inputs))
        return [row for row in rows if row not in self.refused] if self.late else rows


@dataclass(eq=False)
class _Attempt:
    """What one transaction tries to write."""

    began: bool = False
    late: list[_Waiting] = field(default_factory=list)
    group: list[_Waiting] = field(default_factory=list)
    lost: int = 0
    overflow: int = 0


class Recorder:
    """Writes verdicts to the store, and holds them while it cannot be written.

    Args:
        store: to write to.
        settings: of the server.
        overflowed: called with the number of referrals that were beyond the budget.
    """

    def __init__(self, store: ServerStore, settings: ServerSettings, overflowed: Callable[[int], None]) -> None:
        self._store, self._settings, self._overflowed = store, settings, overflowed
        self._unwritten: deque[_Waiting] = deque()
        self._unwritten_rows = self._lost = 0
        self._waiting: list[_Waiting] = []
        self._lock = threading.Lock()
        self._closed = False
        self.failing = False

    def record(self, batch: ScoredBatch, refused: Sequence[int]) -> "Future[None]":
        """Write a batch; the future is done when it is durable. What waits is written together.

        Args:
            batch: the batch.
            refused: the rows whose verdict is not given out when this fails; they leave no entry then.
        """
        one = _Waiting(batch, frozenset(refused))
        with self._lock:
            self._waiting.append(one)
            first = len(self._waiting) == 1
        if first:
            self._attempt()
        return one.done

    def _attempt(self) -> "Future[None]":
        """Write all that waits in the next transaction."""
        attempt = _Attempt()
        try:
            written = self._store.submit(lambda connection: self._write(connection, attempt))
        except StoreError as error:
            written = Future()
            written.set_exception(error)
        written.add_done_callback(lambda done: self._written(done, attempt))
        return written

    def _write(self, connection: Connection, attempt: _Attempt) -> None:
        """Write what is late first, so that every machine's verdicts stay in order."""
        with self._lock:
            attempt.began = True
            attempt.late, self._unwritten = list(self._unwritten), deque()
            attempt.group, self._waiting = self._waiting, []
            attempt.lost, self._lost = self._lost, 0
        for one in attempt.late:
            if one.rows and not _came_through(connection, one.attempted):
                self._write_entry(connection, [one], attempt)
        if attempt.lost:
            body = {"verdicts": attempt.lost, "why": "the database could not be written for too long"}
            append(connection, "gap", body)
        for loaded in dict.fromkeys(one.batch.loaded for one in attempt.group):
            self._write_entry(connection, [one for one in attempt.group if one.batch.loaded is loaded], attempt)

    def _write_entry(self, connection: Connection, group: Sequence[_Waiting], attempt: _Attempt) -> None:
        """Write one audit entry for some batches of a version, with their cases and alarms."""
        last, late = group[-1].batch, group[0].late
        entry = VerdictEntry(
            connection,
            [one.batch.origins[row].machine for one in group for row in one.rows],
            rule=self._settings.alarm,
            referrals_per_hour=self._settings.referrals_per_hour,
            at=last.at,
        )
        for one in group:
            for row in one.rows:
                entry.add(one.batch, row, keep=not one.late)
        told = {"late": True, "given": last.at.isoformat()} if late else {}
        end = entry.write(last, at=None if late else last.at, told=told)
        for one in group:
            one.attempted = end
        attempt.overflow += entry.overflow

    def _written(self, done: "Future[None]", attempt: _Attempt) -> None:
        error = done.exception()
        if error is None:
            self._succeeded(attempt)
            return
        with self._lock:
            self._unwritten.extendleft(reversed(attempt.late))
            self._lost += attempt.lost
            if not attempt.began:
                attempt.group, self._waiting = self._waiting, []
        for one in attempt.group:
            self._failed(error, one)
            one.done.set_exception(error)

    def _succeeded(self, attempt: _Attempt) -> None:
        with self._lock:
            self._unwritten_rows -= sum(len(one.rows) for one in attempt.late)
            ended = self.failing and not self._unwritten
            self.failing = bool(self._unwritten)
        if attempt.overflow:
            self._overflowed(attempt.overflow)
        if ended:
            log.warning("the database can be written again")
        for one in attempt.group:
            one.done.set_result(None)

    def _failed(self, error: BaseException, one: _Waiting) -> None:
        one.late = True
        with self._lock:
            self._unwritten.append(one)
            self._unwritten_rows += len(one.rows)
            while self._unwritten_rows > MOST_UNWRITTEN and self._unwritten:
                count = len(self._unwritten.popleft().rows)
                self._unwritten_rows -= count
                self._lost += count
            begins, self.failing = not self.failing, True
        if begins:
            log.error("the database cannot be written", extra={"error": str(error)})
            threading.Thread(target=self._recover, name="indubio-recovery", daemon=True).start()

    def _recover(self) -> None:
        """Try again until the waiting entries are written."""
        while self.failing and not self._closed:
            time.sleep(RETRY)
            wait([self._attempt()])

    def close(self) -> None:
        """Stop trying, and log how many verdicts were never written."""
        self._closed = True
        if self._unwritten_rows + self._lost:
            log.error("audit entries were never written", extra={"verdicts": self._unwritten_rows + self._lost})


def _came_through(connection: Connection, attempted: Head | None) -> bool:
    """Whether the trail has an entry though the transaction that was to write it seemed to fail."""
    return attempted is not None and has_entry(connection, attempted)
