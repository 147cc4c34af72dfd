"""Training rows that look like anomalies are left out: which, how many, and what becomes of the calibration."""

import numpy as np
import pytest
from scipy import stats
from sklearn.neighbors import LocalOutlierFactor

from indubio import (
    AnchoredEnsemble,
    CrossFit,
    Detector,
    Deterministic,
    ExampleStream,
    HoldOut,
    MCDropout,
    Training,
    TrainScores,
    Trimming,
    load,
    save,
)
from indubio.calibration import Plan
from indubio.configuration import detector_from_plain, detector_to_plain
from indubio.ensemble import EnsembleDetector
from indubio.errors import ConfigError, DataError
from indubio.export import OnnxModel, export_onnx
from indubio.fitting.trimming import surplus
from tests.small_examples import SIGNALS, SMALL_NETWORK

PLANS = [CrossFit(), HoldOut(), TrainScores()]
QUICK = {"posterior": AnchoredEnsemble(members=5), "training": Training(epochs=30)}


def good(count: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(count, 1)) + 0.3 * random.normal(size=(count, 4))


def mixed(bad: int = 15, count: int = 300) -> np.ndarray:
    """Good rows, and at the end bad ones that are far off in other ways each."""
    return np.concatenate([good(count), np.random.default_rng(9).normal(scale=8, size=(bad, 4))])


# ----- how many


@pytest.mark.parametrize("features", [1, 5, 40])
@pytest.mark.parametrize("rows", [50, 1000])
def test_none_of_the_scores_of_normal_rows_is_more_than_their_tail_explains(features, rows):
    values = np.random.default_rng(features).normal(size=(rows, features))
    assert surplus((values**2).mean(axis=1)) == 0


def test_what_stands_apart_is_found():
    scores = np.concatenate([np.random.default_rng(0).lognormal(size=500), np.full(40, 1e6)])
    assert 40 <= surplus(scores) <= 45  # a fifth may be good


def test_shifted_scores_are_compared_as_they_are():
    random = np.random.default_rng(0)
    assert surplus(np.concatenate([random.normal(size=500), [50.0, 60.0]])) == 2
    assert surplus(random.normal(size=500)) == 0


@pytest.mark.parametrize("scores", [np.ones(10), np.zeros(10), np.concatenate([np.zeros(30), [1.0]])])
def test_scores_without_a_spread_lose_none(scores):
    assert surplus(scores) == 0


# ----- which


@pytest.mark.parametrize("calibration", PLANS, ids=lambda one: type(one).__name__)
def test_no_row_is_scored_by_a_half_that_it_is_in_and_none_that_calibrates_has_a_say(calibration):
    plan = calibration.plan(41, 5, seed=0).with_added(41, 3)
    halves = Trimming().halves(plan, 41, seed=0)
    for place, fold in enumerate(plan.folds):
        one, other = halves.folds[2 * place : 2 * place + 2]
        assert not np.intersect1d(one.trained, one.calibrated).size
        np.testing.assert_array_equal(np.union1d(one.calibrated, other.calibrated), fold.trained[fold.trained < 41])
        for half in (one, other):
            assert {41, 42, 43} <= set(half.trained)  # confirmed by a person: never dropped
            if plan.unseen:
                assert not np.intersect1d(half.trained, fold.calibrated).size


@pytest.mark.parametrize("calibration", PLANS, ids=lambda one: type(one).__name__)
def test_a_share_is_dropped_as_many_in_every_fold(calibration):
    plan = calibration.plan(100, 5, seed=0)
    halves = Trimming(share=0.1).halves(plan, 100, seed=0)
    nll = np.tile(np.arange(100.0), (sum(fold.draws for fold in halves.folds), 1))
    trimmed = Trimming(share=0.1).trained(plan, halves, nll)
    for before, after in zip(plan.folds, trimmed.folds, strict=True):
        count = round(0.1 * len(before.trained))
        np.testing.assert_array_equal(after.trained, np.sort(before.trained)[:-count])
        np.testing.assert_array_equal(after.calibrated, before.calibrated)
    of_draws = np.tile(np.arange(100.0), (5, 1))
    dropped = Trimming(share=0.1).calibrated(plan, of_draws)
    assert dropped.dropped == sum(len(fold.calibrated) for fold in plan.folds) // 10
    assert isinstance(dropped, Plan)
    for before, after in zip(plan.folds, dropped.folds, strict=True):
        assert set(before.calibrated) - set(after.calibrated) == set(
            np.sort(before.calibrated)[len(after.calibrated) :]
        )
    assert Trimming(share=0.1, reference="keep").calibrated(plan, of_draws) is plan


# ----- detectors


