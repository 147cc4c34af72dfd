"""Messages to verdicts, without a broker: the journal, the streams and the store are the real ones."""

import errno
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import text

from indubio import Detector, save
from indubio.errors import ConfigError, DataWarning
from indubio.networks import Training
from indubio.posteriors import AnchoredEnsemble
from indubio_server.live import live_engine, run_live
from indubio_server.live.journal import JournalEntry
from indubio_server.live.live_engine import EndedError, LiveEngine
from indubio_server.live.live_metrics import LiveMetrics
from indubio_server.live.settings_of_live import LiveSettings
from indubio_server.live.subscription import Received
from indubio_server.models import Registry
from indubio_server.store import (
    EVERYTHING,
    ServerStore,
    activate,
    active_version,
    add_version,
    alarm_history,
    chosen_cases,
    verify,
)
from indubio_server.store.audit_trail import entries as audit_entries
from tests.live_machines import (
    LONG,
    SENSORS,
    START,
    WIDE,
    assessed,
    entries,
    fitted,
    long_recording,
    recording,
    settings,
    shuffled,
    wide_messages,
)

WIDE_TOPIC = {"topic": "plant/{machine}", "values": "v", "time": "t"}
LONG_TOPIC = {"topic": "plant/{machine}/{sensor}", "value": "x", "time": "t", "time_unit": "us", "quality": "q"}
NUMBERS = ("probability", "epistemic", "aleatoric", "total", "exceed", "var_nll", "nll", "novelty", "p_value")


@pytest.fixture(scope="module")
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted(tmp_path_factory.mktemp("wide") / "press", WIDE)


@pytest.fixture(scope="module")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted(tmp_path_factory.mktemp("long") / "press", LONG)


class Run:
    """Engines one after the other in the same folder, as after a kill."""

    def __init__(self, store: ServerStore, model: Path, folder: Path, given: LiveSettings) -> None:
        self.store, self._model, self._folder, self._given = store, model, folder, given
        self.engine: LiveEngine | None = None

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()

    def start(self) -> LiveEngine:
        self.close()
        self.metrics = LiveMetrics()
        registry = Registry(self.store, {"press": self._model}, self._folder / "models", most_rows=1)
        self.engine = LiveEngine(self.store, registry, self._given, self._folder / "live", self.metrics)
        self.engine.recover()
        return self.engine

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"indubio_live_{name}_total", labels) or 0.0


