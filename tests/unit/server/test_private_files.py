"""What the server keeps is its owner's alone, whatever the umask; what is open to others is told."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from indubio_server.service import Service
from indubio_server.store import Database, Role, ServerStore, add_key, all_keys
from tests.served import table_model

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_with_no_umask_everything_is_the_owners_alone(tmp_path: Path) -> None:
    table_model(tmp_path / "press")
    state = tmp_path / "deep" / "state"
    with ServerStore(f"sqlite:///{state / 'indubio.sqlite'}") as store:
        service = Service(store, {"press": tmp_path / "press"}, state)
        service.registry.folder_of(service.registry.known("press")[0])  # as a rollback needs it
        service.anchor()
        there = {path: path.stat().st_mode & 0o777 for path in (state, *state.rglob("*"))}
        service.close()
    names = {path.name for path in there}
    assert {"state", "indubio.sqlite", "indubio.sqlite-wal", "indubio.sqlite-shm", "audit.anchor", "models"} <= names
    assert {path: oct(mode) for path, mode in there.items()} == {
        path: "0o700" if path.is_dir() else "0o600" for path in there
    }


@pytest.mark.usefixtures("no_umask")
def test_what_is_open_to_others_is_told_and_left_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table_model(tmp_path / "press")
    state = tmp_path / "state"
    state.mkdir()
    with (
        ServerStore(f"sqlite:///{state / 'indubio.sqlite'}") as store,
        caplog.at_level(logging.WARNING, "indubio_server"),
    ):
        Service(store, {"press": tmp_path / "press"}, state).close()
    assert f"chmod -R go= {state}" in caplog.text
    assert state.stat().st_mode & 0o777 == 0o777


LOOKS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM jobs").fetchall()
connection.close()
"""


def test_a_database_that_a_process_opens_twice_is_not_taken_for_closed_by_others(tmp_path: Path) -> None:
    """Who closes a database as the last one removes the log beside it, which a server still writes to."""
    path = tmp_path / "indubio.sqlite"
    with ServerStore(f"sqlite:///{path}") as store:
        store.write(lambda c: add_key(c, "ada", Role.REVIEWER, actor="test"))
        Database(f"sqlite:///{path}")
        subprocess.run([sys.executable, "-c", LOOKS, path], check=True)
        assert path.with_name(f"{path.name}-wal").exists()
        store.write(lambda c: add_key(c, "bob", Role.REVIEWER, actor="test"))
    with ServerStore(f"sqlite:///{path}") as again:
        assert [key.name for key in again.read(all_keys)] == ["ada", "bob"]
