"""Databases for tests of the server: a fresh SQLite file, and a real PostgreSQL server where its programs are there."""

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indubio_server.store import ServerStore


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    return None if there is None else Path(there).parent


class PostgresServer:
    """A PostgreSQL server of our own, reached through a socket in its folder only."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        # PostgreSQL refuses to run as root; Debian's package brings a user for it.
        self._user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self._user:
            shutil.chown(folder, "postgres")
        self._run("initdb", "-D", str(folder / "data"), "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8")

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories={self._folder} -c fsync=off -c max_connections=50"
        self._run(
            "pg_ctl", "-D", str(self._folder / "data"), "-o", options, "-l", str(self._folder / "log"), "-w", "start"
        )

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", "immediate", "-w", "stop")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all of its processes as they are: sockets stay open, and nothing answers."""
        postmaster = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(["pgrep", "-P", str(postmaster)], capture_output=True, text=True, check=True).stdout
        processes = [postmaster, *map(int, children.split())]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def new_database(self) -> str:
        """A URL of its own empty schema: a whole database costs a second."""
        name = f"t{uuid.uuid4().hex}"
        self._run("psql", "-q", "-h", str(self._folder), "-U", "tester", "-c", f"CREATE SCHEMA {name}", "postgres")
        return f"postgresql://tester@/postgres?host={self._folder}&options=-csearch_path%3D{name}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._user, str(self._programs / program), *arguments]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/", check=False)
        assert done.returncode == 0, done.stderr.decode()


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed here: apt-get install postgresql")
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="indubio-pg-", dir=memory))  # short: a socket's path has 108 characters
    try:
        server = PostgresServer(programs, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with all tables: copying it is faster than making them for every test."""
    path = tmp_path_factory.mktemp("migrated") / "store.sqlite"
    with ServerStore(f"sqlite:///{path}"):
        pass
    return path


@pytest.fixture
def sqlite_url(migrated_file: Path, tmp_path: Path) -> str:
    shutil.copy(migrated_file, tmp_path / "store.sqlite")
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return request.getfixturevalue("sqlite_url")
    return request.getfixturevalue("postgres_server").new_database()


@pytest.fixture
def store(database_url: str) -> Iterator[ServerStore]:
    with ServerStore(database_url) as opened:
        yield opened


@pytest.fixture
def sqlite_store(sqlite_url: str) -> Iterator[ServerStore]:
    with ServerStore(sqlite_url) as opened:
        yield opened