@pytest.mark.parametrize("calibration", PLANS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("posterior", [AnchoredEnsemble(members=5), MCDropout(draws=10)], ids=["ensemble", "dropout"])
def test_bad_rows_in_training_are_called_what_they_are(calibration, posterior):
    settings = {"posterior": posterior, "training": Training(epochs=30), "calibration": calibration}
    rows = mixed()
    trimmed, plain = (Detector(**settings, trimming=how).fit(rows) for how in (Trimming(), None))
    assert trimmed.reference_.dropped > 0
    assert trimmed.n_reference_ + trimmed.reference_.dropped == plain.n_reference_
    bad, usual = trimmed.assess(rows[300:]).prediction, plain.assess(rows[300:]).prediction
    assert bad.mean() > max(0.8, usual.mean() - 0.01)
    assert trimmed.assess(good(500, seed=1)).prediction.mean() < 0.25


def test_the_range_is_that_of_the_rows_that_are_left():
    rows = mixed(bad=3)
    rows[-3:] = [[1000, -1000, 1000, -1000], [-1000, -1000, 1000, 1000], [-1000, 1000, 1000, -1000]]
    trimmed, plain = (Detector(**QUICK, trimming=how).fit(rows).preparation_.scaling for how in (Trimming(), None))
    assert (trimmed.span < 20).all()
    assert (plain.span > 900).all()


@pytest.mark.parametrize("reference", ["drop", "keep"])
def test_false_alarms_on_clean_data_are_what_the_promise_allows(reference):
    alarms, allowed, rows = 0, 0.0, 0
    for seed in range(5):
        how = Trimming(share=0.05, reference=reference)
        detector = Detector(**QUICK, calibration=HoldOut(share=0.5), trimming=how, seed=seed).fit(good(200, seed))
        dropped = detector.reference_.dropped
        assert dropped == (5 if reference == "drop" else 0)
        alarms += int((detector.assess(good(400, 100 + seed)).p_value <= 0.05).sum())
        allowed, rows = 0.05 + dropped / (detector.n_reference_ + dropped + 1), rows + 400
    # The 100 rows that calibrate make the rate of each of five fits vary by sqrt(.1 .9 / 100) at most.
    assert alarms / rows <= allowed + 3 * np.sqrt(0.1 * 0.9 / 500)
    assert stats.binom.sf(alarms, rows, allowed / 3) < 1e-3  # and it does raise alarms


def test_the_promise_says_what_was_left_out():
    detector = Detector(**QUICK, calibration=HoldOut(share=0.5), trimming=Trimming(share=0.1)).fit(good(200))
    assert detector.reference_.dropped == 10
    assert "P(p <= a) <= a + 0.099, over 90 calibration examples" in detector.reference_.promise
    assert "without the 10 highest as likely anomalies" in detector.reference_.promise
    crossed = Detector(**QUICK, calibration=CrossFit(), trimming=Trimming(share=0.1)).fit(good(200))
    known = crossed.reference_
    more = known.dropped / (known.examples + known.dropped + 1)
    assert f"usually near a, or up to a + {more:.2g};" in known.promise
    assert known.bound(0.05) == pytest.approx(0.1 + 1.9 * (4 + known.dropped) / (known.examples + known.dropped + 5))


def test_it_is_kept_in_files_and_exports(tmp_path):
    rows = mixed()
    detector = Detector(**QUICK, trimming=Trimming()).fit(rows)
    found = detector.assess(rows)
    save(detector, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.trimming == Trimming()
    assert again.reference_.promise == detector.reference_.promise
    np.testing.assert_array_equal(again.assess(rows).p_value, found.p_value)
    export_onnx(detector, tmp_path / "model.onnx")
    exported = OnnxModel(tmp_path / "model.onnx")
    assert exported.metadata.reference.promise == detector.reference_.promise
    assert detector_from_plain(detector_to_plain(Detector(trimming=Trimming(share=0.1)))).trimming.share == 0.1


def test_windows_are_trimmed():
    windows = np.concatenate([SIGNALS, SIGNALS[:3] * 10])
    settings = {"architecture": SMALL_NETWORK, "training": Training(epochs=5), "posterior": AnchoredEnsemble(members=2)}
    detector = Detector(**settings, trimming=Trimming(share=0.1)).fit(windows)
    assert detector.assess(windows[-3:]).prediction.all()


def test_any_detector_can_be_trimmed():
    rows = mixed()
    settings = {"calibration": CrossFit(), "one_by_one": False, "members": 5}
    plain, trimmed = (
        EnsembleDetector(LocalOutlierFactor(novelty=True), **settings, trimming=how).fit(rows)
        for how in (None, Trimming())
    )
    assert trimmed.reference_.dropped > 0
    assert trimmed.assess(rows[300:]).prediction.mean() >= plain.assess(rows[300:]).prediction.mean()
    kept = EnsembleDetector(LocalOutlierFactor(novelty=True), members=1, bootstrap=False, trimming=Trimming(share=0.05))
    assert kept.fit(rows).assess(rows[300:]).prediction.mean() > 0.8


def test_confirmed_rows_are_never_dropped():
    rows = good(100)
    detector = Detector(**QUICK, calibration=TrainScores(), trimming=Trimming(share=0.1)).fit(rows)
    odd = np.full((1, 4), 30.0)
    updated = detector.update(odd, training_data=rows)
    assert (updated.preparation_.scaling.smallest + updated.preparation_.scaling.span > 29).all()


# ----- what is refused


def test_a_stream_is_not_trimmed(tmp_path):
    np.savetxt(tmp_path / "rows.csv", good(300), delimiter=",", header="a,b,c,d", comments="")
    detector = Detector(**QUICK, calibration=HoldOut(), trimming=Trimming())
    with pytest.raises(ConfigError, match="`trimming` is for examples that fit into memory"):
        detector.fit(ExampleStream(tmp_path / "rows.csv", buffer=50))
    assert detector.fit(ExampleStream(tmp_path / "rows.csv")).n_training_ == 300


def test_groups_of_their_own_need_all_of_the_reference():
    with pytest.raises(ConfigError, match=r'pass `trimming=Trimming\(reference="keep"\)`'):
        Detector(trimming=Trimming(), smallest_group=5).settings_in_use()
    Detector(trimming=Trimming(reference="keep"), smallest_group=5).settings_in_use()


def test_a_function_is_not_trimmed():
    base = EnsembleDetector(lambda rows: rows[:, 0], members=1, bootstrap=False, trimming=Trimming())
    with pytest.raises(ConfigError, match="`base` is not refitted"):
        base.fit(good(50))


def test_one_row_cannot_be_halved():
    with pytest.raises(DataError, match="at least 2 training rows to halve, got 1"):
        Detector(posterior=Deterministic(), trimming=Trimming()).fit(good(1))
