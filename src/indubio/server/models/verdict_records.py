"""Verdicts on their way into the store: audit entries, cases for people, alarms; and what happens when it fails.

All that waits is one entry of the audit trail. When the database cannot be written, what was to be kept is refused or
told as not kept, and the entries of verdicts that were answered already wait in memory until it is back; the trail
says so where they were too many.
"""

import hashlib
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from indubio.errors import StoreError
from indubio.server.models.alarms import HOUR, Alarms, ReferralBudget
from indubio.server.models.registry import Loaded
from indubio.server.settings import ServerSettings
from indubio.server.store import Store
from indubio.server.store.alarms import record_alarm, ringing
from indubio.server.store.audit_trail import append, now
from indubio.server.store.cases import Assessed, Filters, add_cases, chosen_cases

log = logging.getLogger("indubio.server")
MOST_UNWRITTEN = 100_000  # verdicts whose entries wait for the database
RETRY = 0.5  # seconds


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where an example came from: the machine, the client's own id for it, and the name of the key that sent it."""

    machine: str
    external_id: str | None
    by: str


@dataclass(kw_only=True, eq=False)
class Verdicts:
    """A scored batch.

    Args:
        loaded: what scored it.
        at: when.
        found: columns of the assessment as lists.
        inputs: the examples as they are stored.
        sources: where each came from.
    """

    loaded: Loaded
    at: datetime
    found: dict[str, list[Any]]
    inputs: list[bytes]
    sources: list[Source]

    def keep(self, control_share: float) -> None:
        """Choose what is kept for people, and give it references: every referral, and some others for control."""
        self.hashes = [hashlib.sha256(one).hexdigest() for one in self.inputs]
        self.found["case"] = [
            secrets.token_hex(16) if verdict == "REFER" or chosen_for_control(name, control_share) else ""
            for verdict, name in zip(self.found["verdict"], self.hashes, strict=True)
        ]

    def record(self, row: int) -> dict[str, Any]:
        """What the audit trail says of one verdict."""
        source, found = self.sources[row], self.found
        return {
            "input": self.hashes[row],
            "verdict": found["verdict"][row],
            "reason": found["reason"][row],
            "probability": found["probability"][row],
            "total": found["total"][row],
            "machine": source.machine,
            "by": source.by,
        }

    def case(self, row: int) -> Assessed:
        """One example to be kept."""
        source, loaded = self.sources[row], self.loaded
        columns = {name: values[row] for name, values in self.found.items() if name != "case"}
        columns["p_value"] = None if columns["p_value"] != columns["p_value"] else columns["p_value"]
        return Assessed(
            reference=self.found["case"][row],
            at=self.at,
            model=loaded.name,
            version=loaded.version,
            sha256=loaded.sha256,
            rule=loaded.rule,
            machine=source.machine,
            external_id=source.external_id,
            input=self.inputs[row],
            **columns,
        )

    def entry(self, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The audit entry of some of the verdicts."""
        loaded = self.loaded
        return {
            "model": loaded.name,
            "version": loaded.version,
            "sha256": loaded.sha256,
            "rule": loaded.rule,
            "records": records,
        }


def chosen_for_control(input_hash: str, share: float) -> bool:
    """Whether an example is kept whatever its verdict: this share of all is, by their hashes."""
    return int(input_hash[:8], 16) < share * 2**32


class _Waiting:
    """A batch that waits to be written."""

    def __init__(self, verdicts: Verdicts, refused: Sequence[int]) -> None:
        self.verdicts, self.refused = verdicts, refused
        self.done: Future[None] = Future()


class Recorder:
    """Writes verdicts.

    Args:
        store: to write to.
        settings: of the server.
        overflowed: called with the number of referrals that were beyond the budget.
    """

    def __init__(self, store: Store, settings: ServerSettings, overflowed: Callable[[int], None]) -> None:
        self._store, self._settings, self._overflowed = store, settings, overflowed
        self.alarms = Alarms(settings.alarm, store.read(ringing))
        recent = Filters(since=now() - HOUR, verdict="REFER", overflow=False)
        times = [case.at for case in store.read(lambda c: chosen_cases(c, recent))]
        self._budget = ReferralBudget(settings.referrals_per_hour, times)
        self._unwritten: deque[tuple[Verdicts, list[int]]] = deque()
        self._unwritten_rows = self._lost = 0
        self._waiting: list[_Waiting] = []
        self._lock = threading.Lock()
        self._closed = False
        self.failing = False

    def record(self, verdicts: Verdicts, refused: Sequence[int]) -> "Future[None]":
        """Write a batch; the future is done when it is durable. What waits is written together.

        Args:
            verdicts: the batch, with what is to be kept already chosen.
            refused: the rows whose verdict is not given out when this fails; they leave no entry then.
        """
        one = _Waiting(verdicts, refused)
        with self._lock:
            self._waiting.append(one)
            first = len(self._waiting) == 1
        if first:
            taken: list[_Waiting] = []
            try:
                written = self._store.submit(lambda connection: self._write(connection, taken))
            except StoreError as error:
                written = Future()
                written.set_exception(error)
            written.add_done_callback(lambda done: self._written(done, taken))
        return one.done

    def _take(self) -> "list[_Waiting]":
        with self._lock:
            taken, self._waiting = self._waiting, []
        return taken

    def _write(self, connection: Connection, taken: "list[_Waiting]") -> None:
        taken += self._take()
        for loaded in dict.fromkeys(one.verdicts.loaded for one in taken):
            self._write_entry(connection, [one.verdicts for one in taken if one.verdicts.loaded is loaded])

    def _write_entry(self, connection: Connection, batches: Sequence[Verdicts]) -> None:
        """One audit entry for some batches of a version, and the cases and alarms they bring."""
        records, kept, events = [], [], []
        for verdicts in batches:
            found = verdicts.found
            for row, (verdict, reference) in enumerate(zip(found["verdict"], found["case"], strict=True)):
                record = verdicts.record(row)
                if reference:
                    case = verdicts.case(row)
                    if verdict == "REFER" and self._budget.exceeded(verdicts.at):
                        case = replace(case, overflow=True)
                    kept.append(case)
                    record |= {"case": reference, "seal": case.seal()}
                records.append(record)
                event = self.alarms.update(record["machine"], verdict == "ANOMALY", verdicts.at)
                events += [] if event is None else [event]
        audit = append(connection, "verdicts", batches[-1].entry(records), at=batches[-1].at)
        add_cases(connection, kept, audit)
        for event in events:
            record_alarm(connection, event)
        self._overflowed(sum(case.overflow for case in kept))

    def _written(self, done: "Future[None]", taken: "list[_Waiting]") -> None:
        error = done.exception()
        for one in taken or self._take():  # nothing was taken where the transaction never began
            if error is None:
                one.done.set_result(None)
            else:
                self._failed(error, one.verdicts, one.refused)
                one.done.set_exception(error)

    def _failed(self, error: BaseException, verdicts: Verdicts, refused: Sequence[int]) -> None:
        without = set(refused)
        rows = [row for row in range(len(verdicts.inputs)) if row not in without]
        with self._lock:
            self._unwritten.append((verdicts, rows))
            self._unwritten_rows += len(rows)
            while self._unwritten_rows > MOST_UNWRITTEN:
                count = len(self._unwritten.popleft()[1])
                self._unwritten_rows -= count
                self._lost += count
            begins, self.failing = not self.failing, True
        if begins:
            log.error("the database cannot be written", extra={"error": str(error)})
            threading.Thread(target=self._recover, name="indubio-recovery", daemon=True).start()

    def _recover(self) -> None:
        """Try until the entries that wait are written."""
        while not self._closed:
            time.sleep(RETRY)
            with self._lock:
                waiting, lost = list(self._unwritten), self._lost
            try:
                self._store.write(lambda c, waiting=waiting, lost=lost: _write_late(c, waiting, lost))  # type: ignore[misc]
            except StoreError:
                continue
            with self._lock:
                for _ in waiting:
                    self._unwritten_rows -= len(self._unwritten.popleft()[1])
                self._lost -= lost
                if not self._unwritten:
                    self.failing = False
                    break
        log.warning("the database can be written again")

    def close(self) -> None:
        """Stop trying; what was never written is told."""
        self._closed = True
        if self._unwritten_rows + self._lost:
            log.error("audit entries were never written", extra={"verdicts": self._unwritten_rows + self._lost})


def _write_late(connection: Connection, waiting: Sequence[tuple[Verdicts, list[int]]], lost: int) -> None:
    for verdicts, rows in waiting:
        if rows:
            records = [verdicts.record(row) for row in rows]
            append(connection, "verdicts", verdicts.entry(records) | {"late": True, "given": verdicts.at.isoformat()})
    if lost:
        append(connection, "gap", {"verdicts": lost, "why": "the database could not be written for too long"})
