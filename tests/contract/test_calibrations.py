"""What every calibration promises, and what a detector with it does."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

import indubio.calibration
from indubio import AnchoredEnsemble, Budget, Dense, Detector, Deterministic, MCDropout, Training, load, save
from indubio.calibration import CALIBRATIONS, CrossFit, HoldOut, TrainScores
from indubio.data import read_table
from indubio.decision import AtMost, Cost, Exceed, RejEx, TargetRisk
from indubio.detector import EnsembleDetector
from indubio.errors import CalibrationWarning, ConfigError, DataError, DataWarning, ShapeError
from indubio.export import OnnxModel, export_onnx
from indubio.judging import Ecdf
from indubio.posteriors import POSTERIORS, TrainedPosterior
from tests.small_examples import trained_if_so

SHARED_FILES = {"__init__", "calibration", "dependence"}
FILES = {"train": "train_scores", "holdout": "hold_out", "cross": "cross_fit"}
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(120, 1)) + 0.3 * RNG.normal(size=(120, 4))
NEW = np.concatenate([ROWS[:30] + 0.1 * RNG.normal(size=(30, 4)), RNG.normal(scale=3, size=(30, 4))])
LABELS = np.repeat([0, 1], 30)
SMALL = {
    "deterministic": {},
    "anchored_ensemble": {"members": 4},
    "sghmc": {"draws": 4, "burn_in": 2, "thinning": 2},
    "cyclical_sgmcmc": {"draws": 4, "cycles": 2, "burn_in": 2, "thinning": 2},
    "swag": {"draws": 4, "members": 2, "collected": 3, "every": 1},
    "parallel_tempering": {"draws": 3, "chains": 2, "burn_in": 4, "thinning": 3},
}


def quick(**settings) -> Detector:
    usual = {
        "posterior": AnchoredEnsemble(members=4),
        "architecture": Dense(widths=(6,)),
        "training": Training(epochs=5),
    }
    return Detector(**trained_if_so(usual | settings))


@pytest.fixture(params=CALIBRATIONS)
def calibration(request):
    return CALIBRATIONS[request.param]()


def test_the_list_of_calibrations_names_every_file_of_the_folder():
    files = {path.stem for path in Path(indubio.calibration.__file__).parent.glob("*.py")} - SHARED_FILES
    assert {way.__module__.rpartition(".")[2] for way in CALIBRATIONS.values()} == files
    assert {kind: way.__module__.rpartition(".")[2] for kind, way in CALIBRATIONS.items()} == FILES


@pytest.mark.parametrize(("examples", "draws"), [(51, 10), (100, 7), (20, 2), (23, 100), (4, 3)])
def test_a_plan_covers_all_draws_and_keeps_what_it_says_unseen(calibration, examples, draws):
    plan = calibration.plan(examples, draws, 0)
    assert sum(fold.draws for fold in plan.folds) == draws
    assert len(plan.fold_of_draw) == draws
    assert len({len(fold.calibrated) for fold in plan.folds}) == 1
    for fold in plan.folds:
        assert fold.draws >= 1
        assert len(fold.trained) >= 1
        assert len(np.unique(fold.trained)) == len(fold.trained)
        seen = np.isin(fold.calibrated, fold.trained)
        assert not seen.any() if plan.unseen else seen.all()
        assert max(fold.trained.max(), fold.calibrated.max()) < examples


def test_the_same_seed_gives_the_same_plan_and_another_another(calibration):
    one, same, other = (calibration.plan(50, 10, seed) for seed in (1, 1, 2))
    for first, second in zip(one.folds, same.folds, strict=True):
        np.testing.assert_array_equal(first.calibrated, second.calibrated)
    if not isinstance(calibration, TrainScores):  # nothing is shuffled there
        assert any(set(a.calibrated) != set(b.calibrated) for a, b in zip(one.folds, other.folds, strict=True))


def test_cross_fitting_calibrates_on_every_row_once_but_for_a_remainder():
    plan = CrossFit(folds=5).plan(52, 10, 0)
    rows = np.concatenate([fold.calibrated for fold in plan.folds])
    assert len(np.unique(rows)) == len(rows) == 50
    assert [len(fold.trained) for fold in plan.folds] == [42] * 5


def test_the_last_rows_can_be_held_out():
    (fold,) = HoldOut(share=0.2, rows="last").plan(10, 3, 0).folds
    assert list(fold.calibrated) == [8, 9]


def test_what_cannot_be_parted_is_refused_with_the_way_out():
    with pytest.raises(ConfigError, match="rows on both sides"):
        HoldOut(share=0.1).plan(4, 3, 0)
    with pytest.raises(ConfigError, match="at least two draws"):
        CrossFit().plan(50, 1, 0)
    with pytest.raises(ConfigError, match="folds"):
        CrossFit(folds=1)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_every_posterior_can_be_calibrated_in_every_way_stored_and_exported(posterior, calibration, tmp_path):
    if posterior == "deterministic" and isinstance(calibration, CrossFit):
        pytest.skip("one draw cannot be cross-fitted")
    made = POSTERIORS[posterior](**SMALL.get(posterior, {"draws": 4}))
    own = {} if isinstance(made, TrainedPosterior) else {"architecture": None}
    detector = quick(**{"posterior": made, "calibration": calibration} | own).fit(ROWS)
    assert detector.draws_.count == made.count
    found = detector.assess(NEW)
    assert np.isnan(found.p_value).all() == isinstance(calibration, TrainScores)
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.calibration == calibration
    for name, values in loaded.assess(NEW).to_dict().items():
        np.testing.assert_array_equal(values, getattr(found, name), err_msg=name)
    export_onnx(detector, tmp_path / "model.onnx")
    exported = OnnxModel(tmp_path / "model.onnx").assess(NEW)
    np.testing.assert_allclose(exported.p_value, found.p_value, atol=2 / detector.n_reference_)
    assert exported.promise == found.promise
    assert np.mean(exported.reason == found.reason) > 0.95  # float32 rounding may carry an example over a threshold


def test_a_row_has_the_p_value_it_has_in_any_batch(calibration):
    detector = quick(calibration=calibration).fit(ROWS)
    whole = detector.assess(NEW).p_value
    np.testing.assert_array_equal(
        np.concatenate([detector.assess(NEW[i : i + 7]).p_value for i in range(0, 60, 7)]), whole
    )


def test_the_draws_of_a_part_are_trained_without_the_rows_that_calibrate_it():
    # The reference score of a row is that of an ensemble which was fitted without it.
    detector = quick(calibration=CrossFit(folds=2)).fit(ROWS)
    plan = CrossFit(folds=2).plan(len(ROWS), 4, detector.seed)
    nll = detector.nll(ROWS)
    for place, fold in enumerate(plan.folds):
        means = nll[plan.fold_of_draw == place][:, fold.calibrated].mean(axis=0)
        np.testing.assert_allclose(np.sort(means), detector.reference_.scores[place], rtol=1e-5)


def test_held_out_rows_do_not_touch_what_is_learned():
    plan = HoldOut().plan(len(ROWS), 4, 0)
    changed = ROWS.copy()
    changed[plan.folds[0].calibrated] += 100
    one, other = (quick(calibration=HoldOut()).fit(rows) for rows in (ROWS, changed))
    np.testing.assert_array_equal(one.nll(NEW), other.nll(NEW))
    assert one.assess(NEW).p_value.sum() < other.assess(NEW).p_value.sum()


@pytest.mark.parametrize(("rows", "expected"), [(10, TrainScores), (60, CrossFit), (5000, HoldOut)])
def test_without_a_choice_the_number_of_rows_decides(rows, expected):
    assert type(quick().settings_in_use().calibration_for(rows, (3,))) is expected
    single = quick(posterior=Deterministic()).settings_in_use().calibration_for(rows, (3,))
    assert type(single) is (TrainScores if rows == 10 else HoldOut)


def test_mc_dropout_cross_fitted_has_a_network_for_every_fold():
    detector = quick(posterior=MCDropout(draws=6), calibration=CrossFit(folds=3)).fit(ROWS)
    weight = next(iter(detector.draws_.weights.values()))
    assert len(np.unique(weight.reshape(6, -1), axis=0)) == 3


@pytest.mark.parametrize("by", ["total", "epistemic", "aleatoric"])
def test_a_budget_holds_for_new_good_examples_however_it_was_calibrated(calibration, by):
    # 300 new rows: three standard errors of a share of 0.2 are 0.07, and the threshold itself is of 120 rows or fewer.
    random = np.random.default_rng(5)
    new = random.normal(size=(300, 1)) + 0.3 * random.normal(size=(300, 4))
    detector = quick(calibration=calibration, referral=Budget(share=0.2, by=by)).fit(ROWS)
    assert np.mean(detector.assess(new).verdict == "REFER") < 0.2 + 0.15


def test_any_detector_can_be_calibrated_too(calibration):
    detector = EnsembleDetector(LocalOutlierFactor(novelty=True), members=4, calibration=calibration).fit(ROWS)
    p = detector.assess(NEW).p_value
    if isinstance(calibration, TrainScores):
        assert np.isnan(p).all()
    else:
        random = np.random.default_rng(5)
        new = random.normal(size=(300, 1)) + 0.3 * random.normal(size=(300, 4))
        # Three standard errors of the 300 new rows, and as much again for the 30 or 120 rows that calibrate.
        assert np.mean(detector.assess(new).p_value <= 0.1) < 0.1 + 0.05 + 0.1
        assert np.mean(p[LABELS == 1] <= 0.1) > 0.5


def test_a_function_that_scores_is_calibrated_on_rows_held_out():
    detector = EnsembleDetector(
        lambda rows: np.stack([np.abs(rows).sum(axis=1), (rows**2).sum(axis=1)]),
        members=1,
        bootstrap=False,
        calibration=HoldOut(),
    ).fit(ROWS)
    assert detector.n_reference_ == 30
    assert not np.isnan(detector.assess(NEW).p_value).any()


# ----- groups


def by_machine(count: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    values = random.normal(size=(count, 1)) + 0.3 * random.normal(size=(count, 3))
    frame = pd.DataFrame(values, columns=["a", "b", "c"])
    return frame.assign(machine=np.where(np.arange(count) % 3, "M1", "M2"))


def test_a_group_column_makes_p_values_by_group_and_is_passed_through(tmp_path):
    table = read_table(by_machine(150, 0), group="machine")
    detector = quick(calibration=CrossFit(folds=2)).fit(table)
    assert detector.reference_.groups == ("M1", "M2")
    new = by_machine(20, 1).assign(machine=["M1"] * 18 + ["M3", "M2"])
    found = detector.assess(read_table(new, group="machine"))
    assert np.isnan(found.p_value[18])
    assert "group M3" in found.notes[18]
    assert found.smallest_p[0] == pytest.approx(1 / 101)
    assert found.smallest_p[19] == pytest.approx(1 / 51)
    assert found.to_pandas()["machine"].tolist() == new["machine"].tolist()
    save(detector, tmp_path / "model")
    export_onnx(detector, tmp_path / "model.onnx")
    for other in (load(tmp_path / "model"), OnnxModel(tmp_path / "model.onnx")):
        again = other.assess(read_table(new, group="machine"))
        np.testing.assert_allclose(again.p_value, found.p_value, atol=0.02)
        assert list(again.notes) == list(found.notes)


def test_groups_can_be_given_beside_an_array():
    groups = np.repeat(["x", "y"], 60)
    detector = quick(calibration=HoldOut()).fit(ROWS, groups=groups)
    assert not np.isnan(detector.assess(NEW, groups=np.repeat("x", 60)).p_value).any()
    with pytest.raises(DataError, match="calibrated by group"):
        detector.assess(NEW)
    with pytest.raises(ShapeError, match="one name per example"):
        quick().fit(ROWS, groups=groups[:5])


# ----- referral rules on a detector


def test_rules_change_without_training_again_and_are_stored(tmp_path):
    detector = quick(calibration=CrossFit()).fit(ROWS)
    rules = [
        Budget(share=0.1),
        AtMost(count=3),
        Cost(missed_anomaly=5.0, false_alarm=1.0, review=0.2),
        Cost(missed_anomaly=5.0, false_alarm=1.0, review=0.2, prevalence=0.02),
        Exceed(contamination=0.05),
        RejEx(contamination=0.05),
    ]
    for place, rule in enumerate(rules):
        changed = detector.refer_by(rule)
        found = changed.assess(NEW)
        assert set(found.reason) <= {"", "unfamiliar", "uncertain-epistemic", "uncertain-aleatoric"}
        save(changed, tmp_path / str(place))
        assert load(tmp_path / str(place)).referral == rule
        np.testing.assert_array_equal(load(tmp_path / str(place)).assess(NEW).reason, found.reason)
        export_onnx(changed, tmp_path / f"{place}.onnx")
        exported = OnnxModel(tmp_path / f"{place}.onnx").assess(NEW)
        assert np.mean(exported.reason == found.reason) > 0.95
        assert np.mean(exported.prediction == found.prediction) > 0.95


def test_costs_move_the_anomaly_threshold_of_all_methods():
    detector = quick().fit(ROWS).refer_by(Cost(missed_anomaly=9.0, false_alarm=1.0, review=0.05))
    assert detector.decision_threshold == pytest.approx(0.1)
    found = detector.assess(NEW)
    np.testing.assert_array_equal(found.prediction, found.probability >= detector.decision_threshold)
    np.testing.assert_array_equal(detector.predict(NEW) == -1, found.prediction)


def test_labels_tell_costs_how_common_anomalies_are():
    costs = {"missed_anomaly": 9.0, "false_alarm": 1.0, "review": 0.05}
    detector = quick().fit(ROWS)
    changed = detector.refer_by(Cost(**costs), NEW, LABELS)
    assert changed.referral == Cost(**costs, prevalence=(LABELS.sum() + 0.5) / (len(LABELS) + 1))
    assert clone(changed).referral == changed.referral
    with pytest.raises(ConfigError, match="takes no labels"):
        detector.refer_by(changed.referral, NEW, LABELS)
    learned = detector.refer_by(Cost(**costs)).learn(NEW, LABELS, recent=NEW)
    assert learned.referral == Cost(**costs, prevalence=learned.correction_.prevalence)
    assert detector.refer_by(changed.referral).learn(NEW, LABELS, recent=NEW).referral == changed.referral


def test_target_risk_takes_labels_and_other_rules_do_not():
    detector = quick().fit(ROWS)
    rows, labels = np.tile(NEW, (5, 1)), np.tile(LABELS, 5)
    by_risk = detector.refer_by(TargetRisk(alpha=0.4, delta=0.2), rows, labels)
    assert isinstance(by_risk.referral, TargetRisk)
    assert detector.referral is None
    with pytest.raises(ConfigError, match="takes no labels"):
        detector.refer_by(Budget(), rows, labels)
    with pytest.raises(ConfigError, match="needs labelled examples"):
        detector.refer_by(TargetRisk(alpha=0.4))
    with pytest.raises(DataError, match="`y` must be 0 or 1"):
        detector.refer_by(TargetRisk(alpha=0.4), rows, labels[:3])
    with pytest.raises(ConfigError, match="needs labelled examples"):
        quick(referral=TargetRisk(alpha=0.1)).fit(ROWS)


def test_at_most_so_many_a_day_goes_by_the_time_column():
    frame = by_machine(60, 0).drop(columns="machine")
    frame["when"] = pd.to_datetime("2024-05-01") + pd.to_timedelta(np.arange(60) // 30, unit="D")
    table = read_table(frame, time="when")
    detector = quick(referral=AtMost(count=2, per="day")).fit(table)
    referred = detector.assess(table).verdict == "REFER"
    assert max(referred[:30].sum(), referred[30:].sum()) <= 2
    assert referred.sum() > 2


def test_a_value_far_out_of_range_is_referred_and_noted(tmp_path):
    detector = quick(range_margin=0.5).fit(ROWS)
    rows = ROWS[:3].copy()
    rows[1, 2] += 10 * np.ptp(ROWS[:, 2])
    found = detector.assess(rows)
    assert found.reason[1] == "out_of_range"
    assert found.verdict[1] == "REFER"
    assert found.notes[1] == "out of range: x2"
    assert (found.reason[[0, 2]] != "out_of_range").all()
    export_onnx(detector, tmp_path / "model.onnx")
    assert OnnxModel(tmp_path / "model.onnx").assess(rows).reason[1] == "out_of_range"
    with pytest.raises(ConfigError, match="range_margin"):
        quick(range_margin=-1.0).fit(ROWS)


# ----- one calibration example that scores far higher than all others


@pytest.mark.parametrize("level", ["cdf_of_mean", "mean_of_cdf"])
def test_a_calibration_example_that_makes_the_average_alone_is_told_of(level):
    rows = np.concatenate([ROWS, 1000 * np.ones((1, ROWS.shape[1]))])  # the last row, which is held out
    detector = quick(calibration=HoldOut(rows="last"), conversion=Ecdf(level=level))
    if level == "mean_of_cdf":
        assert 0.2 < detector.fit(rows).assess(NEW).prediction.mean() < 0.9
        return
    with pytest.warns(CalibrationWarning, match=r'lies above 9\d\.\d% of them.*level="mean_of_cdf"'):
        detector.fit(rows)
    assert detector.assess(NEW).prediction.mean() < 0.05


def test_windows_are_held_out_in_stretches_by_default():
    settings = quick().settings_in_use()
    assert settings.calibration_for(100, (64, 2)) == CrossFit(rows="in order")
    assert settings.calibration_for(5000, (64, 2)) == HoldOut(rows="last")
    for fold in CrossFit(rows="in order").plan(53, 10, 0).folds:
        assert (np.diff(fold.calibrated) == 1).all()


def test_overlapping_windows_keep_their_promise_in_order_and_break_it_at_random():
    """Slow random signals in windows that overlap by 15 of 16 samples, and later windows of the same signals."""
    random = np.random.default_rng(0)
    noise = random.normal(size=(8, 6000))  # 8 sensors
    signal = np.stack([np.convolve(one, np.ones(40) / 40, mode="valid") for one in noise], axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(signal, 16, axis=0).transpose(0, 2, 1)
    good, later = windows[:2000], windows[2500:]
    alarms = {}
    for rows in ("random", "in order"):
        memory = EnsembleDetector(
            NearestNeighbors(n_neighbors=1),  # knows every row that it was given
            scored_by=lambda fitted, rows: fitted.kneighbors(rows)[0][:, 0],
            one_by_one=False,
            members=5,
            bootstrap="subsample",
            share=0.99,
            calibration=CrossFit(rows=rows),
        )
        with pytest.warns(DataWarning, match="has neighbours among" if rows == "random" else "held out in turn"):
            memory.fit(good)
        alarms[rows] = (memory.assess(later).p_value <= 0.1).mean()
    # Windows are alike over 56 samples, so 2000 of them are worth about 36, and a rate of 0.1 has a deviation of 0.05.
    assert alarms["in order"] <= 0.1 + 2 * 0.05
    assert alarms["random"] > 2 * (0.1 + 2 * 0.05)


@pytest.mark.slow  # 300 detectors
@pytest.mark.parametrize("rows", [20, 100])
def test_cross_fitted_p_values_keep_the_bound_they_promise_and_are_near_the_level(rows):
    repetitions, level, rates = 300, 0.1, []
    for seed in range(repetitions):
        random = np.random.default_rng(seed)
        detector = Detector(calibration=CrossFit(), seed=seed).fit(random.normal(size=(rows, 4)))
        rates.append((detector.assess(random.normal(size=(200, 4))).p_value <= level).mean())
    error = np.std(rates, ddof=1) / np.sqrt(repetitions)
    assert np.mean(rates) <= detector.reference_.bound(level)
    assert abs(np.mean(rates) - level) <= 0.2 * level + 2 * error  # what is seen: a fifth more, with 20 rows
