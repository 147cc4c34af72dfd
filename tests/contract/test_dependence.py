"""What was asked for holds on later rows, where rows depend on each other; and nothing is lost where they do not."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import LocalOutlierFactor

from indubio import Detector, ExampleStream, load, save
from indubio.calibration import CrossFit, Dependence, HoldOut, TrainScores
from indubio.data import read_table
from indubio.detector import EnsembleDetector
from indubio.errors import DataWarning
from indubio.fitting.streams import Split, noticed

RATE = 0.1
RNG = np.random.default_rng(3)
MIXED = RNG.normal(size=(5, 5))


def following(count: int, memory: float, seed: int = 0) -> np.ndarray:
    """Rows each of which remembers the one before it, with variance 1."""
    random = np.random.default_rng(seed)
    rows = [random.normal(size=5)]
    for _ in range(count - 1):
        rows.append(memory * rows[-1] + np.sqrt(1 - memory**2) * random.normal(size=5))
    return np.array(rows) @ MIXED


def independent(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 5)) @ MIXED


TRAINING = {
    "in time": lambda: following(1000, 0.9),
    "in batches of 20": lambda: np.repeat(independent(50), 20, axis=0) + 0.01 * independent(1000, 1),
    "twice": lambda: np.repeat(independent(500), 2, axis=0),
    "twice, shuffled": lambda: np.random.default_rng(1).permutation(np.repeat(independent(500), 2, axis=0)),
    "ten times": lambda: np.repeat(independent(100), 10, axis=0),
}
LEVELS = np.repeat([0.0, 0.0, 0.0, 0.0, 4.0], 200)[:, None]
LATER = {"in time": lambda: following(4000, 0.9, seed=9)}


@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")
@pytest.mark.parametrize("how", TRAINING)
def test_good_rows_that_come_later_are_called_anomalies_hardly_more_often_than_asked(how):
    detector = Detector().fit(TRAINING[how]())
    later = LATER.get(how, lambda: independent(4000, 9))()
    assert detector.assess(later).prediction.mean() <= 1.8 * RATE  # of one draw of the training rows


@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")
def test_somebody_elses_detector_is_calibrated_by_stretches_too():
    detector = EnsembleDetector(LocalOutlierFactor(novelty=True), members=5).fit(following(1000, 0.9))
    found = detector.assess(following(4000, 0.9, seed=9))
    assert found.prediction.mean() <= 1.8 * RATE
    assert not np.isnan(found.p_value).any()


@pytest.mark.parametrize("calibration", [CrossFit(), CrossFit(rows="in order"), HoldOut(), HoldOut(rows="stretches")])
@pytest.mark.parametrize("shuffled", [False, True])
def test_copies_never_stand_on_both_sides(calibration, shuffled):
    rows = np.repeat(independent(60), np.resize([1, 2, 5], 60), axis=0)
    rows = np.random.default_rng(0).permutation(rows) if shuffled else rows
    dependence = Dependence.of(rows + 1e-12 * independent(len(rows), 1))
    plan = calibration.plan(len(rows), 5, 0, None, dependence)
    name = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    for fold in plan.folds:
        assert len(fold.trained) >= 1
        assert not np.isin(name[fold.calibrated], name[fold.trained]).any()


def test_between_a_stretch_and_what_trains_there_is_a_gap():
    rows = following(1000, 0.95)
    dependence = Dependence.of(rows)
    assert 10 < dependence.gap <= 50
    plan = CrossFit(rows="in order").plan(1000, 5, 0, None, dependence)
    assert len(plan.folds) == 5
    for fold in plan.folds:
        assert (np.diff(fold.calibrated) == 1).all()
        assert np.abs(fold.trained[:, None] - fold.calibrated).min() > dependence.gap


def test_whole_runs_are_held_out_where_there_are_several():
    runs = np.repeat(list("abcdefgh"), [120, 130, 110, 140, 120, 125, 135, 120])
    rows = following(1000, 0.9)
    dependence = Dependence.of(rows, runs)
    plan = CrossFit(rows="in order").plan(1000, 5, 0, None, dependence)
    for fold in plan.folds:
        assert not np.isin(runs[fold.calibrated], runs[fold.trained]).any()
    assert len({len(fold.calibrated) for fold in plan.folds}) == 1
    three = CrossFit(rows="in order").plan(1000, 5, 0, None, Dependence.of(rows, np.repeat([1, 2, 3], [350, 320, 330])))
    assert [fold.draws for fold in three.folds] == [2, 2, 1]


def test_machines_at_levels_of_their_own_are_no_likeness():
    groups = np.repeat(["press", "drill"], 250)
    rows = independent(500) + np.where(groups == "press", 0.0, 9.0)[:, None]
    assert Dependence.of(rows).in_stretches
    assert not Dependence.of(rows, None, groups).in_stretches
    rows[::7, 2] = np.nan
    assert not Dependence.of(rows, None, groups).in_stretches


def test_files_are_runs(tmp_path):
    for place in range(3):
        frame = pd.DataFrame(following(300, 0.9, seed=place) + 5 * place, columns=list("abcde"))
        frame.to_csv(tmp_path / f"{place}.csv", index=False)
    table = read_table([tmp_path / f"{place}.csv" for place in range(3)])
    assert Dependence.of(table.rows(table.training_schema()).values, table.runs).runs == 3


def test_independent_rows_have_the_folds_they_always_had():
    rows = independent(500)
    dependence = Dependence.of(rows)
    assert not dependence.in_stretches
    assert dependence.copy is None
    for calibration in (CrossFit(), HoldOut(), TrainScores()):
        plain, new = calibration.plan(500, 5, 0), calibration.plan(500, 5, 0, None, dependence)
        for one, other in zip(plain.folds, new.folds, strict=True):
            np.testing.assert_array_equal(one.trained, other.trained)
            np.testing.assert_array_equal(one.calibrated, other.calibrated)
    detector = Detector().fit(rows)
    assert detector.calibration_ == CrossFit()
    assert detector.findings_ == ()
    assert detector.unseen_alarms_ is None


def test_nothing_is_found_in_independent_rows_of_any_shape():
    for seed in range(60):
        random = np.random.default_rng(seed)
        rows = random.normal(size=(random.integers(50, 600), random.integers(1, 8)))
        rows = np.exp(rows @ random.normal(size=(rows.shape[1], 6))) if seed % 2 else rows.round(1)
        found = Dependence.of(rows)
        assert not found.in_stretches
        assert found.copy is None


def test_a_column_that_the_rows_were_sorted_by_is_no_dependence():
    rows = independent(500)
    assert not Dependence.of(rows[np.argsort(rows[:, 0])]).in_stretches
    assert not Dependence.of(np.column_stack([np.arange(500), rows])).in_stretches


def test_a_process_that_repeats_itself_was_not_copied():
    rows = np.random.default_rng(0).integers(0, 4, size=(400, 3)).astype(float)
    assert Dependence.of(rows).copy is None
    resting = np.random.default_rng(0).permutation(np.concatenate([np.zeros((120, 5)), independent(280)]))
    assert Dependence.of(resting).copy is None


def test_what_was_found_is_said_and_kept(tmp_path):
    with pytest.warns(DataWarning) as told:
        detector = Detector().fit(following(1000, 0.9) + LEVELS)
    shares = detector.unseen_alarms_
    assert len(shares) == 5
    (finding,) = detector.findings_
    assert finding.kind == "unlike stretches"
    said = (
        f"would call {100 * shares.mean():.0f} % anomalies "
        f"(best {100 * shares.min():.0f}, worst {100 * shares.max():.0f})"
    )
    assert said in str(told[0].message)
    assert "a later hour may differ" in str(finding)
    assert detector.calibration_ == CrossFit(rows="in order")
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.calibration == CrossFit(rows="in order")
    np.testing.assert_allclose(loaded.unseen_alarms_, shares)
    assert said in (tmp_path / "model" / "README.md").read_text().replace("\\", "")


def test_shares_on_stretches_that_differ_say_so():
    with pytest.warns(DataWarning, match="stretches"):
        detector = Detector().fit(following(1000, 0.9) + LEVELS)
    shares = detector.unseen_alarms_
    assert shares[-1] > 0.6
    assert max(shares[:-1]) < 0.4


def test_rows_asked_for_at_random_are_warned_of():
    with pytest.warns(DataWarning, match="in order"):
        detector = Detector(calibration=CrossFit()).fit(following(1000, 0.95))
    assert detector.unseen_alarms_ is not None


@pytest.mark.parametrize(("share", "count"), [(0.25, 1000), (0.1, 503)])
def test_held_out_stretches_are_spread_over_all_rows(share, count):
    (fold,) = HoldOut(share=share, rows="stretches").plan(count, 3, 0).folds
    starts = [
        int(fold.calibrated[0]),
        *(int(after) for before, after in pairwise(fold.calibrated) if after > before + 1),
    ]
    assert len(starts) == 5
    assert abs(len(fold.calibrated) - share * count) < 5
    assert len(fold.trained) + len(fold.calibrated) == count


@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")
def test_a_stream_holds_out_stretches_with_a_gap_around_them(tmp_path):
    frame = pd.DataFrame(following(4000, 0.9), columns=list("abcde"))
    for place, part in enumerate((frame[:1500], frame[1500:])):
        part.to_parquet(tmp_path / f"{place}.parquet", row_group_size=400)
    stream = ExampleStream(tmp_path, buffer=500)
    dependence = noticed(stream)
    assert dependence.in_stretches
    split = Split.of(HoldOut(rows="stretches"), stream, 4000, 0, dependence)
    places = np.concatenate([block.places for block in stream.blocks()])
    held, trained = (np.flatnonzero(of(places)) for of in (split.is_reference, split.is_trained))
    assert len(held) == 1000
    assert np.count_nonzero(np.diff(held) > 1) == 4
    assert np.abs(trained[:, None] - held).min() == dependence.gap + 1
    detector = Detector().fit(stream)
    assert detector.calibration_ == HoldOut(rows="stretches")
    later = pd.DataFrame(following(4000, 0.9, seed=9), columns=list("abcde"))
    assert detector.assess(later).prediction.mean() <= 1.8 * RATE
