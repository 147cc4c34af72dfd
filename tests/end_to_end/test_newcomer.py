"""A stranger's first hour: the install of README and tutorials in fresh environments, then all that these pages run."""

import os
import re
import shlex
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests.live_broker import MOSQUITTO

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "start.md"]
TUTORIALS = defaultdict(list)  # by the install that they name
for tutorial in sorted((ROOT / "docs" / "tutorials").glob("*.py")):
    TUTORIALS[re.search(r"`(pip install .*)`", tutorial.read_text())[1]].append(tutorial)
ENVIRONMENT = os.environ | {"MPLBACKEND": "agg"}  # nobody is there to look at a window
DATA = """
import csv
from sklearn.datasets import load_breast_cancer

data = load_breast_cancer()
both = enumerate(zip(data.data.tolist(), data.target.tolist()))
rows = [[f"P{n:03}", *values, 1 - target] for n, (values, target) in both]
good = [row for row in rows if not row[-1]][:250]
for name, some in (("good.csv", good), ("new.csv", [row for row in rows if row not in good])):
    with open(name, "w", newline="") as file:
        csv.writer(file).writerows([["part", *data.feature_names, "defect"], *some])
"""

# Runs a command and lists what was imported.
LISTING = """
import sys

sys.argv = sys.argv[1:]
from indubio.cli import main

try:
    main()
except SystemExit as end:
    assert not end.code
print("imported", *sys.modules)
"""


def blocks(page: Path, language: str) -> list[str]:
    """What stands between fences of this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    """The indubio commands of a page, in their order."""
    lines = [line for block in blocks(page, "") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("indubio ")]


def timed(words: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """What a command printed; how long it took is for whoever runs it with -s."""
    began = time.monotonic()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    print(f"{time.monotonic() - began:5.1f} s  {shlex.join(str(word) for word in words[1:])}")  # noqa: T201
    assert done.returncode == 0, done.stderr
    return done


class Newcomer:
    """Somebody with a copy of the project and an environment with nothing in it."""

    def __init__(self, folder: Path) -> None:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
        if listed.returncode:
            pytest.skip("not a checkout: git cannot tell which files a newcomer gets")
        self.project, self.bin = folder / "indubio", folder / "venv" / "bin"
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (self.project / name).parent.mkdir(parents=True, exist_ok=True)
                (self.project / name).write_bytes((ROOT / name).read_bytes())
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)

    def install(self, command: str) -> None:
        """Run `pip install ...` as a page has it."""
        timed([self.bin / "python", "-m", *shlex.split(command)], self.project)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory) -> Path:
    """The Python of an environment with nothing but what the README's install brings."""
    newcomer = Newcomer(tmp_path_factory.mktemp("newcomer"))
    (install,) = [block for block in blocks(ROOT / "README.md", "") if block.startswith("pip install")]
    newcomer.install(install)
    return newcomer.bin / "python"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_snippet_runs_after_the_install_of_the_readme(fresh, page, tmp_path):
    subprocess.run([fresh, "-c", DATA], cwd=tmp_path, check=True)
    called = commands(page)
    assert {"fit", "assess", "report"} <= {words[1] for words in called}
    for words in called:
        timed([fresh.with_name("indubio"), *words[1:]], tmp_path)
    for snippet in blocks(page, "python"):
        timed([fresh, "-W", "error", "-c", snippet], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("install", sorted(TUTORIALS), ids=lambda install: " ".join(install.split()[4:]))
def test_tutorials_run_after_the_install_that_they_name(install, tmp_path):
    newcomer = Newcomer(tmp_path)
    newcomer.install(install)
    for page in TUTORIALS[install]:
        if "Mosquitto" in page.read_text() and MOSQUITTO is None:
            pytest.skip("mosquitto, a real broker, is not installed")
        timed([newcomer.bin / "python", page], tmp_path)


@pytest.mark.slow
def test_the_usual_ways_import_nothing_heavy(fresh, tmp_path):
    subprocess.run([fresh, "-c", DATA], cwd=tmp_path, check=True)
    installed = subprocess.run([fresh, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout.lower()
    assert not re.search(r"^(torch|pandas|numba) ", installed, re.MULTILINE)
    heavy = {"matplotlib", "jinja2", "sqlalchemy", "starlette", "onnxruntime", "dask", "optuna", "pooch"}
    for command in (
        "--help",
        "fit good.csv --id part --label defect --out m",
        "assess new.csv -m m -o o.csv",
        "inspect m",
    ):
        done = timed([fresh, "-c", LISTING, "indubio", *shlex.split(command)], tmp_path)
        imported = set(done.stdout.rpartition("imported")[2].split())
        assert not imported & heavy, command
        assert "sklearn" not in imported or command != "--help"