@pytest.fixture
def run(sqlite_store: ServerStore, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def made(model: Path, given: LiveSettings) -> Run:
        runs.append(Run(sqlite_store, model, tmp_path, given))
        return runs[-1]

    yield made
    for one in runs:
        one.close()


def received(entries: list[JournalEntry], *, again: bool = False) -> list[Received]:
    return [Received(one.arrived, one.packet, 1, again, one.topic, one.payload) for one in entries]


def in_parts(sequence: list, size: int):
    return (sequence[first : first + size] for first in range(0, len(sequence), size))


def assert_as_assessed(store: ServerStore, expected: dict) -> None:
    """Every window is in the store once, with the numbers of `Detector.assess`, to the bit."""
    cases = store.read(lambda c: chosen_cases(c, EVERYTHING))
    keys = [(case.machine, case.external_id) for case in cases]
    assert len(keys) == len(set(keys))
    missing = expected.keys() - set(keys)
    assert len(missing) <= 2 * len({machine for machine, _ in expected}), "only the end of a recording may be open"
    latest = {machine: max(start for m, start in keys if m == machine) for machine, _ in keys}
    assert all(start > latest[machine] for machine, start in missing)
    assert set(keys) <= expected.keys()
    for case in cases:
        there = expected[case.machine, case.external_id]
        assert (case.verdict, case.reason, case.notes) == (there["verdict"], there["reason"], there["notes"])
        for name in NUMBERS:
            number = getattr(case, name)
            assert (np.nan if number is None else number) == pytest.approx(there[name], rel=0, abs=0, nan_ok=True), name


def test_rows_sent_out_of_order_and_twice_give_the_verdicts_of_the_file_to_the_bit(run, wide_model):
    rows = recording(4, 300)
    one = run(wide_model, settings([WIDE_TOPIC], control_share=1.0))
    engine = one.start()
    sent = entries(wide_messages(shuffled(rows, within=0.45)))
    for part in in_parts(received(sent), 37):
        engine.round(part)
    assert_as_assessed(one.store, assessed(wide_model, rows))
    assert one.count("late_values") + one.count("duplicate_values") > 0


def test_values_of_sensors_give_the_verdicts_of_the_export_to_the_bit(run, long_model):
    rows = long_recording(recording(3, 200))
    sent = []
    for row in shuffled(rows, within=0.4).to_dict("records"):
        body = {"x": row["value"], "t": row["time"].value // 1000, "q": row["quality"]}
        sent.append((f"plant/{row['machine']}/{row['tag']}", json.dumps(body).encode()))
    one = run(long_model, settings([LONG_TOPIC], control_share=1.0))
    engine = one.start()
    for part in in_parts(received(entries(iter(sent))), 61):
        engine.round(part)
    assert_as_assessed(one.store, assessed(long_model, rows))
    assert one.count("bad", kind="bad_quality") > 0


@pytest.mark.parametrize("kept", [False, True], ids=["from the journal", "from snapshots"])
def test_what_is_killed_at_any_moment_goes_on_and_doubles_nothing(store, tmp_path, wide_model, kept):
    rows = recording(4, 300)
    whole = Run(store, wide_model, tmp_path, settings([WIDE_TOPIC], control_share=1.0))
    sent = received(entries(wide_messages(shuffled(rows, within=0.45))))
    for number, part in enumerate(in_parts(sent, 53)):
        engine = whole.start()  # the one before was killed: its memory is gone
        engine.round(part)
        if kept and number % 3 == 0:
            engine.snapshot()
    whole.close()
    assert_as_assessed(whole.store, assessed(wide_model, rows))
    events = whole.store.read(lambda c: alarm_history(c))
    assert [(event.machine, event.kind) for event in reversed(events)].count(("m1", "raised")) == 1
    assert whole.store.read(verify).findings == ()
    told = [
        (record["machine"], record["start"])
        for entry in whole.store.read(lambda c: list(audit_entries(c)))
        if entry.kind == "verdicts"
        for record in entry.content["records"]
    ]
    assert len(told) == len(set(told))


def test_messages_that_the_broker_sends_again_are_taken_once_though_they_have_no_time(run, wide_model):
    topic = {"topic": "plant/{machine}", "values": "v"}
    rows = recording(1, 30)
    sent = entries(wide_messages(rows), apart=0.1)
    one = run(wide_model, settings([topic]))
    one.start().round(received(sent))
    engine = one.start()
    engine.round(received(sent, again=True))
    assert one.count("redelivered") == len(sent)
    assert one.count("messages") == 0


BAD = {
    "not_json": (b"{", b"\xff", b"[" * 5000, b'{"t": NaN}', b""),
    "no_values": (b'{"t": "2026-03-01T00:00:00Z"}', b'{"t": "2026-03-01T00:00:00Z", "v": [1, 2]}'),
    "bad_time": (
        b"7",
        b"null",
        b'"text"',
        b'{"t": 5, "v": {"flow": 1}}',
        b'{"v": {"flow": 1}}',
        b'{"t": "yesterday", "v": {"flow": 1}}',
    ),
    "skewed_clock": (b'{"t": "2027-03-01T00:00:00Z", "v": {"flow": 1}}', b'{"t": "1970-01-01", "v": {"flow": 1}}'),
    "no_known_sensor": (b'{"t": "2026-03-01", "v": {"weight": 1}}', b'{"t": "2026-03-01", "v": {}}'),
    "not_a_number": (b'{"t": "2026-03-01", "v": {"flow": "1"}}', b'{"t": "2026-03-01", "v": {"flow": true}}'),
    "too_large": (
        b'{"t": "2026-03-01", "v": {"flow": 1e39}}',
        b'{"t": "2026-03-01", "v": {"flow": -1' + b"0" * 60 + b"}}",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_message_is_counted_by_its_kind_and_stops_nothing(run, wide_model, kind):
    one = run(wide_model, settings([WIDE_TOPIC], ordering={"behind": 1e6}))
    engine = one.start()
    engine.round(received(entries(("plant/m0", body) for body in BAD[kind])))
    assert one.count("bad", kind=kind) == len(BAD[kind])
    engine.round(received(entries(wide_messages(recording(1, 60)))))
    assert one.store.read(lambda c: list(audit_entries(c)))[-1].kind == "verdicts"


def test_a_skewed_clock_may_be_replaced_by_the_time_of_arrival(run, wide_model):
    given = settings([WIDE_TOPIC], ordering={"behind": 60.0, "skewed": "arrival"}, control_share=1.0)
    one = run(wide_model, given)
    sent = entries(wide_messages(recording(1, 60)), apart=0.1)  # a day old when they come
    one.start().round(received(sent))
    starts = [case.external_id for case in one.store.read(lambda c: chosen_cases(c, EVERYTHING))]
    assert starts
    assert all(start.startswith("2026-03-02T00:00:0") for start in starts)


def test_a_pause_begins_new_windows(run, wide_model):
    rows = recording(1, 100)
    rows.loc[53:, "time"] += pd.Timedelta(hours=2)
    one = run(wide_model, settings([WIDE_TOPIC], control_share=1.0))
    one.start().round(received(entries(wide_messages(rows))))
    starts = sorted(case.external_id for case in one.store.read(lambda c: chosen_cases(c, EVERYTHING)))
    expected = [time.isoformat() for time in rows["time"]]
    assert starts[:9] == [expected[place] for place in range(0, 45, 5)]
    assert starts[9] == expected[53]


@pytest.mark.parametrize("longest_gap", [1.0, None])
def test_rows_that_are_missing_for_a_while_give_the_verdicts_of_the_file(run, tmp_path, longest_gap):
    """With a longest gap windows begin anew after it, without one they go on and are noted: both as in a file."""
    windowing = replace(WIDE.windowing, longest_gap=longest_gap)
    model = fitted(tmp_path / "press", replace(WIDE, windowing=windowing))
    rows = recording(1, 300)
    rows.loc[153:, "time"] += pd.Timedelta(minutes=3)
    one = run(model, settings([WIDE_TOPIC], control_share=1.0))
    engine = one.start()
    for part in in_parts(received(entries(wide_messages(rows))), 37):
        engine.round(part)
    expected = assessed(model, rows)
    assert any("pause: 180 s" in there["notes"] for there in expected.values()) == (longest_gap is None)
    assert_as_assessed(one.store, expected)


def test_groups_are_cut_as_in_a_file_with_their_column(run, tmp_path):
    rows = recording(2, 130)
    rows["machine"] = rows["machine"] + "/" + (rows.groupby("machine").cumcount() // 33).astype(str)  # cycles of 33
    reading = replace(LONG, layout=replace(LONG.layout, quality=None))
    model = fitted(tmp_path / "press", reading)
    long = long_recording(rows)
    sent = []
    for row in shuffled(long, within=0.4).to_dict("records"):
        machine, cycle = row["machine"].split("/")
        body = {"m": machine, "list": [{"tag": row["tag"], "value": row["value"], "t": row["time"].isoformat()}]}
        sent.append(("gateway", json.dumps(body | {"cycle": int(cycle)}).encode()))
    topic = {"topic": "gateway", "machine": "m", "samples": "list", "sensor": "tag", "time": "t", "group": "cycle"}
    one = run(model, settings([topic], control_share=1.0))
    one.start().round(received(entries(sent)))
    expected = {(key.split("/")[0], start): row for (key, start), row in assessed(model, long).items()}
    assert_as_assessed(one.store, expected)


def test_a_model_of_rows_gives_a_verdict_for_every_complete_set_of_sensors(run, tmp_path):
    rows = recording(1, 50).fillna(0.0)
    detector = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of stretches that differ
        detector.fit(recording(2, 100, fault=False).fillna(0.0)[list(SENSORS)])
    save(detector, tmp_path / "press")
    one = run(tmp_path / "press", settings([{"topic": "{machine}/{sensor}", "time": "t"}], control_share=1.0))
    sent = [
        (f"m0/{name}", json.dumps({"t": row["time"].isoformat(), "value": row[name]}).encode())
        for number, row in enumerate(rows.to_dict("records"))
        for name in SENSORS
        if (number, name) != (7, "flow")  # one sensor says nothing once, and this model takes no missing values
    ]
    one.start().round(received(entries(sent)))
    found = {case.external_id: case for case in one.store.read(lambda c: chosen_cases(c, EVERYTHING))}
    sure = rows[rows["time"] <= rows["time"].max() - pd.Timedelta(seconds=0.5)].drop(index=7)
    assert sorted(found) == [time.isoformat() for time in sure["time"]]
    expected = detector.assess(sure[list(SENSORS)])
    assert [found[time.isoformat()].probability for time in sure["time"]] == expected.probability.tolist()
    assert one.count("unusable_windows") == 1


def test_a_database_that_fails_is_waited_for_and_nothing_is_lost(run, wide_model):
    rows = recording(2, 200)
    one = run(wide_model, settings([WIDE_TOPIC], control_share=1.0))
    engine = one.start()
    sent = received(entries(wide_messages(shuffled(rows, within=0.4))))
    engine.round(sent[:200])

    def renamed(first: str, second: str) -> None:
        one.store.write(lambda c: c.execute(text(f"ALTER TABLE {first} RENAME TO {second}")) and None)

    renamed("live_machines", "gone")
    back = threading.Timer(1.2, renamed, ["gone", "live_machines"])
    back.start()
    engine.round(sent[200:])
    back.join()
    assert_as_assessed(one.store, assessed(wide_model, rows))


def test_a_process_that_ends_while_the_database_fails_leaves_the_messages_in_the_journal(run, wide_model):
    rows = recording(2, 200)
    one = run(wide_model, settings([WIDE_TOPIC], control_share=1.0))
    engine = one.start()
    one.store.write(lambda c: c.execute(text("ALTER TABLE live_machines RENAME TO gone")) and None)
    engine.ended.set()
    with pytest.raises(EndedError):
        engine.round(received(entries(wide_messages(rows))))
    one.store.write(lambda c: c.execute(text("ALTER TABLE gone RENAME TO live_machines")) and None)
    one.start()
    assert_as_assessed(one.store, assessed(wide_model, rows))


def test_a_second_process_in_the_same_folder_is_refused(run, wide_model):
    one = run(wide_model, settings([WIDE_TOPIC]))
    one.start()
    other = run(wide_model, settings([WIDE_TOPIC]))
    with pytest.raises(ConfigError, match="another `indubio live` works here"):
        other.start()


def test_a_referral_budget_marks_what_is_beyond_it(run, wide_model):
    rows = recording(1, 300)
    rows.loc[rows.index % 10 < 9, "flow"] = np.nan  # gaps in every window: all are referred
    rows.loc[rows.index % 40 < 30, "flow"] = np.nan
    one = run(wide_model, settings([WIDE_TOPIC], referrals_per_hour=4))
    engine = one.start()
    for part in in_parts(received(entries(wide_messages(rows))), 50):
        engine.round(part)
    cases = one.store.read(lambda c: chosen_cases(c, EVERYTHING))
    assert len(cases) > 4
    assert sum(not case.overflow for case in cases) == 4
    assert one.count("referral_overflow") == len(cases) - 4


def heard(run: Run, machine: str, after: float) -> None:
    """A message of a machine that arrives so many seconds after the start."""
    arrived = (START + pd.Timedelta(seconds=after)).value
    body = json.dumps({"t": (START + pd.Timedelta(seconds=after)).isoformat(), "v": {"flow": 1.0}}).encode()
    run.engine.round([Received(arrived, round(after) % 65535 + 1, 1, False, f"plant/{machine}", body)])


def test_who_is_silent_for_long_gives_way_to_others_and_nobody_else_does(run, wide_model):
    run = run(wide_model, settings([WIDE_TOPIC], ordering={"most_machines": 3, "behind": 1e10, "restart_after": 60.0}))
    run.start()
    for number in range(3):
        heard(run, f"once-{number}", float(number))
    heard(run, "real", 10.0)
    assert run.count("bad", kind="too_many_machines") == 1
    assert run.metrics.registry.get_sample_value("indubio_live_trouble", {"what": "machines"}) == 1
    assert "3 machines are the most" in run.metrics.trouble()[1][0]
    heard(run, "once-0", 50.0)  # speaks again
    for second in range(70, 90):
        heard(run, "real", float(second))
    assert run.count("bad", kind="too_many_machines") == 1
    heard(run, "another", 90.0)
    heard(run, "too-many", 91.0)
    assert run.count("bad", kind="too_many_machines") == 2
    before = [*run.engine._streams]
    assert before == ["once-0", "real", "another"]
    run.start()  # from the journal: the same
    assert [*run.engine._streams] == before


def test_a_disk_that_is_full_is_waited_for_and_nothing_is_lost(run, wide_model, monkeypatch):
    rows = recording(1, 100)
    run = run(wide_model, settings([WIDE_TOPIC], control_share=1.0))
    engine = run.start()
    monkeypatch.setattr(live_engine, "RETRY", 0.01)
    full, told = {"append": 3, "snapshot": 1}, []

    def failing(name, function):
        def call(*arguments):
            if full[name] > 0:
                full[name] -= 1
                told.append(run.metrics.registry.get_sample_value("indubio_live_trouble", {"what": "disk"}))
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*arguments)

        return call

    monkeypatch.setattr(engine._journal, "append", failing("append", engine._journal.append))
    monkeypatch.setattr(live_engine, "write_snapshot", failing("snapshot", live_engine.write_snapshot))
    for part in in_parts(received(entries(wide_messages(rows))), 20):
        engine.round(part)
        engine.snapshot()
    assert (full, told) == ({"append": 0, "snapshot": 0}, [None, 1.0, 1.0, 0.0])
    assert run.metrics.trouble()[0] == ["the broker is not connected"]
    assert_as_assessed(run.store, assessed(wide_model, rows))


def test_a_version_that_cannot_be_read_leaves_the_one_in_force(run, wide_model):
    run = run(wide_model, settings([WIDE_TOPIC]))
    engine = run.start()
    there = run.store.read(lambda c: active_version(c, "press"))
    changes = {"sha256": "0" * 64, "rule": there.rule, "rule_content": there.rule_content, "by": "job"}
    run.store.write(lambda c: add_version(c, "press", files=b"nothing of the kind", **changes))
    run.store.write(lambda c: activate(c, "press", 2, by="job"))
    engine._looked = 0.0
    engine.round([])
    assert engine.loaded.version == 1
    assert "version 2 cannot be used" in run.metrics.trouble()[1][0]
    run.store.write(lambda c: activate(c, "press", 1, by="ada"))
    engine._looked = 0.0
    engine.round([])
    assert run.metrics.trouble()[1] == []


def test_a_verdict_is_told_with_novelty_and_p_value(run, wide_model):
    rows = recording(1, 60)
    run = run(wide_model, settings([WIDE_TOPIC], publish={"verdicts": "judged/{machine}"}))
    engine = run.start()
    published = []
    engine.publisher = SimpleNamespace(tell=lambda topic, body: published.append((topic, json.loads(body))))
    engine.round(received(entries(wide_messages(rows))))
    should = assessed(wide_model, rows)
    assert published
    for topic, told in published:
        there = should["m0", told["start"]]
        assert topic == "judged/m0"
        assert (told["novelty"], told["p_value"]) == (there["novelty"], there["p_value"])


def test_what_is_wrong_with_the_settings_shows_before_anything_is_done(sqlite_store, wide_model, tmp_path, monkeypatch):
    monkeypatch.delenv("INDUBIO_WEBHOOK_SECRET", raising=False)
    given = settings([WIDE_TOPIC], webhook={"url": "http://127.0.0.1:9/"})
    with pytest.raises(ConfigError, match="needs a secret"):
        run_live(sqlite_store, {"press": wide_model}, tmp_path, given, None)
    assert "live started" not in {entry.kind for entry in sqlite_store.read(lambda c: list(audit_entries(c)))}
