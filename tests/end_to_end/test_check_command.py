"""`indubio check` tells all that `fit` would refuse at once, and the command that it gives fits."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

from tests.end_to_end.test_commands import run

ROWS = 300


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    """A table with everything that `fit` stops at, one after the other."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "serial": [f"P{row:04}" for row in range(ROWS)],
            "when": pd.date_range("2024-01-01", periods=ROWS, freq="min").astype(str),
            "colour": random.choice(["red", "green"], ROWS),
            "note": [f"remark {row % 60}" for row in range(ROWS)],
            "pressure": random.normal(5, 0.1, ROWS),
            "flow": random.normal(3, 1, ROWS),
            "temp": random.normal(20, 2, ROWS).round(2).astype(str),
            "level": random.normal(20, 2, ROWS).round(2).astype(str),
            "mode": 7,
            "count": np.arange(ROWS),
            "result": random.choice(["ok", "nok"], ROWS, p=[0.97, 0.03]),
            "gap": random.normal(size=ROWS),
            "empty": np.nan,
        }
    )
    frame.loc[17, "temp"], frame.loc[30, "level"] = "Broken", "Off"
    frame.loc[5:30, "gap"] = np.nan
    path = tmp_path_factory.mktemp("check") / "nasty.csv"
    frame.assign(flow2=frame["flow"] * 2.54 + 1).to_csv(path, index=False)
    return path


def test_all_refusals_and_findings_are_told_at_once_with_the_command_that_fits(nasty, tmp_path):
    assert run("fit", nasty, "--out", tmp_path / "refused", code=1)
    told = json.loads(run("check", nasty, "--json").stdout)
    refused, odd = "\n".join(told["refused"]), "\n".join(told["findings"])
    for name in ("serial", "when", "colour", "note", "temp", "level", "gap", "empty"):
        assert f'"{name}"' in refused
    for name in ("mode", "count", "flow2", "result"):
        assert f'"{name}"' in odd
    assert told["not_mended"] is None
    words = shlex.split(told["command"])
    assert words[:2] == ["indubio", "fit"]
    done = run(*words[1:-1], tmp_path / "model")
    assert "Before you rely on it" not in done.stdout
    assert "rows labelled as anomalies" in done.stderr


def test_what_is_known_is_given_as_for_fit_and_kept(nasty):
    command = json.loads(run("check", nasty, "--id", "colour", "--missing", "refer", "--json").stdout)["command"]
    assert "--id colour" in command
    assert "--categorical colour" not in command
    assert "--missing refer" in command


def test_a_plain_file_needs_nothing(tmp_path):
    pd.DataFrame(np.random.default_rng(0).normal(size=(100, 3)), columns=list("abc")).to_csv(
        tmp_path / "plain.csv", index=False
    )
    told = run("check", tmp_path / "plain.csv").stdout
    assert told.startswith("Nothing is refused.")
    assert "Odd" not in told


def test_what_no_flag_mends_is_told_and_fails(tmp_path):
    (tmp_path / "empty.csv").write_text("a,b\n")
    assert "no flag mends it" in run("check", tmp_path / "empty.csv", code=1).stdout


def test_doubled_names_are_told_with_a_way_out(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    text = "a,b,b\n" + "\n".join(",".join(f"{value:.4f}" for value in row) for row in rows)
    (tmp_path / "double.csv").write_text(text)
    told = json.loads(run("check", tmp_path / "double.csv", "--json").stdout)
    assert "--exclude b" in told["command"]
    run(*shlex.split(told["command"])[1:-1], tmp_path / "model")


def test_excluded_columns_are_neither_learned_nor_passed_on_nor_needed_later(nasty, tmp_path):
    frame = pd.read_csv(nasty)[["pressure", "flow", "mode", "serial"]]
    frame.to_csv(tmp_path / "good.csv", index=False)
    frame.drop(columns="mode").to_csv(tmp_path / "new.csv", index=False)
    run("fit", tmp_path / "good.csv", "--exclude", "mode", "--id", "serial", "--out", tmp_path / "model")
    run("assess", tmp_path / "new.csv", "-m", tmp_path / "model", "-o", tmp_path / "found.csv")
    assert "mode" not in pd.read_csv(tmp_path / "found.csv")
    refused = run("fit", tmp_path / "good.csv", "--exclude", "mood", "--out", tmp_path / "other", code=1).stderr
    assert '"mood"' in refused
    assert '"mode"' in refused  # what there is


def test_a_sensor_of_a_recording_can_be_excluded(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"time": np.arange(640) / 10, "force": random.normal(size=640), "still": 1.0})
    frame.to_csv(tmp_path / "run.csv", index=False)
    run("fit", tmp_path / "run.csv", "--time", "time", "--window", "32", "--exclude", "still", "--out", tmp_path / "m")
    assert json.loads(run("inspect", tmp_path / "m", "--json").stdout)["fitted"]["preparation_"]["input_shape"] == [
        32,
        1,
    ]
