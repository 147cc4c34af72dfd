"""Alarms per machine (k of n verdicts, with hysteresis) and the referral budget per hour: people are not flooded.

What both remember is in the store and nowhere else. A batch reads it, goes on from there and writes it back in the
transaction of its verdicts, which holds the trail: so nothing has moved where the transaction fails, a restart forgets
nothing, and several processes that write to one store share one alarm per machine and one budget.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import Connection

from indubio.decision import Reason, Verdict
from indubio_server.plant import MachinePattern
from indubio_server.server_settings import AlarmRule
from indubio_server.store import AlarmEvent, keep_last_verdicts, last_verdicts, now, ringing, within_budget

HOUR = timedelta(hours=1)
CLOCKS_APART = timedelta(minutes=1)  # those of machines that write to one store may differ by so much
AT_ONCE = 500  # machines
ANOMALY, UNFAMILIAR, OTHER = "A", "U", "."


class Alarms:
    """The last verdicts of some machines, and whether each rings.

    Args:
        rule: when an alarm begins and ends.
        ringing: the machines that ring already.
        windows: the last verdicts of machines, the newest last: A is an anomaly, U is unfamiliar.
    """

    def __init__(self, rule: AlarmRule, ringing: Iterable[str] = (), windows: dict[str, str] | None = None) -> None:
        self._rule = rule
        self.ringing = set(ringing)
        self.windows = dict(windows or {})
        self._stored: dict[str, str] = {}  # as the store has them

    @classmethod
    def of(cls, connection: Connection, rule: AlarmRule, machines: Iterable[str]) -> "Alarms":
        """Read how some machines stand; the caller holds the trail, so that it stays like this."""
        alarms, chosen = cls(rule), list(dict.fromkeys(machines))
        for start in range(0, len(chosen), AT_ONCE):
            some = chosen[start : start + AT_ONCE]
            known = last_verdicts(connection, some)
            alarms.windows |= {machine: verdicts for machine, (verdicts, _) in known.items()}
            alarms.ringing |= {machine for machine, (_, rings) in known.items() if rings}
            if new := [machine for machine in some if machine not in known]:  # may ring since before there were windows
                alarms.ringing |= ringing(connection, [MachinePattern(start=machine) for machine in new]).keys()
        alarms._stored = dict(alarms.windows)
        return alarms

    def update(self, machine: str, verdict: str, reason: str, at: datetime) -> AlarmEvent | None:
        """One more verdict of a machine; the event, where an alarm begins or ends with it."""
        strange = self._rule.unfamiliar and reason == Reason.UNFAMILIAR
        letter = ANOMALY if verdict == Verdict.ANOMALY else UNFAMILIAR if strange else OTHER
        last = (self.windows.get(machine, "") + letter)[-self._rule.of :]
        self.windows[machine] = last
        anomalies, unfamiliar = last.count(ANOMALY), last.count(UNFAMILIAR)
        count, rings = anomalies + unfamiliar, machine in self.ringing
        if not rings and count >= self._rule.raise_at:
            self.ringing.add(machine)
        elif rings and len(last) == self._rule.of and count <= self._rule.clear_at:
            self.ringing.discard(machine)
        else:
            return None
        return AlarmEvent(
            machine=machine,
            kind="cleared" if rings else "raised",
            anomalies=anomalies,
            unfamiliar=unfamiliar,
            of=len(last),
            at=at,
        )

    def keep(self, connection: Connection) -> None:
        """Write the last verdicts where they are others than before: most machines have one inlier after the other."""
        keep_last_verdicts(
            connection, {name: last for name, last in self.windows.items() if self._stored.get(name) != last}
        )


class ReferralBudget:
    """Counts referrals against what is left of the budget of an hour.

    Args:
        left: so many more are within the budget; None for no limit.
    """

    def __init__(self, left: int | None) -> None:
        self._left = left

    @classmethod
    def of(cls, connection: Connection, per_hour: int | None, at: datetime) -> "ReferralBudget":
        """Read what is left of the hour that ends now; the caller holds the trail.

        Another process may have written what is later than `at` while this one waited for the trail, and its clock may
        be ahead by a little. What is later still is of a clock that was wrong.
        """
        if per_hour is None:
            return cls(None)
        return cls(per_hour - within_budget(connection, at - HOUR, max(at, now()) + CLOCKS_APART))

    def exceeded(self) -> bool:
        """One more referral; whether it is beyond the budget."""
        if self._left is None:
            return False
        self._left -= 1
        return self._left < 0
