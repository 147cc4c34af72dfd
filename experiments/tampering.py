"""Does `indubio audit verify` find what somebody changed? Random single changes to a server's database and files.

python -m experiments.tampering        1,000 changes, each to a fresh copy; table of docs/tampering.md

The store is filled through the server itself. A change is to any column of any row of any table (another value, a row
removed, added, or two rows' values exchanged), or to a file: the anchors, and the files of a model version. It must be
found, or belong to what docs/server.md names as not covered; the command fails where one is neither.
"""

import argparse
import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.results_file import markdown, put_into

TRIES = 1000
NOT_COVERED = {
    "claims": "who holds a case for some minutes",
    "running job": "how far a running job is",
    "leases": "until when a server vouches for a running job",
    "attempts": "how often an event was tried, and when it is tried next",
    "end of anchors": "the last lines of an anchor file",
}
PLACES = ("anchors", "folder of a version")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change.

    Args:
        place: the table, "anchors" or "folder of a version".
        what: in words.
        named: the class of what is not covered that it belongs to, None where it must be found.
    """

    place: str
    what: str
    named: str | None = None


def fill(state: Path, model: Path) -> None:
    """Make a store in which everything happened that a server remembers."""
    from starlette.testclient import TestClient

    from indubio_server.app import build_app
    from indubio_server.server_settings import AlarmRule, ServerSettings
    from indubio_server.service import Service
    from indubio_server.store import (
        JobStatus,
        Person,
        Role,
        ServerStore,
        add_job,
        add_key,
        cases_waiting,
        claim,
        close_session,
        comment_on,
        finish_job,
        job_progress,
        keep_drift,
        keys_in_use,
        open_person_session,
        open_session,
        review,
        revoke_key,
        undo,
    )

    settings = ServerSettings(alarm=AlarmRule(raise_at=2, of=3), control_share=0.5, referrals_per_hour=4)
    with ServerStore(f"sqlite:///{state / 'indubio.sqlite'}") as store:
        secrets = {
            name: store.write(lambda c, n=name: add_key(c, n, Role.ADMIN, actor="ops")) for name in ("ada", "bob")
        }
        store.write(lambda c: add_key(c, "line 3", Role.SCORER, sites=["hamburg"], actor="ops"))
        service = Service(store, {"press": model}, state, settings)
        client = TestClient(build_app(service), base_url="http://127.0.0.1:8080", headers={"x-api-key": secrets["ada"]})
        with client:
            for machine in range(4):
                for size in (0.1, 40.0, 40.0, 0.2, 0.3, 0.1)[: 6 - machine]:
                    row = dict.fromkeys(("pressure", "flow", "heat"), size)
                    answer = client.post(
                        "/assess", json={"rows": [row, row | {"flow": -size}], "machine": f"press-{machine}"}
                    )
                    assert answer.status_code == 200, answer.text
                service.anchor()
            assert client.post("/models/press/activate", json={"version": 1}).status_code == 200
        keys = {key.name: key for key in store.read(keys_in_use).values()}
        sessions = [store.write(lambda c, n=n: open_session(c, keys[n])) for n in ("ada", "bob", "bob")]
        store.write(lambda c: close_session(c, sessions[0]))
        carla = Person(
            name="carla", issuer="https://login", subject="7", role=Role.REVIEWER, sites=frozenset({"hamburg"})
        )
        store.write(lambda c: open_person_session(c, carla, provider="rules", id_token="t"))
        store.write(lambda c: revoke_key(c, "line 3", actor="ada"))
        cases = store.read(lambda c: cases_waiting(c, limit=6))
        for number, case in enumerate(cases[:4]):
            store.write(lambda c, i=case.id, n=number: review(c, i, "ada" if n % 2 else "bob", "IAUA"[n], f"seen {n}"))  # type: ignore[misc,arg-type]
        store.write(lambda c: undo(c, "bob"))
        store.write(lambda c: comment_on(c, cases[4].id, "ada", "worn die"))
        for case in cases[4:]:
            store.write(lambda c, i=case.id: claim(c, i, "bob"))  # type: ignore[misc]
        for ended in (JobStatus.DONE, JobStatus.FAILED, None):
            number = store.write(lambda c: add_job(c, "recalibrate", "press", {"threshold": 0.2}, by="ada"))
            store.write(lambda c, n=number: job_progress(c, n, 0.4, "fitting"))  # type: ignore[misc]
            if ended is not None:
                store.write(lambda c, n=number, e=ended: finish_job(c, n, e, "over", {"version": 1}))  # type: ignore[misc]
            service.anchor()
        store.write(lambda c: keep_drift(c, "press", 7, {"seen": 12}, {"drift": {"alarm": True}}))
        listen(store, service.registry, state)
        service.registry.folder_of(service.registry.known("press")[0])  # as a rollback fetches it
        service.close()


def listen(store: Any, registry: Any, state: Path) -> None:
    """Judge live machines, with events that wait, are taken, given up and tried again."""
    from indubio_server.live import live_settings
    from indubio_server.live.live_engine import LiveEngine
    from indubio_server.live.live_metrics import LiveMetrics
    from indubio_server.live.subscription import Received
    from indubio_server.store import delivered, due_events, failed, now, retry_dead

    hook = {"url": "http://127.0.0.1:9/", "verdicts": ["INLIER", "REFER", "ANOMALY"]}
    settings = live_settings({"topics": [{"topic": "{machine}"}], "webhook": hook, "alarm": {"raise_at": 2, "of": 3}})
    engine = LiveEngine(store, registry, settings, state / "live", LiveMetrics())
    for number, size in enumerate((0.1, 40.0, 40.0, 0.2, 0.1)):
        body = json.dumps(dict.fromkeys(("pressure", "flow", "heat"), size)).encode()
        arrived = time.time_ns() + number * 10**9
        engine.round([Received(arrived, 0, 1, False, f"lathe-{machine}", body) for machine in range(3)])
    engine.close()
    events = store.read(lambda c: due_events(c, "webhook", "press"))
    store.write(lambda c: delivered(c, events[:2]))
    for one in events[2:5]:
        store.write(lambda c, e=one: failed(c, e, "answered 503", now(), dead=True))
    store.write(lambda c: retry_dead(c, events[2].event, actor="ada"))
    store.write(lambda c: failed(c, events[6], "answered 503", now(), dead=False))


def table_change(path: Path, table: str, chance: random.Random) -> Change:
    """Change one thing in a table; returns what."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute(f"SELECT rowid AS place, * FROM {table}").fetchall()
        columns = [row["name"] for row in connection.execute(f"PRAGMA table_info({table})")]
        kind, column = chance.choice(["value"] * 3 + ["remove", "add", "exchange"]), chance.choice(columns)
        before = _content(connection, table)
        one, other = chance.choice(rows), chance.choice(rows)
        if kind == "exchange" and one[column] == other[column]:
            kind = "value"
        running = (
            table == "jobs" and kind == "value" and one["status"] == "running" and column in ("progress", "message")
        )
        tried = table == "outbox" and kind != "add" and kind != "remove" and column in ("attempts", "due", "error")
        vouched = {"claims": "claims", "job_leases": "leases"}.get(table)
        named = vouched or ("running job" if running else "attempts" if tried else None)
        try:
            if kind == "remove":
                connection.execute(f"DELETE FROM {table} WHERE rowid = ?", [one["place"]])
            elif kind == "add":
                values = [
                    another(one[name], chance) if name in _unique(connection, table) else one[name] for name in columns
                ]
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
            elif kind == "exchange":
                _exchange(connection, table, column, one, other)
            else:
                value = another(one[column], chance)
                change = f'UPDATE {table} SET "{column}" = ? WHERE rowid = ?'
                connection.execute(change, [value, one["place"]])
        except sqlite3.IntegrityError:  # the database itself refuses it
            connection.rollback()
            return table_change(path, table, chance)
        if _content(connection, table) == before:  # rows that are equal but for what was exchanged
            connection.rollback()
            return table_change(path, table, chance)
        connection.commit()
    return Change(place=table, what=f"{kind} {column} of row {one['place']}", named=named)


