"""The audit trail: whatever is changed, removed, moved or cut off is found; on SQLite and on PostgreSQL."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Boolean, Column, Connection, Integer, MetaData, Table, Text, false, text
from sqlalchemy.exc import IntegrityError

from indubio.errors import DataError
from indubio_server.store import (
    AlarmEvent,
    Head,
    JobStatus,
    MachineProgress,
    Person,
    Role,
    ServerStore,
    activate,
    add_events,
    add_job,
    add_key,
    add_version,
    append,
    audit_trail,
    close_session,
    delivered,
    due_events,
    export,
    failed,
    finish_job,
    head,
    job_progress,
    keep_drift,
    keep_progress,
    keys_in_use,
    live_machines,
    now,
    open_person_session,
    open_session,
    outbox,
    read_anchors,
    record_alarm,
    review,
    revoke_key,
    row_seal,
    undo,
    verify,
    verify_export,
)
from indubio_server.store.anchors import KeptHeads, write_anchor
from indubio_server.store.audit_trail import entries
from indubio_server.store.tables import EPOCH, MICROSECOND, keys, metadata
from tests.stored_cases import assessed, stored


def something_happens(store: ServerStore) -> ServerStore:
    cases = stored(store, [assessed(), assessed(total=0.24)])
    store.write(lambda c: review(c, cases[0].id, "ada", "A", "worn die"))
    store.write(lambda c: review(c, cases[1].id, "bob", "I"))
    store.write(lambda c: undo(c, "bob"))
    store.write(lambda c: add_key(c, "line 3", Role.SCORER, actor="ada"))
    return store


def people_come_and_go(store: ServerStore) -> ServerStore:
    """A key is revoked, sessions begin and end, a case waits, drift is kept."""
    store.write(lambda c: add_key(c, "bob", Role.REVIEWER, actor="ada"))
    key = next(key for key in store.read(keys_in_use).values() if key.name == "bob")
    carla = Person(name="carla", issuer="https://login", subject="7", role=Role.REVIEWER)
    store.write(lambda c: open_person_session(c, carla, provider="rules", id_token="t"))
    left = store.write(lambda c: open_session(c, key))
    store.write(lambda c: open_session(c, key))
    store.write(lambda c: close_session(c, left))
    store.write(lambda c: revoke_key(c, "line 3", actor="ada"))
    stored(store, [assessed()])
    store.write(lambda c: keep_drift(c, "m", 1, {"seen": 3}))
    store.write(machines_are_listened_to)
    return store


def machines_are_listened_to(connection: Connection) -> None:
    """A live machine is judged so far; of three events one is taken, one given up, one waits and was tried."""
    keys = keep_progress(connection, "m", {"press 1": MachineProgress(until=5, alarm="{}")})
    about = {"model": "m", "machine": "press 1"}
    numbers = add_events(connection, ["webhook"], "alarm", [(name, about) for name in "abc"])
    append(connection, "live started", {}, rows={live_machines: keys, outbox: numbers})
    first, second, third = due_events(connection, "webhook", "m")
    delivered(connection, [first])
    failed(connection, second, "answered 503", now(), dead=True)
    failed(connection, third, "answered 503", now(), dead=False)


def more_happens(store: ServerStore) -> ServerStore:
    """Versions, activations, jobs and alarms too."""
    rule: dict[str, Any] = {"rule": "r", "rule_content": {"referral_threshold": 0.1}, "by": "ada"}
    for number, evaluation in enumerate((None, {"new": {"wrong": 0.25}})):
        more: dict[str, Any] = rule | {"sha256": str(number), "files": b"some", "evaluation": evaluation}
        store.write(lambda c, more=more: add_version(c, "m", **more))
    for version in (1, 2):
        store.write(lambda c, version=version: activate(c, "m", version, by="ada", note="better"))
    done, failed = (store.write(lambda c: add_job(c, "retrain", "m", {"file": "a.csv"}, by="ada")) for _ in range(2))
    store.write(lambda c: finish_job(c, done, JobStatus.DONE, "version 2 is ready", {"version": 2}))
    store.write(lambda c: finish_job(c, failed, JobStatus.FAILED, "no such file"))
    store.write(lambda c: add_job(c, "recalibrate", "m", {"threshold": 0.2}, by="bob"))
    for kind, at in (("raised", now()), ("cleared", now()), ("raised", now())):
        event = AlarmEvent(machine="press 1", kind=kind, anomalies=3, unfamiliar=1, of=5, at=at)  # type: ignore[arg-type]
        store.write(lambda c, event=event: record_alarm(c, event))
    return store


@pytest.fixture
def busy(sqlite_store: ServerStore) -> ServerStore:
    return something_happens(sqlite_store)


TAMPERING = {
    "an entry's body": "UPDATE audit SET body = replace(body, 'worn', 'fine') WHERE kind = 'reviewed'",
    "an entry's time": "UPDATE audit SET at = at + 1 WHERE seq = 2",
    "who did it": "UPDATE audit SET actor = 'eve' WHERE seq = 2",
    "an entry removed": "DELETE FROM audit WHERE seq = 2",
    "the first removed": "DELETE FROM audit WHERE seq = 1",
    "the last removed": "DELETE FROM audit WHERE seq = 5",
    "two in another order": "UPDATE audit SET seq = CASE seq WHEN 2 THEN -3 ELSE -2 END WHERE seq IN (2, 3); "
    "UPDATE audit SET seq = -seq WHERE seq < 0",
    "a verdict": "UPDATE cases SET verdict = 'INLIER' WHERE id = (SELECT min(id) FROM cases)",
    "a probability by little": "UPDATE cases SET probability = probability + 1e-12",
    "a novelty": "UPDATE cases SET novelty = novelty / 2",
    "a novelty forgotten": "UPDATE cases SET novelty = NULL",
    "an input": "UPDATE cases SET input = notes WHERE id = (SELECT min(id) FROM cases)",
    "a label": "UPDATE reviews SET label = 'I' WHERE label = 'A'",
    "a comment": "UPDATE reviews SET comment = '' WHERE comment <> ''",
    "a reviewer": "UPDATE reviews SET reviewer = 'eve' WHERE reviewer = 'ada'",
    "a review removed": "DELETE FROM reviews WHERE label = 'A'",
    "a role": "UPDATE keys SET role = 'admin'",
    "a key removed": "DELETE FROM sessions; DELETE FROM keys",
    "when a key was made": "UPDATE keys SET at = at - 1",
    "a key's number": "UPDATE sessions SET key_id = 1; UPDATE keys SET id = 9 WHERE name = 'bob'",
    "a key's revocation taken back": "UPDATE keys SET revoked = NULL",
    "when a key was revoked": "UPDATE keys SET revoked = revoked + 1",
    "a session that lasts": "UPDATE sessions SET until = until + 1000000",
    "whose session it is": "UPDATE sessions SET key_id = 1",
    "a session slipped in": "INSERT INTO sessions (hash, key_id, until) SELECT 'x', key_id, 9 FROM sessions LIMIT 1",
    "a session removed": "DELETE FROM sessions",
    "a status decided": "UPDATE cases SET status = 'decided'",
    "a status waiting": "UPDATE cases SET status = 'waiting'",
    "a status that is none": "UPDATE cases SET status = 'x'",
    "the number of the last case": "UPDATE cases SET id = 77 WHERE id = 3",
    "which entry covers a case": "UPDATE cases SET audit = 2 WHERE id = 3",
    "a drift state": "UPDATE drift_states SET state = replace(state, '3', '0')",
    "when a drift state was kept": "UPDATE drift_states SET at = at + 1",
    "how far a live machine is": "UPDATE live_machines SET until = until + 1",
    "what was told of a live machine": "UPDATE live_machines SET alarm = NULL",
    "a live machine forgotten": "DELETE FROM live_machines",
    "what an event says": "UPDATE outbox SET body = '{}' WHERE event = 'c'",
    "an event that is never delivered": "DELETE FROM outbox WHERE event = 'c'",
    "an event silenced": "UPDATE outbox SET dead = true WHERE event = 'c'",
    "an event slipped in": "INSERT INTO outbox SELECT 99, 'd', channel, model, kind, machine, body, at, attempts, due, "
    "dead, error FROM outbox WHERE event = 'c'",
    "a head's number": "UPDATE audit_head SET id = 2",
    "a second head": "INSERT INTO audit_head (id, seq, hash) SELECT 2, seq, hash FROM audit_head",
    "an entry before the first": "INSERT INTO audit (seq, at, kind, actor, body, hash) "
    "SELECT -1, at, kind, actor, body, hash FROM audit WHERE seq = 1",
}


MORE_TAMPERING = {
    "who activated": "UPDATE activations SET by = 'eve'",
    "which version was activated": "UPDATE activations SET version = 1",
    "when it was activated": "UPDATE activations SET at = at + 1 WHERE version = 2",
    "an activation removed": "DELETE FROM activations WHERE version = 2",
    "an activation slipped in": "INSERT INTO activations (name, version, at, by, note) "
    "SELECT name, 1, at, by, note FROM activations WHERE version = 2",
    "an alarm's count": "UPDATE alarm_events SET anomalies = 0",
    "an alarm removed": "DELETE FROM alarm_events WHERE kind = 'cleared'",
    "an alarm silenced": "UPDATE alarms SET ringing = 0",
    "an alarm's machine removed": "DELETE FROM alarms",
    "who started a job": "UPDATE jobs SET by = 'eve'",
    "what a job was started with": "UPDATE jobs SET parameters = replace(parameters, 'a.csv', 'b.csv')",
    "how a job ended": "UPDATE jobs SET status = 'done'",
    "a job's result": "UPDATE jobs SET result = replace(result, '2', '1')",
    "a job removed": "DELETE FROM jobs WHERE kind = 'recalibrate'",
    "a version's rule": "UPDATE model_versions SET rule_content = replace(rule_content, '0.1', '0.2')",
    "what was measured of a version": "UPDATE model_versions SET evaluation = replace(evaluation, '0.25', '0.05')",
    "the files of a version": "UPDATE version_files SET content = x'00' WHERE sha256 = '0'",
    "a version removed": "DELETE FROM model_versions WHERE version = 2",
}


@pytest.mark.parametrize("what", MORE_TAMPERING)
def test_tampering_with_versions_jobs_and_alarms_is_found(sqlite_store: ServerStore, what: str) -> None:
    store = more_happens(sqlite_store)
    assert store.read(verify).whole
    store.write(lambda c: c.execute(text(MORE_TAMPERING[what])))
    findings = store.read(verify).findings
    assert findings
    assert all("as entry" in one or "covered by no entry" in one for one in findings)


def test_progress_of_a_job_is_no_tampering(store: ServerStore) -> None:
    number = more_happens(store).write(lambda c: add_job(c, "retrain", "other", {}, by="ada"))
    store.write(lambda c: job_progress(c, number, 0.5, "half"))
    assert store.read(verify).findings == ()


def test_what_happened_is_whole(store: ServerStore) -> None:
    found = something_happens(store).read(verify)
    assert found.findings == ()
    assert (found.verdicts, found.cases, found.reviews, found.head.seq) == (2, 2, 3, 5)


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_is_found(busy: ServerStore, what: str) -> None:
    people_come_and_go(busy)
    assert busy.read(verify).findings == ()

    def tamper(connection: object) -> None:
        for statement in TAMPERING[what].split("; "):
            connection.execute(text(statement))  # type: ignore[attr-defined]

    busy.write(tamper)
    assert not busy.read(verify).whole


@pytest.mark.parametrize("what", ["an entry's body", "an entry removed", "a probability by little", "a label"])
def test_tampering_is_found_in_any_database(store: ServerStore, what: str) -> None:
    something_happens(store).write(lambda c: c.execute(text(TAMPERING[what])))
    assert not store.read(verify).whole


def test_all_columns_of_all_tables_read_the_same_when_they_were_sealed(store: ServerStore) -> None:
    people_come_and_go(more_happens(something_happens(store)))
    stored(store, [assessed(epistemic=-0.0, machine="Prüfstand 3", external_id="0", notes="\u2028")])
    assert store.read(verify).findings == ()
    for change in ("UPDATE sessions SET until = until + 1", "UPDATE model_versions SET by = 'elsewhere'"):
        with store.database.writing() as connection:
            connection.execute(text(change))
            assert verify(connection).findings
            connection.rollback()


@pytest.mark.parametrize("column", ["at", "kind", "actor", "body", "hash"])
def test_a_malformed_entry_is_a_finding_and_the_verification_goes_on(busy: ServerStore, column: str) -> None:
    people_come_and_go(busy)
    bodies = ["'no'", "'[]'", "'{}'", "'{\"records\":1}'", "'{\"records\":[1]}'", "'" + "[" * 100_000 + "'"]
    bodies += ["'{\"rows\":[]}'", '\'{"rows":{"nothing":{}}}\'', "'{\"name\":[]}'", '\'{"windows":{"m":1}}\'']
    values = ["CAST(x'ff' AS TEXT)", "x'ff'", "9223372036854775807", "-1e300", "''", *(bodies * (column == "body"))]
    kinds = [entry.kind for entry in busy.read(lambda c: list(entries(c)))]
    for kind in dict.fromkeys(kinds):
        for value in values:
            change = f"UPDATE audit SET {column} = {value} WHERE kind = '{kind}'"
            with busy.database.writing() as connection:
                connection.exec_driver_sql(change)
                connection.exec_driver_sql("UPDATE keys SET role = 'admin'")
                findings = verify(connection).findings
                assert findings, change
                assert any("of keys" in one or "and perhaps more" in one for one in findings), (change, findings)
                connection.rollback()


def test_rows_that_are_no_rows_are_findings(busy: ServerStore) -> None:
    people_come_and_go(more_happens(busy))
    for table in metadata.sorted_tables:
        for column in table.c:
            if column.primary_key or table.name in ("claims", "job_leases", "alarm_windows"):
                continue
            if table.name == "outbox" and column.name in ("attempts", "due", "error"):
                continue
            for value in ("CAST(x'ff' AS TEXT)", "x'ff'", "9223372036854775807", "'['"):
                with busy.database.writing() as connection:
                    connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
                    connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
                    try:
                        connection.exec_driver_sql(f'UPDATE {table.name} SET "{column.name}" = {value}')
                    except IntegrityError:  # a unique column
                        connection.rollback()
                        continue
                    assert verify(connection).findings, (table.name, column.name, value)
                    connection.rollback()


@pytest.mark.parametrize("kind", ["noted", "key added"])
def test_changed_rows_that_an_entry_of_ones_own_covers_are_found(busy: ServerStore, kind: str) -> None:
    def cover(connection: Connection) -> None:
        connection.execute(text("UPDATE keys SET role = 'admin'"))
        append(connection, kind, {}, rows={keys: connection.execute(text("SELECT id FROM keys")).scalars()})

    busy.write(cover)
    assert any("changes row [1] of keys" in finding for finding in busy.read(verify).findings)


def test_rows_that_an_entry_of_ones_own_adds_are_found(busy: ServerStore) -> None:
    def slip_in(connection: Connection) -> None:
        connection.execute(text("INSERT INTO keys (id, name, role, hash, at) VALUES (9, 'eve', 'admin', 'x', 1)"))
        append(connection, "claimed", {"case": "1"}, actor="ada", rows={keys: [9]})

    busy.write(slip_in)
    assert any("adds row [9] of keys" in finding for finding in busy.read(verify).findings)


def test_the_trail_has_what_was_written(busy: ServerStore) -> None:
    (added,) = (entry for entry in busy.read(lambda c: list(entries(c))) if entry.kind == "key added")
    (columns,) = added.content["rows"]["keys"].values()
    assert (columns["name"], columns["role"], columns["at"]) == ("line 3", "scorer", (added.at - EPOCH) // MICROSECOND)


def test_a_column_that_is_added_later_is_sealed_and_seals_without_it_still_fit() -> None:
    before = Table("things", MetaData(), Column("id", Integer, primary_key=True), Column("name", Text))
    later = Table(
        "things",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("name", Text),
        Column("site", Text),
        Column("sites", Text, nullable=False, server_default="it's all"),
        Column("quoted", Text, nullable=False, server_default=text("'it''s all'")),
        Column("flag", Boolean, nullable=False, server_default=false()),
        Column("count", Integer, nullable=False, server_default="0"),
    )
    row = {"id": 1, "name": "press"}
    filled = row | {"site": None, "sites": "it's all", "quoted": "it's all", "flag": False, "count": 0}
    seal = row_seal(before, row)
    assert seal == row_seal(later, row) == row_seal(later, filled)
    for change in ({"site": ""}, {"sites": ""}, {"quoted": None}, {"flag": True}, {"count": 1}, {"name": None}):
        assert row_seal(later, filled | change) != seal


def test_a_removed_case_is_found(busy: ServerStore) -> None:
    case = stored(busy, [assessed()])[0]
    busy.write(lambda c: c.execute(text("DELETE FROM cases WHERE id = :id"), {"id": case.id}))
    assert any("was removed" in finding for finding in busy.read(verify).findings)


def test_a_case_that_was_slipped_in_is_found(busy: ServerStore) -> None:
    columns = (
        "at, model, version, sha256, rule, machine, verdict, reason, prediction, probability, epistemic, aleatoric"
    )
    columns += ", total, exceed, var_nll, nll, p_value, notes, input, input_hash, overflow, status"
    slip = f"INSERT INTO cases (reference, audit, {columns}) SELECT 'made up', 99, {columns} FROM cases LIMIT 1"
    busy.write(lambda c: c.execute(text(slip)))
    assert any("covered by no entry" in finding for finding in busy.read(verify).findings)


def test_an_end_that_was_cut_off_with_its_head_is_found_by_an_anchor(busy: ServerStore, tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    write_anchor(anchor, busy.read(head))
    assert busy.read(lambda c: verify(c, read_anchors(anchor).heads)).whole

    def cut(connection: object) -> None:
        for statement in (
            "DELETE FROM keys",
            "DELETE FROM audit WHERE seq = 5",
            "UPDATE audit_head SET seq = 4, hash = (SELECT hash FROM audit WHERE seq = 4)",
        ):
            connection.execute(text(statement))  # type: ignore[attr-defined]

    busy.write(cut)
    assert busy.read(verify).whole  # the chain alone cannot know
    assert "cut off" in busy.read(lambda c: verify(c, read_anchors(anchor).heads)).findings[0]


def test_a_trail_that_was_made_anew_is_found_by_an_anchor(busy: ServerStore) -> None:
    found = busy.read(lambda c: verify(c, [Head(seq=3, hash="f" * 64)]))
    assert "made anew" in found.findings[0]


def test_a_line_of_the_anchor_file_that_a_crash_cut_off_is_passed_over(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    write_anchor(anchor, Head(seq=1, hash="a" * 64))
    whole = anchor.read_bytes()
    anchor.write_bytes(whole + whole[:20])
    one = Head(seq=1, hash="a" * 64)
    assert read_anchors(anchor) == KeptHeads(heads=(one,), findings=())
    write_anchor(anchor, one)  # goes on after what the crash left
    assert read_anchors(anchor) == KeptHeads(heads=(one, one), findings=())


def test_whatever_is_done_to_a_line_of_the_anchor_file_is_found(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    for number in range(1, 5):
        write_anchor(anchor, Head(seq=number, hash=str(number) * 64))
    lines = anchor.read_bytes().splitlines(keepends=True)
    assert len(read_anchors(anchor).heads) == 4
    changed = {
        "a time": [lines[0], lines[1].replace(b"20", b"19", 1), *lines[2:]],
        "one removed": [lines[0], *lines[2:]],
        "the first removed": lines[1:],
        "two in another order": [lines[1], lines[0], *lines[2:]],
        "no JSON": [lines[0], b"no\xff\n", *lines[2:]],
        "one slipped in": [*lines[:2], *lines[1:]],
        "no JSON at the end": [*lines, b"no\n"],
    }
    for what, content in changed.items():
        anchor.write_bytes(b"".join(content))
        assert read_anchors(anchor).findings, what


def test_an_exported_run_verifies_by_itself(busy: ServerStore) -> None:
    times = [entry.at for entry in busy.read(lambda c: list(entries(c)))]
    lines = busy.read(lambda c: list(export(c, since=times[1], before=times[4])))
    assert lines == busy.read(lambda c: list(export(c, after=1, until=4)))
    assert verify_export(lines) == (3, ())
    changed = [lines[0], lines[1].replace(b"worn", b"fine"), *lines[2:]]
    assert len(verify_export(changed)[1]) == 1
    assert len(verify_export([lines[0], *lines[2:]])[1]) == 3
    for end in range(1, len(lines)):
        assert "no closing line" in verify_export(lines[:end])[1][-1]
    assert "closing line says 3" in verify_export([*lines[:3], lines[-1]])[1][0]
    assert verify_export([*lines, lines[-1]])[1]
    assert verify_export([*lines[:2], b"no\xff\n", *lines[2:]])[1]
    with pytest.raises(DataError, match="line 1"):
        verify_export([b"no"])


def test_an_export_by_time_has_no_holes_when_the_clock_was_set_back(busy: ServerStore) -> None:
    last = busy.read(lambda c: list(entries(c)))[-1].at
    for hours in (-5, 1, -3, 2):
        busy.write(lambda c, hours=hours: append(c, "noted", {}, at=last + timedelta(hours=hours)))
    lines = busy.read(lambda c: list(export(c, since=last + timedelta(minutes=30))))
    assert verify_export(lines) == (3, ())
    assert [msgspec.json.decode(line)["seq"] for line in lines[1:-1]] == [7, 8, 9]
    nothing = busy.read(lambda c: list(export(c, before=last - timedelta(days=9))))
    assert verify_export(nothing) == (0, ())


def test_the_trail_is_longer_than_what_is_read_at_once(store: ServerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_trail, "AT_ONCE", 10)

    def many(connection: object) -> None:
        for number in range(25):
            append(connection, "noted", {"number": number})  # type: ignore[arg-type]

    store.write(many)
    assert [entry.seq for entry in store.read(lambda c: list(entries(c)))] == list(range(1, 26))
    assert store.read(verify).whole
