"""The first run on a machine: nothing is compiled, cached or kept outside the folders that were given."""

import compileall
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import indubio
import indubio_lab
import indubio_server
from tests.engines import CORE

# Runs a command and prints every path that Python opens for writing, makes, moves or takes away.
PROGRAM = """
import os
import sys

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
touched = set()


def heard(event, arguments):
    if event == "open" and not isinstance(arguments[0], int) and arguments[2] & WRITING:
        touched.add(os.path.abspath(os.fsdecode(arguments[0])))
    elif event in CHANGES:
        touched.update(os.path.abspath(os.fsdecode(a)) for a in arguments if isinstance(a, (str, bytes, os.PathLike)))


sys.addaudithook(heard)
from indubio.cli import main

try:
    main()
finally:
    import indubio

    assert indubio.__file__.startswith(os.environ["PACKAGE"])
    print("touched", *sorted(touched), sep="\\n", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """The folder of a read-only copy of the package, its bytecode made as an installer makes it."""
    folder = tmp_path_factory.mktemp("site")
    for one in (indubio, indubio_server, indubio_lab):  # the command asks the other two what they bring
        source = Path(one.__file__).parent
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(folder, quiet=1)
    paths = [folder, *folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in paths:  # as it must be to be taken away
        path.chmod(0o755 if path.is_dir() else 0o644)


@dataclass(frozen=True)
class Run:
    """A command that ran in a folder, and the paths that it touched elsewhere than where it was told to write."""

    status: int
    printed: str
    touched: list[Path]
    astray: list[Path]


@pytest.fixture(scope="module")
def runs(package, tmp_path_factory) -> dict[str, Run]:
    """A fit and an assessment into the folder `out`; the home does not exist and cannot be made."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "file").touch()
    for name in ("temporary", "out"):
        (folder / name).mkdir()
    given = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "MPL", "PYTHON"))}
    environment = given | {
        "HOME": str(folder / "file" / "home"),
        "TMPDIR": str(folder / "temporary"),
        "PYTHONPATH": str(package),
        "PACKAGE": str(package),
    }
    rows = np.random.default_rng(0).normal(size=(80, 3))
    np.savetxt(folder / "rows.csv", rows, delimiter=",", header="a,b,c", comments="")

    def run(*arguments: str) -> Run:
        command = [sys.executable, "-c", PROGRAM, *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        touched = [Path(line) for line in done.stderr.rpartition("touched\n")[2].splitlines()]
        astray = [path for path in touched if folder / "out" not in path.parents and path != Path(os.devnull)]
        return Run(done.returncode, done.stdout + done.stderr, touched, astray)

    before = listing(package)
    found = {
        "fit": run("fit", "rows.csv", "--out", "out/model", "--set", "posterior.draws=2"),
        "assess": run("assess", "rows.csv", "--model", "out/model", "--out", "out/found.csv"),
    }
    # What compiled code writes, Python does not hear of.
    assert listing(package) == before
    assert CORE is None or not list((folder / "temporary").iterdir())  # torch makes a folder of its own there
    assert {path.name for path in folder.iterdir()} == {"file", "temporary", "rows.csv", "out"}
    assert {path.name for path in (folder / "out").iterdir()} == {"model", "found.csv"}
    return found


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.mark.parametrize("command", ["fit", "assess"])
def test_a_command_works_without_a_home_and_with_the_package_read_only(runs, command):
    assert runs[command].status == 0, runs[command].printed


@pytest.mark.skipif(CORE is None, reason="the core was not built, and torch makes a folder of its own")
@pytest.mark.parametrize("command", ["fit", "assess"])
def test_a_command_writes_nowhere_but_where_it_was_told(runs, command):
    assert runs[command].touched
    assert runs[command].astray == []
