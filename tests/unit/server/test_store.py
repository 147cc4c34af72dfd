"""The store: cases, claims, reviews, keys, versions, jobs; on SQLite and on PostgreSQL."""

import contextlib
import random
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from indubio.errors import ConfigError, ConflictError, NotFoundError, StoreError
from indubio_server.store import (
    Filters,
    JobStatus,
    Role,
    ServerStore,
    abandoned_jobs,
    activate,
    activation_history,
    active_version,
    add_cases,
    add_events,
    add_job,
    add_key,
    add_version,
    agreement,
    all_jobs,
    all_keys,
    append,
    case_rows,
    cases_waiting,
    claim,
    close_session,
    comment_on,
    count_waiting,
    counting,
    due_events,
    failed,
    final_labels,
    finish_job,
    hashed,
    head,
    history,
    interrupt_jobs,
    job_progress,
    keys_in_use,
    next_to,
    now,
    open_session,
    outbox,
    progress,
    renew_leases,
    review,
    revoke_key,
    second_opinions,
    session_owner,
    sessions,
    undo,
    verify,
    versions,
)
from indubio_server.store.jobs import LEASE, job_by_id
from indubio_server.store.reviews import all_reviews
from indubio_server.store.tables import metadata
from tests.stored_cases import assessed, stored


def waiting(store: ServerStore, order: Any = "age", filters: Filters | None = None, **options: Any) -> list[int]:
    return [case.id for case in store.read(lambda c: cases_waiting(c, order, filters or Filters(), **options))]


def test_migrations_make_exactly_the_tables_that_the_code_knows(store: ServerStore) -> None:
    with store.database.reading() as connection:
        context = MigrationContext.configure(connection)
        assert [change for change in compare_metadata(context, metadata) if "alembic" not in str(change)] == []