def _content(connection: sqlite3.Connection, table: str) -> list[str]:
    return sorted(repr(tuple(row)) for row in connection.execute(f"SELECT * FROM {table}"))


def _unique(connection: sqlite3.Connection, table: str) -> set[str]:
    columns = {row["name"] for row in connection.execute(f"PRAGMA table_info({table})") if row["pk"]}
    for index in connection.execute(f"PRAGMA index_list({table})").fetchall():
        if index["unique"]:
            columns |= {row["name"] for row in connection.execute(f"PRAGMA index_info({index['name']})")}
    return columns


def _exchange(connection: sqlite3.Connection, table: str, column: str, one: sqlite3.Row, other: sqlite3.Row) -> None:
    change = f'UPDATE {table} SET "{column}" = ? WHERE rowid = ?'
    places = [one["place"], other["place"]]
    if column in _unique(connection, table):
        connection.execute(change, [another(one[column], random.Random(0)), places[0]])
        if isinstance(one[column], int):  # a number that is the key moves the row itself
            places[0] = connection.execute("SELECT last_insert_rowid()").fetchone()[0] or places[0]
    connection.execute(change, [one[column], places[1]])
    connection.execute(change, [other[column], places[0]])


def another(value: Any, chance: random.Random) -> Any:
    """Some other value of the same kind, seldom of another one."""
    made = value
    while made == value:
        made = _made(value, chance)
    return made


def _made(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.05:
        return chance.choice([None, "", b"\xff", 2**62, -1.5])
    if isinstance(value, int):
        return value + chance.choice([-1, 1, 1000, 10**9])
    if isinstance(value, float):
        return value * 1.0001 + 1e-9
    if isinstance(value, str):
        place = chance.randrange(len(value) + 1)
        return value[:place] + chance.choice("aZ0 {ü") + value[place + chance.randrange(2) :] + chance.choice(["", "x"])
    if isinstance(value, bytes):
        place = chance.randrange(len(value))
        return value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]
    return chance.choice([0, 1, "x"])


