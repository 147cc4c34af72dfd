"""What one of its users does keeps the server from no other: lines, connections and states of their own."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import event

from indubio.errors import DataError
from indubio_server.review import PageRequest, import_export
from indubio_server.store import (
    EVERYTHING,
    Case,
    ImportedLabel,
    ServerStore,
    append,
    blocks,
    cases_waiting,
    claim,
    count_waiting,
    final_labels,
    head,
    imported_labels,
    keys_in_use,
    last_case,
    last_review,
    one_by_case,
    require_free,
    review,
    undo,
    verify,
    write_block,
)
from indubio_server.store.audit_trail import entries
from indubio_server.store.database import READERS
from tests.stored_cases import assessed, stored


def labels_of(cases: list[Case], label: Any = "I") -> list[ImportedLabel]:
    return [
        ImportedLabel(place=f"line {place}", reference=case.reference, label=label, comment="")
        for place, case in enumerate(cases, 2)
    ]


def imported(store: ServerStore, labels: list[ImportedLabel], reviewer: str = "ada") -> None:
    once = one_by_case(labels)
    store.read(lambda c: require_free(c, once, reviewer, EVERYTHING))
    for block in blocks(once):
        store.write(lambda c, block=block: write_block(c, block, reviewer))  # type: ignore[misc]


@contextmanager
def statements(store: ServerStore) -> Iterator[list[str]]:
    """What is said to the database meanwhile."""
    said: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        said.append(statement)

    engines = store.database._engines
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    yield said
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)


@contextmanager
def busy_writer(store: ServerStore) -> Iterator[None]:
    """Whatever is submitted meanwhile waits for the end of one transaction."""
    begun, ended = threading.Event(), threading.Event()

    def hold(_connection: Any) -> None:
        begun.set()
        ended.wait(10)

    holding = store.submit(hold)
    begun.wait(10)
    yield
    ended.set()
    holding.result()


def test_imported_labels_count_as_those_that_are_given_one_by_one(store: ServerStore) -> None:
    cases = stored(store, [assessed() for _ in range(5)])
    store.write(lambda c: review(c, cases[0].id, "bob", "A"))
    store.write(lambda c: claim(c, cases[1].id, "ada"))
    imported(store, [*labels_of(cases[:3], "I"), *labels_of(cases[3:4], "U")])
    assert store.read(final_labels) == {cases[0].id: "I", cases[1].id: "I", cases[2].id: "I"}
    assert [case.id for case in store.read(cases_waiting)] == [cases[3].id, cases[4].id]
    store.write(lambda c: undo(c, "ada", cases[2].id))
    assert store.read(count_waiting) == 3
    assert store.read(verify).findings == ()


def test_a_file_with_a_case_that_somebody_holds_is_refused_whole(store: ServerStore) -> None:
    cases = stored(store, [assessed() for _ in range(3)])
    store.write(lambda c: claim(c, cases[2].id, "bob"))
    with pytest.raises(DataError, match=r"line 4: bob is looking at case 3 now\. Nothing was taken\."):
        imported(store, labels_of(cases))
    assert store.read(final_labels) == {}


def test_an_import_says_as_much_to_the_database_for_many_labels_as_for_few(
    sqlite_store: ServerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the cases were labelled before, and however many there are in a block."""
    cases = stored(sqlite_store, [assessed() for _ in range(60)])
    counts = []
    for first, count in ((0, 10), (10, 50)):
        some = cases[first : first + count]
        for reviewer in ("ada", "bob"):
            with statements(sqlite_store) as said:
                imported(sqlite_store, labels_of(some), reviewer)
            counts.append(len(said))
    assert len(set(counts)) == 1, counts
    monkeypatch.setattr(imported_labels, "BLOCK", 10)
    with statements(sqlite_store) as said:
        imported(sqlite_store, labels_of(cases), "eve")
    assert len(said) <= 6 * counts[0]
    kinds = [entry.kind for entry in sqlite_store.read(lambda c: list(entries(c)))]
    assert kinds.count("imported") == 4 + 6, "a transaction for every block"


def test_verdicts_are_written_before_what_pages_wait_for(sqlite_store: ServerStore) -> None:
    order: list[str] = []

    def note(name: str) -> Callable[[Any], None]:
        return lambda _: order.append(name)

    with busy_writer(sqlite_store):
        waiting = [sqlite_store.submit(note(name), page=True) for name in ("page one", "page two")]
        waiting += [sqlite_store.submit(note(name)) for name in ("verdict one", "verdict two")]
    for one in waiting:
        one.result(10)
    assert order == ["verdict one", "verdict two", "page one", "page two"]


def test_what_pages_write_waits_for_another_transaction_where_one_takes_long(
    sqlite_store: ServerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indubio_server.store.writer.PAGES_WITHIN", 0.0)
    counted: list[int] = []
    waiting: list[Future[Any]] = []
    with busy_writer(sqlite_store):
        for _ in range(3):

            def page(connection: Any) -> None:
                append(connection, "noted", {})
                counted.append(sqlite_store.read(head).seq)

            waiting.append(sqlite_store.submit(page, page=True))
    for one in waiting:
        one.result(10)
    assert counted == [0, 1, 2], "each sees the one before as committed"


def test_pages_that_hold_all_their_connections_keep_neither_the_writer_nor_keys_waiting(store: ServerStore) -> None:
    held, ended = threading.Semaphore(0), threading.Event()

    def page(connection: Any) -> None:
        head(connection)
        held.release()
        ended.wait(20)

    with ThreadPoolExecutor(READERS) as pages:
        for _ in range(READERS):
            pages.submit(store.read, page)
        for _ in range(READERS):
            assert held.acquire(timeout=10)
        try:
            assert store.submit(lambda c: append(c, "noted", {}).seq).result(4) == 1
            assert store.look_up(keys_in_use) == {}
        finally:
            ended.set()


def test_what_is_read_is_one_state(store: ServerStore) -> None:
    """While others write: else a verification would find a trail that had grown meanwhile."""

    def twice(connection: Any) -> tuple[int, int]:
        before = head(connection).seq
        store.write(lambda c: append(c, "noted", {}))
        return before, head(connection).seq

    assert store.read(twice) == (0, 0)
    assert store.read(head).seq == 1


def test_a_download_is_the_state_of_its_beginning_and_holds_nothing_between_two_blocks(
    store: ServerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = stored(store, [assessed() for _ in range(3)])
    store.write(lambda c: review(c, cases[2].id, "ada", "A"))
    monkeypatch.setattr(import_export, "AT_ONCE", 2)
    page = cast(PageRequest, SimpleNamespace(read=store.read))
    made = import_export._exported(page, EVERYTHING, store.read(last_case), store.read(last_review))
    first = next(made)
    assert store.database._reading.pool.status().endswith("connections: 0")
    stored(store, [assessed()])
    store.write(lambda c: review(c, cases[2].id, "bob", "I"))
    rest = list(made)
    assert [case.id for block in (first, *rest) for case, _ in block] == [case.id for case in cases]
    assert [one.label for _, said in rest[0] for one in said] == ["A"]