def test_a_database_of_a_later_version_is_refused(store: ServerStore) -> None:
    store.write(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(StoreError, match="another version"):
        store.database.migrate()


def test_the_queue_is_ordered_by_age_or_by_uncertainty_and_overflow_comes_last(store: ServerStore) -> None:
    early, late = now() - timedelta(hours=2), now()
    a, b, c = (
        case.id
        for case in stored(
            store,
            [
                assessed(at=late, total=0.1),
                assessed(at=early, total=0.2),
                assessed(at=early, total=0.25, overflow=True),
            ],
        )
    )
    assert waiting(store) == [b, a, c]
    assert waiting(store, "uncertainty") == [b, a, c]
    assert waiting(store, "uncertainty", Filters(overflow=False)) == [b, a]
    assert waiting(store, "age", Filters(since=late)) == [a]
    assert waiting(store, "age", limit=1, offset=1) == [a]


def test_the_queue_is_filtered_by_machine_reason_and_model(store: ServerStore) -> None:
    a, b, c = (
        case.id
        for case in stored(
            store, [assessed(machine="m1"), assessed(machine="m2", reason="bad_input"), assessed(model="lathe")]
        )
    )
    assert waiting(store, filters=Filters(machine="m1")) == [a]
    assert waiting(store, filters=Filters(reason="bad_input")) == [b]
    assert waiting(store, filters=Filters(model="lathe")) == [c]


def test_a_case_comes_back_as_it_was_assessed(store: ServerStore) -> None:
    given = assessed(external_id="part 7", notes="missing: flow", probability=0.1 + 0.2)
    (case,) = stored(store, [given])
    assert {name: getattr(case, name) for name in given.__dict__} == given.__dict__


def test_two_reviewers_are_not_given_the_same_case(store: ServerStore) -> None:
    a, b = (case.id for case in stored(store, [assessed(), assessed()]))
    store.write(lambda c: claim(c, a, "ada"))
    with pytest.raises(ConflictError, match="held by ada"):
        store.write(lambda c: claim(c, a, "bob"))
    with pytest.raises(ConflictError, match="held by ada"):
        store.write(lambda c: review(c, a, "bob", "I"))
    assert waiting(store, reviewer="bob") == [b]
    assert waiting(store, reviewer="ada") == [a, b]


def test_of_many_who_claim_at_once_one_gets_the_case(store: ServerStore) -> None:
    (case,) = stored(store, [assessed()])
    got: list[str] = []

    def attempt(name: str) -> None:
        try:
            store.write(lambda c: claim(c, case.id, name))
            got.append(name)
        except ConflictError:
            pass

    threads = [threading.Thread(target=attempt, args=(f"reviewer {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_a_claim_expires(store: ServerStore) -> None:
    (case,) = stored(store, [assessed()])
    store.write(lambda c: claim(c, case.id, "ada", hold=timedelta(minutes=5)))
    later = now() + timedelta(minutes=6)
    store.write(lambda c: claim(c, case.id, "bob", at=later))
    assert waiting(store, reviewer="ada", at=later) == []


def test_a_label_takes_the_case_out_of_the_queue_and_undo_brings_it_back(store: ServerStore) -> None:
    (case,) = stored(store, [assessed()])
    store.write(lambda c: review(c, case.id, "ada", "A", "worn die"))
    assert waiting(store) == []
    taken_back = store.write(lambda c: undo(c, "ada"))
    assert (taken_back.case_id, taken_back.label) == (case.id, "A")
    assert waiting(store) == [case.id]
    with pytest.raises(NotFoundError, match="nothing to undo"):
        store.write(lambda c: undo(c, "ada"))
    assert [one.label for one in store.read(lambda c: history(c, case.id))] == ["A", None]


def test_undoing_a_second_label_makes_the_first_count_again(store: ServerStore) -> None:
    (case,) = stored(store, [assessed()])
    store.write(lambda c: review(c, case.id, "ada", "I"))
    store.write(lambda c: review(c, case.id, "ada", "A"))
    assert store.read(final_labels) == {case.id: "A"}
    store.write(lambda c: undo(c, "ada"))
    assert store.read(final_labels) == {case.id: "I"}


def test_unsure_leaves_the_case_to_others(store: ServerStore) -> None:
    (case,) = stored(store, [assessed()])
    store.write(lambda c: review(c, case.id, "ada", "U"))
    assert waiting(store, reviewer="ada") == []
    assert waiting(store, reviewer="bob") == [case.id]
    assert store.read(lambda c: count_waiting(c)) == 1


def test_a_comment_alone_decides_nothing(store: ServerStore) -> None:
    (case,) = stored(store, [assessed()])
    store.write(lambda c: comment_on(c, case.id, "ada", "ask the fitter"))
    assert waiting(store) == [case.id]
    with pytest.raises(ConfigError, match="at most"):
        store.write(lambda c: comment_on(c, case.id, "ada", "x" * 5000))


def test_progress_counts_what_counts(store: ServerStore) -> None:
    cases = stored(store, [assessed(), assessed(), assessed(overflow=True)])
    store.write(lambda c: review(c, cases[0].id, "ada", "I"))
    store.write(lambda c: review(c, cases[0].id, "ada", "A"))
    store.write(lambda c: review(c, cases[1].id, "bob", "U"))
    found = store.read(progress)
    assert (found.waiting, found.decided, found.overflow) == (2, 1, 1)
    assert found.labels == {"I": 0, "A": 1, "U": 1}
    assert found.by_reviewer == {"ada": 1, "bob": 1}


def test_progress_counts_whatever_was_said_and_taken_back(store: ServerStore) -> None:
    """The database counts as `counting` does, which reads every review."""
    cases = stored(store, [assessed(machine=f"press-{place % 2}") for place in range(4)])
    chance = random.Random(3)

    def act(connection: Any) -> None:
        for _ in range(60):
            case, who = chance.choice(cases), chance.choice(["ada", "bob"])
            with contextlib.suppress(NotFoundError):
                if chance.random() < 0.35:
                    undo(connection, who, case.id)
                elif chance.random() < 0.2:
                    comment_on(connection, case.id, who, "hm")
                else:
                    review(connection, case.id, who, chance.choice(["I", "A", "U"]))  # type: ignore[arg-type]

    store.write(act)
    for filters in (Filters(), Filters(machine="press-1")):
        said = [
            one
            for by_person in counting(store.read(lambda c, f=filters: all_reviews(c, f))).values()
            for one in by_person.values()
        ]
        found = store.read(lambda c, f=filters: progress(c, f))
        assert found.labels == {label: sum(one.label == label for one in said) for label in "IAU"}
        assert found.by_reviewer == found.today == Counter(one.reviewer for one in said)
        assert found.decided + found.waiting == (4 if filters.machine is None else 2)
    later = store.read(lambda c: progress(c, at=now() + timedelta(days=2)))
    assert later.today == {}
    assert later.by_reviewer


def test_the_queue_can_be_walked_both_ways_and_read_in_pieces(store: ServerStore) -> None:
    chance, at = random.Random(5), now()
    found = [
        assessed(
            overflow=chance.random() < 0.4, total=chance.choice([0.1, 0.2, 0.3]), at=at + timedelta(seconds=n // 3)
        )
        for n in range(24)
    ]
    chance.shuffle(found)
    stored(store, found)
    for order in ("age", "uncertainty"):
        queue = store.read(lambda c, o=order: cases_waiting(c, o))
        first = (lambda case: case.at) if order == "age" else (lambda case: -case.total)
        assert queue == sorted(queue, key=lambda case: (case.overflow, first(case), case.id))
        pieces = [store.read(lambda c, o=order, n=n: cases_waiting(c, o, limit=5, offset=n)) for n in range(0, 30, 5)]
        assert [case for piece in pieces for case in piece] == queue
        ways = [
            [store.read(lambda c, k=case, o=order, b=before: next_to(c, k, o, before=b)) for case in queue]
            for before in (False, True)
        ]
        assert ways == [[*queue[1:], None], [None, *queue[:-1]]]


def test_what_a_clock_did_that_was_ahead_ends_with_it(store: ServerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims, sessions and budgets last as long as any other, and events are not put off for a month."""
    (case,) = stored(store, [assessed()])
    secret = store.write(lambda c: add_key(c, "ada", Role.REVIEWER, actor="ops"))
    key = store.read(keys_in_use)[hashed(secret)]
    ahead = now() + timedelta(days=30)
    with monkeypatch.context() as wrong:
        wrong.setattr(sessions, "now", lambda: ahead)
        session = store.write(lambda c: open_session(c, key))
    store.write(lambda c: claim(c, case.id, "bob", at=ahead))
    assert store.read(lambda c: session_owner(c, session)) is None
    assert waiting(store, reviewer="ada") == [case.id]
    store.write(lambda c: claim(c, case.id, "ada"))
    event = ("e1", {"model": "press", "machine": "m"})

    def put_off(connection: Any) -> None:
        append(connection, "told", {}, rows={outbox: add_events(connection, ["webhook"], "alarm", [event])})
        failed(connection, due_events(connection, "webhook", "press")[0], "503", ahead, dead=False)

    store.write(put_off)
    assert [one.event for one in store.read(lambda c: due_events(c, "webhook", "press"))] == ["e1"]


def test_agreement_is_that_of_fleiss(store: ServerStore) -> None:
    cases = stored(store, [assessed() for _ in range(4)])
    said = {"ada": "AAII", "bob": "AIII"}
    for name, labels in said.items():
        for case, label in zip(cases, labels, strict=True):
            store.write(lambda c, case=case, name=name, label=label: review(c, case.id, name, label))
    found = store.read(agreement)
    # By hand: 3 of 4 pairs agree; 3 of 8 labels are A: chance is (3/8)^2 + (5/8)^2 = 34/64.
    assert (found.cases, found.pairs, found.agreeing) == (4, 4, 0.75)
    assert found.kappa == pytest.approx((0.75 - 34 / 64) / (1 - 34 / 64))
    assert found.disagreed == (cases[1].id,)


def test_second_opinions_are_of_decided_cases_of_others(store: ServerStore) -> None:
    a, b = (case.id for case in stored(store, [assessed(), assessed()]))
    store.write(lambda c: review(c, a, "ada", "A"))
    assert [case.id for case in store.read(lambda c: second_opinions(c, "bob"))] == [a]
    assert store.read(lambda c: second_opinions(c, "ada")) == []
    assert b in waiting(store)


def test_a_key_is_kept_as_a_hash_only_and_opens_nothing_once_revoked(store: ServerStore) -> None:
    secret = store.write(lambda c: add_key(c, "line 3", Role.SCORER, actor="tester"))
    assert store.read(keys_in_use)[hashed(secret)].name == "line 3"
    assert secret not in str(store.read(lambda c: c.execute(text("SELECT * FROM keys")).all()))
    with pytest.raises(ConflictError, match="already"):
        store.write(lambda c: add_key(c, "line 3", Role.ADMIN, actor="tester"))
    store.write(lambda c: revoke_key(c, "line 3", actor="tester"))
    assert store.read(keys_in_use) == {}
    assert store.read(all_keys)[0].revoked is not None
    with pytest.raises(NotFoundError):
        store.write(lambda c: revoke_key(c, "line 3", actor="tester"))


def test_a_session_ends_with_its_key(store: ServerStore) -> None:
    secret = store.write(lambda c: add_key(c, "ada", Role.REVIEWER, actor="tester"))
    key = store.read(keys_in_use)[hashed(secret)]
    cookies = [store.write(lambda c: open_session(c, key)) for _ in range(2)]
    assert store.read(lambda c: session_owner(c, cookies[0])).name == key.name
    store.write(lambda c: close_session(c, cookies[0]))
    assert store.read(lambda c: session_owner(c, cookies[0])) is None
    store.write(lambda c: revoke_key(c, "ada", actor="tester"))
    assert store.read(lambda c: session_owner(c, cookies[1])) is None


def test_roles_open_what_they_are_for() -> None:
    assert [role.may(Role.REVIEWER) for role in Role] == [False, False, True, True]
    assert [role.may(Role.SCORER) for role in Role] == [False, True, False, True]


def test_versions_count_up_are_activated_and_rolled_back(store: ServerStore) -> None:
    def add(sha256: str, **more: Any) -> int:
        return store.write(
            lambda c: add_version(
                c, "press", sha256=sha256, rule="r", rule_content={"by": "total"}, files=b"f", by="ada", **more
            )
        ).version

    assert store.read(lambda c: active_version(c, "press")) is None
    assert [add("a" * 64), add("a" * 64), add("b" * 64, origin="retrained", parent=1, evaluation={"gain": 0.1})] == [
        1,
        1,
        2,
    ]
    for number in (1, 2, 1):
        store.write(lambda c, number=number: activate(c, "press", number, by="ada"))
    active = store.read(lambda c: active_version(c, "press"))
    assert active is not None
    assert active.version == 1
    assert store.read(lambda c: versions(c, "press"))[1].evaluation == {"gain": 0.1}
    assert [one.version for one in store.read(lambda c: activation_history(c, "press"))] == [1, 2, 1]
    with pytest.raises(NotFoundError, match="version 3"):
        store.write(lambda c: activate(c, "press", 3, by="ada"))


def test_a_job_that_was_cut_off_is_told_as_interrupted(store: ServerStore) -> None:
    first, second = (store.write(lambda c: add_job(c, "retrain", "press", {"epochs": 3}, by="ada")) for _ in range(2))
    store.write(lambda c: job_progress(c, first, 0.5, "epoch 2"))
    store.write(lambda c: finish_job(c, first, JobStatus.DONE, "", {"version": 2}))
    assert store.write(interrupt_jobs) == 0, "who runs it may be another server on the same store"
    later = now() + LEASE
    store.write(lambda c: renew_leases(c, [second]))
    assert store.read(lambda c: abandoned_jobs(c, at=later - timedelta(seconds=1))) == []
    assert store.read(lambda c: abandoned_jobs(c, at=now() - timedelta(days=1))) == [second], "a clock went back"
    assert store.write(lambda c: interrupt_jobs(c, at=later + timedelta(seconds=1))) == 1
    found = store.read(lambda c: job_by_id(c, first))
    assert (found.status, found.progress, found.result, found.parameters) == (
        "done",
        1.0,
        {"version": 2},
        {"epochs": 3},
    )
    assert [job.id for job in store.read(all_jobs)] == [second, first]


def test_what_fails_is_undone_alone(store: ServerStore) -> None:
    (case,) = stored(store, [assessed()])
    before = store.read(head)
    started = threading.Event()

    def slow(connection: Any) -> None:
        started.wait(10)

    store.submit(slow)  # the next two wait, so that they share a transaction

    def half(connection: Any) -> None:
        comment_on(connection, case.id, "ada", "never seen")
        raise ConflictError("no")

    bad, good = store.submit(half), store.submit(lambda c: comment_on(c, case.id, "bob", "seen"))
    started.set()
    with pytest.raises(ConflictError):
        bad.result()
    good.result()
    assert [one.comment for one in store.read(lambda c: history(c, case.id))] == ["seen"]
    assert store.read(head).seq == before.seq + 1
    assert store.read(verify).whole


def test_a_statement_of_the_driver_that_is_refused_is_undone_alone(store: ServerStore) -> None:
    (case,) = stored(store, [assessed()])
    before = store.read(head)
    started = threading.Event()
    store.submit(lambda connection: started.wait(10))  # the next two wait, so that they share a transaction

    def again(connection: Any) -> None:
        audit = append(connection, "noted", {}).seq
        add_cases(connection, case_rows(connection, [assessed(reference="another"), case], audit))

    bad = store.submit(again)
    third = assessed(reference="third")
    good = store.submit(lambda c: add_cases(c, case_rows(c, [third], append(c, "noted", {}).seq)))
    started.set()
    with pytest.raises(IntegrityError):
        bad.result()
    good.result()
    assert {one.reference for one in store.read(cases_waiting)} == {case.reference, "third"}
    assert store.read(head).seq == before.seq + 1


def test_a_closed_store_refuses_work(database_url: str) -> None:
    closed = ServerStore(database_url)
    closed.close()
    with pytest.raises(StoreError, match="closed"):
        closed.write(head)
