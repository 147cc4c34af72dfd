"""Alarms per machine (k of n verdicts, with hysteresis) and the referral budget per hour: people are not flooded."""

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

from indubio.server.server_settings import AlarmRule
from indubio.server.store.alarms import AlarmEvent

HOUR = timedelta(hours=1)
MOST_MACHINES = 10_000  # a client that invents names must not fill the memory


class Alarms:
    """The last verdicts of every machine, and whether it rings.

    After a restart the ringing alarms still ring, and the last verdicts are looked at from then on.

    Args:
        rule: when an alarm begins and ends.
        ringing: the machines that ring already.
    """

    def __init__(self, rule: AlarmRule, ringing: Iterable[str] = ()) -> None:
        self._rule = rule
        self.ringing = set(ringing)
        self._last: dict[str, deque[bool]] = {}

    def update(self, machine: str, anomaly: bool, at: datetime) -> AlarmEvent | None:
        """One more verdict of a machine; the event, where an alarm begins or ends with it."""
        last = self._last.pop(machine, None) or deque(maxlen=self._rule.of)
        self._last[machine] = last  # the machine heard of last is last in the dict
        if len(self._last) > MOST_MACHINES:
            del self._last[next(iter(self._last))]
        last.append(anomaly)
        count = sum(last)
        rings = machine in self.ringing
        if not rings and count >= self._rule.raise_at:
            self.ringing.add(machine)
        elif rings and len(last) == self._rule.of and count <= self._rule.clear_at:
            self.ringing.discard(machine)
        else:
            return None
        return AlarmEvent(machine=machine, kind="cleared" if rings else "raised", anomalies=count, of=len(last), at=at)


class ReferralBudget:
    """Counts the referrals of the last hour against the budget.

    Args:
        per_hour: None for no limit.
        times: of the referrals of the last hour.
    """

    def __init__(self, per_hour: int | None, times: Iterable[datetime] = ()) -> None:
        self._per_hour = per_hour
        self._times = deque(times)

    def exceeded(self, at: datetime) -> bool:
        """One more referral; whether it is beyond the budget of the hour that ends with it."""
        if self._per_hour is None:
            return False
        while self._times and self._times[0] <= at - HOUR:
            self._times.popleft()
        if len(self._times) >= self._per_hour:
            return True
        self._times.append(at)
        return False
