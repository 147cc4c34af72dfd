"""Writes verdicts to the store: audit entries, cases for people, alarms; and copes with a database that fails.

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
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from indubio.assessment import Assessment
from indubio.errors import StoreError
from indubio.server.models.alarm_rules import HOUR, Alarms, ReferralBudget
from indubio.server.models.registry import Loaded
from indubio.server.server_settings import ServerSettings
from indubio.server.store import ServerStore
from indubio.server.store.alarms import record_alarm, ringing
from indubio.server.store.audit_trail import append
from indubio.server.store.cases import Assessed, Filters, add_cases, chosen_cases
from indubio.server.store.clock import now
from indubio.uncertainty import ON_DEMAND

log = logging.getLogger("indubio.server")
MOST_UNWRITTEN = 100_000  # verdicts whose entries wait for the database
RETRY = 0.5  # seconds


@dataclass(frozen=True, kw_only=True)
class ExampleOrigin:
    """Where an example came from: the machine, the client's own id for it, and the name of the key that sent it."""

    machine: str
    external_id: str | None
    by: str


class ScoredBatch:
    """A batch with its verdicts; what is kept for people has a reference: referrals, and some others for control.

    Args:
        loaded: the version that scored it.
        assessment: what it says.
        inputs: the examples as they are stored.
        origins: where each came from.
        control_share: share of the other verdicts that is kept too.
    """

    def __init__(
        self,
        loaded: Loaded,
        assessment: Assessment,
        inputs: list[bytes],
        origins: list[ExampleOrigin],
        control_share: float,
    ) -> None:
        self.loaded, self.inputs, self.origins, self.at = loaded, inputs, origins, now()
        self.hashes = [hashlib.sha256(one).hexdigest() for one in inputs]
        self.columns: dict[str, list[Any]] = {n: values.tolist() for n, values in assessment.to_dict().items()}
        self.columns["case"] = [
            secrets.token_hex(16)
            if verdict == "REFER" or (control_share and chosen_for_control(input_hash, control_share))
            else ""
            for verdict, input_hash in zip(self.columns["verdict"], self.hashes, strict=True)
        ]

    def record(self, row: int) -> dict[str, Any]:
        """What the audit trail says of one verdict."""
        origin, columns = self.origins[row], self.columns
        return {
            "input": self.hashes[row],
            "verdict": columns["verdict"][row],
            "reason": columns["reason"][row],
            "probability": columns["probability"][row],
            "total": columns["total"][row],
            "machine": origin.machine,
            "by": origin.by,
        }

    def case(self, row: int) -> Assessed:
        """One example as the store keeps it for people."""
        origin, loaded = self.origins[row], self.loaded
        columns = {name: values[row] for name, values in self.columns.items() if name not in ("case", *ON_DEMAND)}
        for name in ("novelty", "p_value"):  # NaN where the model cannot tell
            columns[name] = None if columns[name] != columns[name] else columns[name]
        return Assessed(
            reference=self.columns["case"][row],
            at=self.at,
            model=loaded.name,
            version=loaded.version,
            sha256=loaded.sha256,
            rule=loaded.rule,
            machine=origin.machine,
            external_id=origin.external_id,
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
    """Whether an example is kept whatever its verdict; the hash of its input decides."""
    return int(input_hash[:8], 16) < share * 2**32


@dataclass(eq=False)
class _Waiting:
    """A batch that waits to be written; see `Recorder.record`."""

    batch: ScoredBatch
    refused: Sequence[int]
    done: "Future[None]" = field(default_factory=Future)


class Recorder:
    """Writes verdicts to the store, and holds them while it cannot be written.

    Args:
        store: to write to.
        settings: of the server.
        overflowed: called with the number of referrals that were beyond the budget.
    """

    def __init__(self, store: ServerStore, settings: ServerSettings, overflowed: Callable[[int], None]) -> None:
        self._store, self._settings, self._overflowed = store, settings, overflowed
        self.alarms = Alarms(settings.alarm, store.read(ringing))
        recent = Filters(since=now() - HOUR, verdict="REFER", overflow=False)
        times = [case.at for case in store.read(lambda c: chosen_cases(c, recent))]
        self._budget = ReferralBudget(settings.referrals_per_hour, times)
        self._unwritten: deque[tuple[ScoredBatch, list[int]]] = deque()
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
        one = _Waiting(batch, refused)
        with self._lock:
            self._waiting.append(one)
            first = len(self._waiting) == 1
        if first:
            group: list[_Waiting] = []
            try:
                written = self._store.submit(lambda connection: self._write(connection, group))
            except StoreError as error:
                written = Future()
                written.set_exception(error)
            written.add_done_callback(lambda done: self._written(done, group))
        return one.done

    def _write(self, connection: Connection, group: "list[_Waiting]") -> None:
        group += self._emptied()
        for loaded in dict.fromkeys(one.batch.loaded for one in group):
            self._write_entry(connection, [one.batch for one in group if one.batch.loaded is loaded])

    def _emptied(self) -> "list[_Waiting]":
        with self._lock:
            group, self._waiting = self._waiting, []
        return group

    def _write_entry(self, connection: Connection, batches: Sequence[ScoredBatch]) -> None:
        """Write one audit entry for some batches of a version, with their cases and alarms."""
        records, kept, events = [], [], []
        for batch in batches:
            columns = batch.columns
            for row, (verdict, reference) in enumerate(zip(columns["verdict"], columns["case"], strict=True)):
                record = batch.record(row)
                if reference:
                    case = batch.case(row)
                    if verdict == "REFER" and self._budget.exceeded(batch.at):
                        case = replace(case, overflow=True)
                    kept.append(case)
                    record |= {"case": reference, "seal": case.seal()}
                records.append(record)
                event = self.alarms.update(record["machine"], verdict == "ANOMALY", batch.at)
                events += [] if event is None else [event]
        audit = append(connection, "verdicts", batches[-1].entry(records), at=batches[-1].at)
        if kept:
            add_cases(connection, kept, audit)
            self._overflowed(sum(case.overflow for case in kept))
        for event in events:
            record_alarm(connection, event)

    def _written(self, done: "Future[None]", group: "list[_Waiting]") -> None:
        error = done.exception()
        for one in group or self._emptied():  # the group is empty where the transaction never began
            if error is None:
                one.done.set_result(None)
            else:
                self._failed(error, one.batch, one.refused)
                one.done.set_exception(error)

    def _failed(self, error: BaseException, batch: ScoredBatch, refused: Sequence[int]) -> None:
        without = set(refused)
        rows = [row for row in range(len(batch.inputs)) if row not in without]
        with self._lock:
            self._unwritten.append((batch, rows))
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
        """Try again until the waiting entries are written."""
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
        """Stop trying, and log how many verdicts were never written."""
        self._closed = True
        if self._unwritten_rows + self._lost:
            log.error("audit entries were never written", extra={"verdicts": self._unwritten_rows + self._lost})


def _write_late(connection: Connection, waiting: Sequence[tuple[ScoredBatch, list[int]]], lost: int) -> None:
    for batch, rows in waiting:
        if rows:
            records = [batch.record(row) for row in rows]
            append(connection, "verdicts", batch.entry(records) | {"late": True, "given": batch.at.isoformat()})
    if lost:
        append(connection, "gap", {"verdicts": lost, "why": "the database could not be written for too long"})
