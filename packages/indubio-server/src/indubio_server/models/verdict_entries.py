"""One audit entry of verdicts, with the cases that are kept for people and the alarms that begin or end by them.

Whoever judges, for a request or for a machine that is listened to, writes its verdicts by this: in one transaction, and
with the trail held from the beginning, so that several processes which write to one store take turns.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from indubio_server.models.alarm_rules import Alarms, ReferralBudget
from indubio_server.models.scored_batch import ScoredBatch
from indubio_server.server_settings import AlarmRule
from indubio_server.store import (
    AlarmEvent,
    Assessed,
    Head,
    Touched,
    add_cases,
    append,
    case_rows,
    cases,
    locked_head,
    record_alarm,
    row_seal,
)


class VerdictEntry:
    """Verdicts of one version of a model that are written together.

    Args:
        connection: with the transaction; other writers wait from here until it ends.
        machines: those that the verdicts are of.
        rule: when an alarm begins and ends.
        referrals_per_hour: the referral budget, None for no limit.
        at: the end of the hour that the budget is for.
    """

    def __init__(
        self,
        connection: Connection,
        machines: Iterable[str],
        *,
        rule: AlarmRule,
        referrals_per_hour: int | None,
        at: datetime,
    ) -> None:
        self._connection, self._end = connection, locked_head(connection)
        self._alarms = Alarms.of(connection, rule, machines)
        self._budget = ReferralBudget.of(connection, referrals_per_hour, at)
        self._records: list[dict[str, Any]] = []
        self._kept: list[Assessed] = []
        self.events: list[AlarmEvent] = []

    @property
    def overflow(self) -> int:
        """How many referrals were beyond the budget."""
        return sum(case.overflow for case in self._kept)

    def add(self, batch: ScoredBatch, row: int, *, keep: bool = True) -> AlarmEvent | None:
        """One more verdict; the event, where an alarm begins or ends with it.

        Args:
            batch: that it is of.
            row: which of the batch.
            keep: whether people get it, where the batch has a case for it.
        """
        verdict = batch.columns["verdict"][row]
        record = batch.record(row)
        self._records.append(record)
        if batch.columns["case"][row] and keep:
            case = batch.case(row)
            self._kept.append(replace(case, overflow=True) if verdict == "REFER" and self._budget.exceeded() else case)
            record["case"] = case.reference
        event = self._alarms.update(record["machine"], verdict, batch.columns["reason"][row], batch.at)
        if event is not None:
            self.events.append(event)
        return event

    def write(
        self,
        last: ScoredBatch,
        *,
        at: datetime | None,
        told: Mapping[str, Any] | None = None,
        rows: Touched | None = None,
    ) -> Head:
        """Write all of it; the new end of the trail.

        Args:
            last: batch that names the version.
            at: time of the entry; None is now.
            told: what else the entry says.
            rows: rows of other tables that were written with the verdicts, for the entry to seal.
        """
        stored = case_rows(self._connection, self._kept, self._end.seq + 1)
        for record, columns in zip((record for record in self._records if "case" in record), stored, strict=True):
            record["row"] = row_seal(cases, columns)
        body = last.entry(self._records) | {"windows": self._alarms.windows} | dict(told or {})
        end = append(self._connection, "verdicts", body, at=at, rows=rows, end=self._end)
        add_cases(self._connection, stored)
        self._alarms.keep(self._connection)
        for event in self.events:
            end = record_alarm(self._connection, event, end)
        return end
