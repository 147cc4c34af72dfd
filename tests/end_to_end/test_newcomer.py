"""A stranger's first hour: the README's install in a fresh environment, then all commands and snippets of two pages."""

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "start.md"]
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


@pytest.fixture(scope="module")
def fresh(tmp_path_factory) -> Path:
    """The Python of an environment with nothing but what the README's install brings."""
    folder = tmp_path_factory.mktemp("newcomer")
    copy = folder / "indubio"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout: git cannot tell which files a newcomer gets")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    (install,) = [block for block in blocks(ROOT / "README.md", "") if block.startswith("pip install")]
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    began = time.monotonic()
    subprocess.run([python, "-m", *shlex.split(install)], cwd=copy, check=True, capture_output=True)
    print(f"install: {time.monotonic() - began:.0f} s")  # noqa: T201 - for whoever runs it with -s
    return python


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_snippet_runs_after_the_install_of_the_readme(fresh, page, tmp_path):
    subprocess.run([fresh, "-c", DATA], cwd=tmp_path, check=True)
    called = commands(page)
    assert {"fit", "assess", "report"} <= {words[1] for words in called}
    for words in called:
        began = time.monotonic()
        done = subprocess.run(
            [fresh.with_name("indubio"), *words[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        print(f"{time.monotonic() - began:5.1f} s  {shlex.join(words)}")  # noqa: T201 - for whoever runs it with -s
        assert done.returncode == 0, done.stderr
    for snippet in blocks(page, "python"):
        done = subprocess.run(
            [fresh, "-W", "error", "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


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
        done = subprocess.run(
            [fresh, "-c", LISTING, "indubio", *shlex.split(command)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        imported = set(done.stdout.rpartition("imported")[2].split())
        assert not imported & heavy, command
        assert "sklearn" not in imported or command != "--help"
