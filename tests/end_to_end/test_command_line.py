"""The command line as a user runs it: in a process of its own."""

import subprocess
import sys

import pytest

from indubio.numerics.compiled_core import NO_CORE
from tests.engines import CORE


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from indubio.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def demo() -> subprocess.CompletedProcess[str]:
    return run("demo", "--draws", "3")


def test_the_demo_prints_metrics_and_verdicts(demo):
    assert demo.returncode == 0, demo.stderr
    for word in (
        "AUROC",
        "GSS",
        "W ",
        "Gain",
        "GSS at 10 %",
        "GSS at 20 %",
        "GSS at 40 %",
        "REFER",
        "INLIER",
        "ANOMALY",
    ):
        assert word in demo.stdout


def test_nothing_but_results_is_printed_when_nobody_is_looking(demo):
    assert demo.stderr.strip() in ("", "" if CORE else NO_CORE)


def test_help_lists_the_commands_without_importing_what_they_need():
    shown = run("--help")
    assert "demo" in shown.stdout
    imported = subprocess.run(
        [sys.executable, "-c", "import sys, indubio.cli.app; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "typer" in imported.stdout.split()
    assert not {"torch", "numpy", "sklearn", "pyarrow", "sqlalchemy"} & set(imported.stdout.split())


def test_the_version_is_the_package_s():
    from importlib.metadata import version

    assert run("--version").stdout.strip() == f"indubio {version('indubio')}"


def test_a_usage_error_exits_with_two():
    assert run("demo", "--draws", "0").returncode == 2
    assert run("nonsense").returncode == 2


def test_datasets_lists_every_collection_with_its_source_and_licence():
    shown = run("datasets").stdout
    for word in ("odds", "zema", "strath", "adbench", "cardio", "licence", "source", "files"):
        assert word in shown


def test_fetching_what_is_here_fetches_nothing(data_folder):
    done = run("datasets", "fetch", "odds", "--folder", str(data_folder))
    assert done.returncode == 0
    assert "8 files were here, 0 fetched" in done.stdout


def test_an_unknown_collection_is_a_usage_error_that_lists_the_known_ones():
    done = run("datasets", "fetch", "mnist")
    assert done.returncode == 2
    assert "odds" in done.stderr
