"""`indubio benchmark`, as a user runs it: on a folder of one's own tables, and on the real collections."""

import csv
import json
import os
import subprocess
import sys

import pytest

from tests.end_to_end.test_commands import run
from tests.labelled_files import write_folder

SMALL = """
[posterior]
kind = "anchored_ensemble"
members = 2
[training]
epochs = 2
"""


def benchmark(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", "from indubio.cli import main; main()", "benchmark", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"},
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three tables of parts, and settings of ours."""
    made = tmp_path_factory.mktemp("user")
    write_folder(made / "parts")
    (made / "small.toml").write_text(SMALL)
    return made


@pytest.fixture(scope="module")
def first(folder):
    return benchmark(*asked(folder), "--write", folder / "docs" / "page.md")


def asked(folder) -> list[object]:
    who = ["--detectors", "knn,lof", "--config", folder / "small.toml"]
    how = ["--label", "defect", "--ignore", "serial", "--seeds", 2, "--workers", 2, "--out", folder / "out"]
    return [folder / "parts", *who, *how]


def test_a_folder_of_tables_gives_tables_pages_and_a_row_for_every_cell(folder, first):
    assert "Detection" in first.stdout
    assert "kNN, k = 5" in first.stdout
    assert "30/30" in first.stderr  # 3 sets, 1 + 2 + 2 detectors, 2 seeds
    with (folder / "out" / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    assert {row["set"] for row in rows} == {"drill", "lathe", "press"}
    far_away = [float(row["auroc"]) for row in rows if row["detector"] == "knn"]
    assert min(far_away) > 0.99  # the bad rows lie six standard deviations away
    assert "<svg" in (folder / "out" / "benchmark.html").read_text()
    page = (folder / "docs" / "page.md").read_text()
    assert "## small against the others: AUROC" in page
    assert (folder / "docs" / "images" / "ranks-auroc.svg").exists()


def test_a_second_run_computes_nothing_and_says_the_same(folder, first):
    again = benchmark(*asked(folder), "--write", folder / "docs" / "page.md")
    assert again.stdout == first.stdout
    assert "/30" not in again.stderr


def test_json_is_all_there_is_on_stdout(folder, first):
    told = json.loads(benchmark(*asked(folder), "--remake", "--json").stdout)
    assert told["against"] == "small"
    assert told["ranks"]["auroc"].keys() == {"small", "knn", "lof"}
    assert told["tests"]["gss_w"].keys() == {"knn-refits", "lof-refits"}
    assert told["detectors"]["knn"]["gss_w"] is None
    assert told["detectors"]["small"]["model_bytes"] > 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--detectors", "knnn"], "no detector 'knnn'; there are"),
        (["--label", "broken"], 'has no "broken"; it has'),
        (["--against", "ocsvm"], "no detector 'ocsvm'; there are"),
        (["--sets", "mill"], "no set 'mill'; there are"),
        (["--seeds", "3", "--remake", "--out", "empty"], "none of the 45 cells is done"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder, changed, message):
    done = run("benchmark", *asked(folder), *changed, code=1)
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_real_sets_of_both_collections(data_folder, tmp_path):
    who, sets = "nn,knn,iforest", "lympho,29_Pima,45_wine"
    benchmark(
        *("odds", "adbench", "--sets", sets, "--detectors", who, "--no-refits", "--seeds", 2, "--workers", 1),
        *("--data", data_folder, "--out", tmp_path),
    )
    with (tmp_path / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 3 * 2
    # Lympho is easy: every detector ranks nearly all anomalies above the inliers in the literature.
    assert all(float(row["auroc"]) > 0.9 for row in rows if row["set"] == "lympho")
    pima = [row for row in rows if row["set"] == "29_Pima"]
    assert {(row["train"], row["inliers"], row["anomalies"]) for row in pima} == {("250", "250", "268")}