def anchor_change(path: Path, chance: random.Random) -> Change:
    """Change, remove or cut off lines of the anchors, or remove the file; returns what."""
    lines = path.read_bytes().splitlines(keepends=True)
    number, kind = (
        chance.randrange(len(lines)),
        chance.choice(["byte", "line removed", "cut off", "file removed", "exchanged"]),
    )
    last = number == len(lines) - 1
    if kind == "file removed":
        path.unlink()
        return Change(place="anchors", what=kind)
    content = b"".join(lines)
    if kind == "byte":
        place = chance.randrange(len(content))
        content = content[:place] + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :]
        last = place >= len(content) - len(lines[-1])
    elif kind == "line removed":
        content = b"".join(lines[:number] + lines[number + 1 :])
    elif kind == "exchanged" and number:
        lines[0], lines[number], last = lines[number], lines[0], False
        content = b"".join(lines)
    else:
        kind, last = "cut off", True
        content = content[: chance.randrange(len(content))]
    path.write_bytes(content)
    return Change(place="anchors", what=f"{kind}, line {number + 1}", named="end of anchors" if last else None)


def version_change(folder: Path, chance: random.Random) -> Change:
    """Change a byte of a version's files, cut one short or remove it; returns what."""
    path = chance.choice(sorted(one for one in folder.rglob("*") if one.is_file() and one.name != "README.md"))
    content, kind = path.read_bytes(), chance.choice(["byte", "cut off", "removed"])
    place = chance.randrange(len(content))
    if kind == "removed":
        path.unlink()
    else:
        rest = bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :]
        path.write_bytes(content[:place] + (rest if kind == "byte" else b""))
    return Change(place="folder of a version", what=f"{kind}, {path.name}")


def outcome(change: Change, state: Path) -> str:
    """Run the command; "found", "not proven", "named" or "MISSED"."""
    from typer.testing import CliRunner

    from indubio.cli.app import app

    done = CliRunner().invoke(app, ["audit", "verify", "--json", "--state", str(state)])
    if done.exit_code == 4 and json.loads(done.stdout)["findings"]:
        return "found"
    if done.exit_code == 5:
        return "not proven"
    return "named" if change.named is not None and done.exit_code == 0 else f"MISSED ({done.exit_code})"


def tried(tries: int, seed: int, tell: Callable[[str], None] = print) -> dict[tuple[str, str], int]:
    """Make the store, change it so many times, and count: place, outcome -> how often."""
    import numpy as np
    import pandas as pd

    from indubio import Detector, save
    from indubio_server.service import ANCHOR
    from indubio_server.store.tables import metadata

    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="tampering-") as folder:
        whole, state, model = Path(folder) / "whole", Path(folder) / "state", Path(folder) / "model"
        good = np.random.default_rng(0).normal(size=(80, 3))
        save(Detector().fit(pd.DataFrame(good, columns=["pressure", "flow", "heat"])), model)
        fill(state, model)
        assert outcome(Change(place="", what="nothing", named="nothing"), state) == "named", "the store is not whole"
        shutil.copytree(state, whole)
        places = [*sorted(metadata.tables), "alembic_version", *PLACES]
        for number in range(tries):
            chance = random.Random(f"{seed} {number}")
            shutil.rmtree(state)
            shutil.copytree(whole, state)
            place = places[number % len(places)]
            if place == "anchors":
                change = anchor_change(state / ANCHOR, chance)
            elif place == "folder of a version":
                change = version_change(state / "models", chance)
            else:
                change = table_change(state / "indubio.sqlite", place, chance)
            found = outcome(change, state)
            counts[place, found.partition(" (")[0]] += 1
            if found.startswith("MISSED"):
                tell(f"{number}: {change}: {found}")
    return dict(counts)


def table_of(counts: dict[tuple[str, str], int]) -> str:
    """The counts as a table of the page."""
    outcomes = ("found", "not proven", "named", "MISSED")
    places = sorted({place for place, _ in counts})
    rows = [[place, *(str(counts.get((place, one), 0)) for one in outcomes)] for place in places]
    total = ["all", *(str(sum(counts.get((place, one), 0) for place in places)) for one in outcomes)]
    headers = ["changed", "found", "end not proven", "named as not covered", "neither"]
    return markdown(headers, [*rows, total])


def main() -> None:
    """Try, and write the table; exit code 1 where a change is neither found nor named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=TRIES)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    os.nice(10)
    counts = tried(asked.tries, asked.seed)
    table = table_of(counts)
    print(table)
    if asked.tries >= TRIES:
        put_into("tampering.md", table)
    sys.exit(any(outcome == "MISSED" for _, outcome in counts))


if __name__ == "__main__":
    main()
