"""Alarms: k of n, hysteresis, per machine; and the referral budget of an hour."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from indubio.errors import ConfigError
from indubio_server.models.alarm_rules import Alarms, ReferralBudget
from indubio_server.server_settings import AlarmRule
from indubio_server.store import Filters, ServerStore, alarm_history, cases_waiting, now, ringing, verify
from tests.served import mixed_model, row, serving, table_model
from tests.stored_cases import assessed, stored

AT = datetime(2026, 8, 1, 6, tzinfo=UTC)


def events(alarms: Alarms, verdicts: str, machine: str = "m") -> str:
    """R where the alarm is raised, C where it is cleared, . elsewhere; in `verdicts` A is an anomaly, U unfamiliar."""
    meant = {
        "A": ("ANOMALY", ""),
        "U": ("REFER", "unfamiliar"),
        "D": ("REFER", "uncertain-aleatoric"),
        ".": ("INLIER", ""),
    }
    found = [alarms.update(machine, *meant[verdict], AT) for verdict in verdicts]
    return "".join("." if one is None else one.kind[0].upper() for one in found)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ("A.A..", "....."),  # two of five are not enough
        ("A.A.A", "....R"),
        ("AAA", "..R"),  # it need not wait for five
        ("AAA.....", "..R....C"),  # it ends when none of the last five is an anomaly
        ("AAA.A.A.A.A", "..R........"),  # and does not flutter meanwhile
        ("AAA.....AAA", "..R....C..R"),
    ],
)
def test_k_of_n_with_hysteresis(verdicts: str, expected: str) -> None:
    assert events(Alarms(AlarmRule(raise_at=3, of=5, clear_at=0)), verdicts) == expected


def test_what_is_unlike_anything_in_training_counts_and_is_told_apart() -> None:
    """A fault that training never had is referred, and a machine that shows nothing else must ring."""
    rule = AlarmRule(raise_at=3, of=5)
    assert events(Alarms(rule), "UUU.....") == "..R....C"
    assert events(Alarms(rule), "DDDDD") == ".....", "doubt alone does not ring"
    alarms = Alarms(rule)
    assert events(alarms, "AU") == ".."
    event = alarms.update("m", "REFER", "unfamiliar", AT)
    assert event is not None
    assert (event.anomalies, event.unfamiliar, event.of) == (1, 2, 3)
    assert events(Alarms(AlarmRule(raise_at=3, of=5, unfamiliar=False)), "UUUUUAAA") == ".......R"


def test_machines_ring_by_themselves() -> None:
    alarms = Alarms(AlarmRule(raise_at=2, of=2, clear_at=0))
    assert events(alarms, "A", "a") + events(alarms, "A", "b") + events(alarms, "A", "a") == "..R"
    assert alarms.ringing == {"a"}


def test_an_alarm_that_rings_at_a_restart_ends_after_a_full_window() -> None:
    assert events(Alarms(AlarmRule(raise_at=2, of=3, clear_at=0), ["m"]), "...") == "..C"


@pytest.mark.parametrize("rule", [(3, 2, 0), (2, 5, 2), (1, 1, 1)])
def test_a_rule_that_cannot_be_is_refused(rule: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match="clear_at"):
        AlarmRule(raise_at=rule[0], of=rule[1], clear_at=rule[2])


def test_the_budget_is_that_of_the_last_hour(store: ServerStore) -> None:
    times = [timedelta(minutes=minutes) for minutes in (-61, -30, -10)]
    stored(store, [assessed(at=AT + time) for time in times])
    stored(store, [assessed(at=AT, overflow=True), assessed(at=AT, verdict="ANOMALY", reason="")])
    budget = store.read(lambda c: ReferralBudget.of(c, 3, AT))
    assert [budget.exceeded() for _ in range(3)] == [False, True, True]
    assert not store.read(lambda c: ReferralBudget.of(c, None, AT)).exceeded()


def test_the_budget_counts_what_a_clock_wrote_that_is_a_little_ahead(store: ServerStore) -> None:
    at = now()
    stored(store, [assessed(at=at + ahead) for ahead in (timedelta(seconds=30), timedelta(minutes=10))])
    budget = store.read(lambda c: ReferralBudget.of(c, 2, at))
    assert [budget.exceeded() for _ in range(2)] == [False, True]


def test_a_machine_rings_in_the_store_and_over_http(store: ServerStore, tmp_path: Path) -> None:
    table_model(tmp_path / "press")
    with serving(store, {"press": tmp_path / "press"}, tmp_path, alarm=AlarmRule(raise_at=2, of=3)) as (_, client):
        for heat in (40, 40):
            client.post("/assess", json={"rows": [row(heat=heat)], "machine": "press-7"})
        client.post("/assess", json={"rows": [row()], "machine": "press-8"})
        store.write(lambda c: None)  # what was answered before is written by now
        told = client.get("/alarms").json()
        assert list(told["ringing"]) == ["press-7"]
        assert [(one["machine"], one["kind"], one["anomalies"]) for one in told["events"]] == [("press-7", "raised", 2)]
        assert "indubio_alarms_ringing 1.0" in client.get("/metrics").text
    with serving(store, {"press": tmp_path / "press"}, tmp_path, alarm=AlarmRule(raise_at=2, of=3)) as (_, client):
        client.post("/assess", json={"rows": [row()] * 3, "machine": "press-7"})
        store.write(lambda c: None)
    assert store.read(ringing) == {}
    assert [one.kind for one in store.read(alarm_history)] == ["cleared", "raised"]
    assert store.read(verify).whole


def test_referrals_beyond_the_budget_are_kept_and_marked(sqlite_store: ServerStore, tmp_path: Path) -> None:
    mixed_model(tmp_path / "parts")
    bad = {"weight": None, "colour": "red"}
    with serving(sqlite_store, {"parts": tmp_path / "parts"}, tmp_path, referrals_per_hour=2) as (_, client):
        answer = client.post("/assess", json={"rows": [bad] * 3}).json()
        assert all(result["case"] for result in answer["results"])
        assert "indubio_referral_overflow_total 1.0" in client.get("/metrics").text
    with serving(sqlite_store, {"parts": tmp_path / "parts"}, tmp_path, referrals_per_hour=2) as (_, client):
        client.post("/assess", json={"rows": [bad]})  # the hour goes on after a restart
    over = sqlite_store.read(lambda c: cases_waiting(c, filters=Filters(overflow=True)))
    assert len(over) == 2
    assert sqlite_store.read(verify).whole
