"""Training rows that look like anomalies are left out: which, how many, and what becomes of the calibration."""

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import distance
from sklearn.neighbors import LocalOutlierFactor

from indubio import (
    AnchoredEnsemble,
    CrossFit,
    Detector,
    ExampleStream,
    HoldOut,
    MCDropout,
    Training,
    TrainScores,
    Trimming,
    load,
    save,
)
from indubio.configuration import detector_from_plain, detector_to_plain
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError
from indubio.export import OnnxModel, export_onnx
from indubio.fitting.trimming import strangeness
from tests.small_examples import SIGNALS, SMALL_NETWORK

PLANS = [CrossFit(), HoldOut(), TrainScores()]
QUICK = {"posterior": AnchoredEnsemble(members=5), "training": Training(epochs=30)}


def good(count: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(count, 1)) + 0.3 * random.normal(size=(count, 4))


def mixed(bad: int = 15, count: int = 300) -> np.ndarray:
    """Good rows, and at the end bad ones that are far off in other ways each."""
    return np.concatenate([good(count), np.random.default_rng(9).normal(scale=8, size=(bad, 4))])


# ----- which


def test_a_row_is_as_strange_as_the_neighbour_is_far_up_to_which_a_tenth_of_all_lies():
    rows = good(200)
    expected = np.sort(distance.cdist(rows, rows, "sqeuclidean"), axis=1)[:, 20]
    np.testing.assert_allclose(strangeness(rows, seed=0), expected, atol=1e-9)


def test_of_many_rows_neighbours_are_looked_for_among_some():
    rows = np.concatenate([good(5000), 20 + good(15, seed=3)])
    assert set(np.argsort(strangeness(rows, seed=0))[-15:]) == set(range(5000, 5015))


@pytest.mark.parametrize("calibration", PLANS, ids=lambda one: type(one).__name__)
def test_the_strangest_are_left_out_of_every_fold_and_none_that_a_person_confirmed(calibration):
    rows = np.concatenate([mixed(bad=10, count=90), np.full((3, 4), 99.0)])
    plan = calibration.plan(100, 5, seed=0).with_added(100, 3)
    for before, after in zip(plan.folds, Trimming(share=0.2).trained(plan, rows, 100, 0).folds, strict=True):
        doubtful = before.trained[before.trained < 100]
        assert len(before.trained) - len(after.trained) == round(0.2 * len(doubtful))
        assert not {row for row in after.trained if 90 <= row < 100}
        assert {100, 101, 102} <= set(after.trained)
        np.testing.assert_array_equal(after.calibrated, before.calibrated)


@pytest.mark.parametrize("calibration", PLANS[:2], ids=lambda one: type(one).__name__)
def test_no_row_that_calibrates_has_a_say(calibration):
    rows = mixed(bad=10, count=90)
    plan = calibration.plan(100, 5, seed=0)
    usual = Trimming().trained(plan, rows, 100, 0).folds
    for place, fold in enumerate(plan.folds):
        other = rows.copy()
        other[fold.calibrated] += 50
        np.testing.assert_array_equal(
            Trimming().trained(plan, other, 100, 0).folds[place].trained, usual[place].trained
        )


def test_rows_that_calibrate_are_dropped_only_where_it_is_asked_for():
    plan = CrossFit().plan(100, 5, seed=0)
    of_draws = np.tile(np.arange(100.0), (5, 1))
    dropped = Trimming(share=0.1, reference="drop").calibrated(plan, of_draws)
    assert dropped.dropped == 10
    for before, after in zip(plan.folds, dropped.folds, strict=True):
        lost = set(before.calibrated) - set(after.calibrated)
        assert lost == set(np.sort(before.calibrated)[len(after.calibrated) :])
    assert Trimming(share=0.1).calibrated(plan, of_draws) is plan


# ----- detectors


def test_alike_bad_rows_do_not_vouch_for_each_other():
    rows = np.concatenate([good(300), np.full((10, 4), 6.0) + 0.01 * good(10, seed=3)])
    bad = np.full((5, 4), 6.0) + 0.01 * good(5, seed=4)
    called = [Detector(trimming=how).fit(rows).assess(bad).prediction.mean() for how in (None, Trimming())]
    assert called == [0.0, 1.0]


def test_suspicion_is_highest_for_bad_rows_that_are_alike():
    rows = np.concatenate([good(300), np.full((10, 4), 6.0) + 0.01 * good(10, seed=3)])
    assert set(np.argsort(Detector().suspicion(rows))[-10:]) == set(range(300, 310))


@pytest.mark.parametrize("calibration", PLANS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("posterior", [AnchoredEnsemble(members=5), MCDropout(draws=10)], ids=["ensemble", "dropout"])
def test_bad_rows_in_training_are_called_what_they_are(calibration, posterior):
    settings = {"posterior": posterior, "training": Training(epochs=30), "calibration": calibration}
    rows = mixed()
    trimmed, plain = (Detector(**settings, trimming=how).fit(rows) for how in (Trimming(), None))
    assert trimmed.n_reference_ == plain.n_reference_
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
    how = Trimming(share=0.1, reference="drop")
    detector = Detector(**QUICK, calibration=HoldOut(share=0.5), trimming=how).fit(good(200))
    assert detector.reference_.dropped == 10
    assert "P(p <= a) <= a + 0.099, over 90 calibration examples" in detector.reference_.promise
    assert "without the 10 highest as likely anomalies" in detector.reference_.promise
    crossed = Detector(**QUICK, calibration=CrossFit(), trimming=how).fit(good(200))
    known = crossed.reference_
    more = known.dropped / (known.examples + known.dropped + 1)
    assert f"usually near a, or up to a + {more:.2g};" in known.promise
    assert known.bound(0.05) == pytest.approx(0.1 + 1.9 * (4 + known.dropped) / (known.examples + known.dropped + 5))


def test_it_is_kept_in_files_and_exports(tmp_path):
    rows = mixed()
    detector = Detector(**QUICK, trimming=Trimming(reference="drop")).fit(rows)
    found = detector.assess(rows)
    save(detector, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.trimming == Trimming(reference="drop")
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
        Detector(trimming=Trimming(reference="drop"), smallest_group=5).settings_in_use()
    Detector(trimming=Trimming(), smallest_group=5).settings_in_use()


def test_a_function_is_not_trimmed():
    base = EnsembleDetector(lambda rows: rows[:, 0], members=1, bootstrap=False, trimming=Trimming())
    with pytest.raises(ConfigError, match="`base` is not refitted"):
        base.fit(good(50))
