"""Machines that were recorded at the same time: each of them is trained on, whichever windows are held out."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.neighbors import LocalOutlierFactor

from indubio import CrossFit, Detector, HoldOut
from indubio.data import Reading, Wide, Windowing, Windows
from indubio.detector import EnsembleDetector
from indubio.errors import DataWarning
from indubio.posteriors import Prototypes
from tests.machine_recordings import DAY, recorded


def test_groups_that_were_recorded_at_the_same_time_are_machines():
    windows = recorded({"press": 0.0, "drill": 5.0}, apart=300)
    assert windows.machines is not None
    assert windows.machines.tolist() == windows.origin.column("group").to_pylist()


def test_groups_that_follow_each_other_are_runs():
    assert recorded({"first": 0.0, "second": 5.0}, apart=900).machines is None  # a tenth of the time they overlap
    assert recorded({"only": 0.0}).machines is None


def test_files_without_groups_are_machines_too(tmp_path):
    for name in ("press", "drill"):
        time = DAY + pd.to_timedelta(np.arange(400), unit="s")
        pd.DataFrame({"time": time, "a": np.arange(400.0)}).to_csv(tmp_path / f"{name}.csv", index=False)
    layout = Wide(time="time", sensors=("a",))
    windows = Reading(layout=layout, windowing=Windowing(length=20)).read(str(tmp_path))
    assert windows.machines is not None
    assert len(np.unique(windows.machines)) == 2


def test_without_a_time_of_day_nobody_can_tell():
    rows = pd.DataFrame({"machine": np.repeat(["press", "drill"], 400), "a": np.arange(800.0)})
    windows = Reading(layout=Wide(sensors=("a",), group="machine"), windowing=Windowing(length=20)).read(rows)
    assert windows.machines is None


def test_machines_with_hardly_any_windows_are_taken_together():
    windows = Windows.joined(
        [recorded({"press": 0.0, "drill": 5.0}), recorded({"new": 1.0, "newer": 1.0}, samples=100)]
    )
    assert windows.machines is not None
    assert sorted(set(windows.machines)) == ["", "drill", "press"]


@pytest.mark.parametrize("calibration", [None, CrossFit(folds=2, rows="in order"), HoldOut(share=0.5, rows="last")])
@pytest.mark.parametrize(
    "detector",
    [
        Detector(posterior=Prototypes(draws=2), spectra=False),
        EnsembleDetector(LocalOutlierFactor(novelty=True), members=2, calibration=CrossFit(rows="in order")),
    ],
    ids=["ours", "another"],
)
@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")  # of the levels, see below
def test_a_fault_of_one_machine_among_others_is_found(detector, calibration):
    """Were one of two machines held out whole, its windows would score so high that nothing else looks strange."""
    levels = {"press": 0.0, "drill": 20.0}
    settings = {} if calibration is None else {"calibration": calibration}
    found = clone(detector).set_params(**settings).fit(recorded(levels)).assess(recorded(levels, fault=8.0, seed=1))
    faulty = np.tile(np.arange(50) >= 25, 2)
    assert np.mean(found.verdict[faulty] == "ANOMALY") > 0.9
    assert np.mean(found.verdict[~faulty] == "ANOMALY") < 0.3


def test_what_is_new_to_one_machine_is_novel():
    levels = {"press": 0.0, "drill": 20.0}
    with pytest.warns(DataWarning, match="levels far from each other"):
        detector = Detector(spectra=False).fit(recorded(levels))
    found = detector.assess(recorded(levels, fault=8.0, seed=1))
    assert np.mean(found.novelty[np.tile(np.arange(50) >= 25, 2)] > 1) > 0.9


def test_levels_far_from_each_other_are_told():
    with pytest.warns(DataWarning, match="levels far from each other") as told:
        Detector(spectra=False).fit(recorded({"press": 0.0, "drill": 20.0}))
    assert 'the 2 machines run at levels far from each other ("a" ' in str(told[0].message)


def test_levels_near_each_other_are_nothing_to_speak_of():
    Detector(spectra=False).fit(recorded({"press": 0.0, "drill": 0.5}))  # a warning would be an error
