"""Real recordings by commands alone: SKAB, a test rig of pumps and valves, in files with semicolons."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.end_to_end.test_commands import run

SENSORS = 8
CUT = ("--window", "60", "--time", "datetime")


@pytest.fixture(scope="module")
def rig(data_folder) -> Path:
    """The folder of the recordings: one without a fault, and some with a valve that was closed."""
    if not (data_folder / "skab").is_dir():
        pytest.skip("the data folder has no skab/")
    return data_folder / "skab"


def samples(files: list[Path]) -> pd.DataFrame:
    """The samples as pandas reads them, with the number of the window each is in."""
    frames = [pd.read_csv(path, sep=";").assign(file=path.name) for path in files]
    for frame in frames:
        frame["window"] = frame.index // 60
    whole = pd.concat(frames)
    return whole[whole.groupby(["file", "window"])["window"].transform("size") == 60]


def test_good_recordings_are_fitted_and_faulty_ones_assessed_with_their_labels(rig, tmp_path):
    told = json.loads(run("fit", rig / "anomaly-free.csv", "-o", tmp_path / "model", *CUT, "--json").stdout)
    good = len(pd.read_csv(rig / "anomaly-free.csv", sep=";"))
    assert (told["examples"], told["shape"]) == (good // 60, [60, SENSORS])
    valves = str(rig / "valve1" / "*.csv")
    beside = ("--label", "anomaly", "--pass", "changepoint")
    said = run("assess", valves, "-m", tmp_path / "model", "-o", tmp_path / "found.csv", *beside).stderr
    assert "read with ';'" in said
    assert "DRIFT" in said, "the rig ran in another state on that day, and that is said"
    found = pd.read_csv(tmp_path / "found.csv")
    by_window = samples(sorted((rig / "valve1").glob("*.csv"))).groupby(["file", "window"])
    assert found["anomaly"].tolist() == by_window["anomaly"].max().astype(int).tolist()
    assert found["changepoint"].tolist() == by_window["changepoint"].first().tolist()
    judged = json.loads(run("evaluate", tmp_path / "found.csv", "--label", "anomaly", "--json").stdout)
    assert judged["total"]["examples"] == len(found)
    assert judged["total"]["anomalies"] == found["anomaly"].sum()


def test_windows_with_a_labelled_sample_are_not_learned_from(rig, tmp_path):
    flags = ("--label", "anomaly", "--id", "changepoint", "--json")
    told = json.loads(run("fit", rig / "valve1" / "0.csv", "-o", tmp_path / "model", *CUT, *flags).stdout)
    bad = samples([rig / "valve1" / "0.csv"]).groupby("window")["anomaly"].max()
    assert told["examples"] == (bad == 0).sum()
    assert f"{(bad == 1).sum()} windows left out" in told["read"]
    run("assess", rig / "valve1" / "1.csv", "-m", tmp_path / "model", "-o", tmp_path / "found.csv")
    assert {"anomaly", "changepoint"} <= set(pd.read_csv(tmp_path / "found.csv").columns)
