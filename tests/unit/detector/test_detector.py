"""Detector: what comes in, what comes out, and what is refused."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from torch import nn

from indubio import (
    AnchoredEnsemble,
    Budget,
    Conv1d,
    Detector,
    Deterministic,
    MCDropout,
    NoReferral,
    OwnNetwork,
    Training,
    UncertaintyThreshold,
    Verdict,
)
from indubio.calibration import TrainScores
from indubio.data import read_table
from indubio.errors import ConfigError, DataError, DataWarning, IndubioError, ShapeError
from indubio.judging import CONVERSIONS
from indubio.networks import BernoulliLikelihood
from indubio.prepare import MinMax

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(60, 1)) + 0.3 * RNG.normal(size=(60, 4)) + [0, 10, -5, 100]
WINDOWS = np.sin(np.linspace(0, 6, 30))[None, :, None] + 0.1 * RNG.normal(size=(40, 30, 2)) * [1, 20]
NAMES = ["temperature", "pressure", "flow", "speed"]


def quick(**settings) -> Detector:
    settings = {"posterior": AnchoredEnsemble(members=3), "training": Training(epochs=15)} | settings
    return Detector(**settings)


@pytest.fixture(scope="module")
def detector() -> Detector:
    return quick().fit(TABLE)


# ----- what comes out


def test_an_assessment_says_everything_of_every_example(detector):
    found = detector.assess(TABLE[:7])
    assert len(found) == 7
    assert set(found.to_dict()) == {
        "verdict",
        "reason",
        "notes",
        "prediction",
        "probability",
        "epistemic",
        "aleatoric",
        "total",
        "exceed",
        "var_nll",
        "nll",
        "novelty",
        "p_value",
    }
    assert all(values.shape == (7,) for values in found.to_dict().values())


def test_far_away_is_an_anomaly_beyond_doubt(detector):
    found = detector.assess(TABLE[:5] + 1000)
    assert (found.verdict == Verdict.ANOMALY).all()
    assert ((found.probability > 0.95) & (found.probability < 1)).all()
    assert (found.total < 0.05).all()


def test_an_assessment_becomes_a_frame_and_an_arrow_table(detector):
    frame = pd.DataFrame(TABLE, columns=NAMES, index=[f"part {i}" for i in range(60)])
    found = quick().fit(frame).assess(frame)
    assert list(found.to_pandas(frame.index).index) == list(frame.index)
    assert found.to_arrow().num_rows == 60
    np.testing.assert_array_equal(found.to_pandas()["total"], found.total)
    assert "60 examples" in repr(found)


@pytest.mark.parametrize("notes", [["", "", "", "", ""], ["", "missing: b", "", "frozen: a", ""]])
def test_an_arrow_table_has_the_words_of_the_assessment(detector, notes):
    words = {
        "verdict": np.array(["REFER", "INLIER", "REFER", "ANOMALY", "REFER"]),
        "reason": np.array(["uncertain-aleatoric", "", "bad_input", "", "out_of_range"]),
        "notes": np.array(notes, dtype=object),
    }
    table = dataclasses.replace(detector.assess(TABLE[:5]), **words).to_arrow()
    for name, texts in words.items():
        assert table.column(name).to_pylist() == texts.tolist()
        assert table.schema.field(name).type == pa.string()


def test_the_total_in_percent_is_four_times_the_total(detector):
    found = detector.assess(TABLE)
    np.testing.assert_allclose(found.total_percent, 400 * found.total)


def test_scores_per_feature_and_reconstructions_have_the_shape_of_the_data(detector):
    assert detector.nll_per_feature(TABLE[:6]).shape == (3, 6, 4)
    assert detector.reconstruction(TABLE[:6]).shape == (3, 6, 4)
    np.testing.assert_allclose(detector.nll_per_feature(TABLE[:6]).mean(2), detector.nll(TABLE[:6]), rtol=1e-5)


def test_an_assessment_does_not_depend_on_the_company(detector):
    together = detector.assess(TABLE).to_dict()
    alone = [detector.assess(TABLE[i : i + 1]).to_dict() for i in range(len(TABLE))]
    for name, values in together.items():
        one_by_one = np.concatenate([one[name] for one in alone])
        if name in ("nll", "var_nll"):
            np.testing.assert_allclose(one_by_one, values, rtol=1e-4)
        else:
            np.testing.assert_array_equal(one_by_one, values)


def test_many_rows_are_scored_in_blocks_with_the_same_result(detector, monkeypatch):
    whole = detector.assess(TABLE)
    monkeypatch.setattr("indubio.chain.autoencoder_scorer.SCORES_AT_ONCE", 40)
    np.testing.assert_array_equal(detector.assess(TABLE).verdict, whole.verdict)


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_every_conversion_can_be_chosen(conversion):
    found = quick(conversion=CONVERSIONS[conversion]()).fit(TABLE).assess(TABLE)
    assert ((found.probability >= 0) & (found.probability <= 1)).all()


# ----- windows and own networks


def test_windows_are_assessed_by_a_convolutional_network():
    detector = quick().fit(WINDOWS)
    assert detector.input_shape_ == (30, 2)
    found = detector.assess(np.concatenate([WINDOWS[:5], WINDOWS[:5] + 30]))
    assert (found.prediction[5:]).all()


def test_own_modules_work_in_a_detector():
    own = OwnNetwork(
        encoder=lambda shape: nn.Sequential(nn.Linear(shape[0], 8), nn.Tanh(), nn.Linear(8, 2)),
        decoder=lambda shape: nn.Linear(2, shape[0]),
    )
    for posterior in (AnchoredEnsemble(members=2), MCDropout(draws=3)):
        assert len(quick(architecture=own, posterior=posterior).fit(TABLE).assess(TABLE)) == 60


def test_a_window_detector_refuses_windows_of_another_length():
    with pytest.raises(ShapeError, match=r"fitted on examples of shape \(30, 2\), got \(30, 1\)"):
        quick().fit(WINDOWS).assess(WINDOWS[:, :, :1])


def test_windows_too_short_for_the_network_are_an_error():
    with pytest.raises(ShapeError, match="too short"):
        quick(architecture=Conv1d()).fit(WINDOWS[:, :5])


# ----- referral


def test_a_budget_refers_at_most_its_share_of_the_training_examples():
    found = quick(referral=Budget(share=0.1), calibration=TrainScores()).fit(TABLE).assess(TABLE)
    assert np.count_nonzero(found.verdict == Verdict.REFER) <= 6


def test_the_rule_can_change_without_training_again(detector):
    fitted = quick().fit(TABLE)
    before = fitted.assess(TABLE).verdict
    changed = fitted.refer_by(NoReferral())
    assert not (changed.assess(TABLE).verdict == Verdict.REFER).any()
    changed = changed.refer_by(UncertaintyThreshold(threshold=0.0))
    found = changed.assess(TABLE)
    np.testing.assert_array_equal(fitted.assess(TABLE).verdict, before)
    np.testing.assert_array_equal(found.verdict == Verdict.REFER, found.total > 0)
    part = np.where(found.epistemic > found.aleatoric, "uncertain-epistemic", "uncertain-aleatoric")
    np.testing.assert_array_equal(found.reason, np.where(found.total > 0, part, ""))


def test_a_budget_can_be_fitted_on_held_out_examples():
    detector = quick().fit(TABLE[:40])
    detector = detector.refer_by(Budget(share=0.25, by="epistemic"), TABLE[40:])
    found = detector.assess(TABLE[40:])
    assert np.count_nonzero(found.verdict == Verdict.REFER) <= 5
    np.testing.assert_array_equal(found.verdict == Verdict.REFER, found.epistemic > detector.referral_threshold_)


# ----- frames


@pytest.mark.parametrize("frame", [pd.DataFrame, lambda values, columns: pl.DataFrame(values, schema=columns)])
def test_frames_give_the_same_as_arrays_and_keep_their_names(frame):
    table = frame(TABLE, columns=NAMES)
    detector = quick().fit(table)
    assert list(detector.feature_names_in_) == NAMES
    assert detector.n_features_in_ == 4
    np.testing.assert_array_equal(detector.assess(table).total, quick().fit(TABLE).assess(TABLE).total)


def test_columns_in_another_order_are_refused_by_name():
    detector = quick().fit(pd.DataFrame(TABLE, columns=NAMES))
    other = pd.DataFrame(TABLE, columns=NAMES)[NAMES[::-1]]
    with pytest.raises(DataError, match=r"(?s)same order.*X\[detector.feature_names_in_\]; or pass read_table\(X\)"):
        detector.assess(other)
    plain = detector.assess(pd.DataFrame(TABLE, columns=NAMES)).total
    np.testing.assert_array_equal(detector.assess(other[detector.feature_names_in_]).total, plain)
    np.testing.assert_array_equal(detector.assess(read_table(other)).total, plain)  # the two ways out


def test_a_frame_needs_a_label_for_every_row(detector):
    with pytest.raises(ShapeError, match="`index` must have a label for each of the 5 examples, got 2"):
        detector.assess(TABLE[:5]).to_pandas([1, 2])


@pytest.mark.parametrize("count", [30, 60])
def test_an_update_warns_of_training_data_that_is_not_what_it_was_fitted_on(count):
    detector = Detector().fit(TABLE[:40])
    with pytest.warns(DataWarning, match=rf"`training_data` is not what.* 40 examples.*got {count} and 5"):
        detector.update(TABLE[:5], training_data=TABLE[:count])
    once = detector.update(TABLE[40:45], training_data=TABLE[:40])
    assert once.update(TABLE[40:50], training_data=TABLE[:40]).n_training_ == 50  # all that were confirmed since `fit`


def test_a_missing_column_is_refused_by_name():
    detector = quick().fit(pd.DataFrame(TABLE, columns=NAMES))
    with pytest.raises(DataError, match="flow"):
        detector.assess(pd.DataFrame(TABLE, columns=NAMES).drop(columns="flow"))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_columns_of_text_are_refused_by_name(make):
    table = make({"a": [1.0, 2.0], "colour": ["red", "blue"], "for": np.array([1, 2], "m8[us]")})
    with pytest.raises(DataError, match='"colour", "for" do not hold numbers'):
        quick().fit(table)


# ----- bad input


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
def test_a_bad_value_is_refused_with_its_place(detector, bad, word):
    rows = TABLE.copy()
    rows[17, 2] = rows[21, 0] = bad
    with pytest.raises(DataError, match=rf"2 of 60 rows contain .*{word}.*row 17, column 2"):
        detector.assess(rows)
    with pytest.raises(DataError, match=word):
        quick().fit(rows)
    with pytest.raises(DataError, match='row 17, column "flow"'):
        quick().fit(pd.DataFrame(rows, columns=NAMES))


def test_a_bad_value_in_a_window_is_refused_with_its_step_and_sensor():
    rows = WINDOWS.copy()
    rows[3, 7, 1] = np.nan
    with pytest.raises(DataError, match="row 3, step 7, sensor 1"):
        quick().fit(rows)


def test_examples_of_more_axes_than_images_have_are_refused():
    with pytest.raises(ValueError, match=r"images \(N, H, W, C\), got 5 axes"):
        quick().fit(TABLE[None, None, None])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (TABLE[:, :3], "3 features"),
        (TABLE[:0], "minimum of 1 is required"),
        (TABLE[0], "Reshape your data"),
        (TABLE[None, None], r"fitted on examples of shape \(4,\), got \(1, 60, 4\)"),
        ([["a", "b", "c", "d"]], "could not convert string"),
    ],
)
def test_data_of_the_wrong_kind_is_refused(detector, rows, message):
    with pytest.raises(ValueError, match=message):
        detector.assess(rows)


def test_every_refusal_is_one_of_ours(detector):
    for rows in (TABLE[:, :3], TABLE[:0], TABLE[0], np.full((2, 4), np.nan)):
        with pytest.raises(IndubioError):
            detector.assess(rows)


def test_one_row_is_enough_to_fit():
    with pytest.warns(DataWarning, match="a single training example"):
        detector = quick().fit(TABLE[:1])
    assert detector.assess(TABLE[:1]).verdict[0] == Verdict.INLIER
    assert detector.assess(TABLE[:1] + 100).prediction[0]


@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")  # of few rows
def test_fewer_rows_than_a_batch_are_enough():
    assert len(quick(training=Training(epochs=5, batch_size=1000)).fit(TABLE[:9]).assess(TABLE)) == 60


@pytest.mark.parametrize("value", [1e30, 1e300, -1.7e308])
def test_huge_values_are_anomalies_and_nothing_overflows(detector, value):
    rows = TABLE[:2].copy()
    rows[0, 1] = value
    found = detector.assess(rows)
    assert found.verdict[0] == Verdict.ANOMALY
    assert all(np.isfinite(values).all() for values in found.to_dict().values() if values.dtype == float)


def test_training_values_beyond_a_float_are_refused():
    rows = TABLE.copy()
    rows[0, 0], rows[1, 0] = 1.7e308, -1.7e308
    with pytest.raises(DataError, match="column 0 span more"):
        quick().fit(rows)


def test_a_constant_column_does_no_harm():
    with_constant = np.column_stack([TABLE, np.full(60, 7.0)])
    with pytest.warns(DataWarning, match="never changes"):
        detector = quick().fit(with_constant)
    found = detector.assess(with_constant)
    assert np.isfinite(found.nll).all()
    assert np.mean(found.prediction) < 0.5
    moved = with_constant.copy()
    moved[:, -1] = 1e6
    assert detector.assess(moved).prediction.all()


def test_noise_of_rounding_errors_in_a_constant_column_is_not_blown_up():
    jitter = 7 + 4e-16 * np.sign(RNG.normal(size=60))
    with pytest.warns(DataWarning, match="never changes"):
        detector = quick().fit(np.column_stack([TABLE, jitter]))
    slightly_off = np.column_stack([TABLE, np.full(60, 7 + 1e-12)])
    expected = detector.assess(np.column_stack([TABLE, np.full(60, 7.0)])).probability
    np.testing.assert_allclose(detector.assess(slightly_off).probability, expected)


# ----- missing values


def test_missing_values_are_replaced_by_the_training_median_when_asked():
    rows = TABLE.copy()
    rows[3, 1] = np.nan
    detector = quick(missing="median").fit(rows)
    filled = rows.copy()
    filled[3, 1] = np.nanmedian(rows[:, 1])
    np.testing.assert_allclose(detector.assess(rows).nll, detector.assess(filled).nll)


def test_missing_values_in_windows_take_the_median_of_the_sensor():
    rows = WINDOWS.copy()
    rows[3, 7, 1] = np.nan
    detector = quick(missing="median").fit(WINDOWS)
    filled = rows.copy()
    filled[3, 7, 1] = np.median(WINDOWS[:, :, 1])
    np.testing.assert_allclose(detector.nll(rows), detector.nll(filled))


def test_what_was_filled_in_is_noted():
    rows = TABLE.copy()
    rows[3, 1] = rows[3, 2] = rows[5, 0] = np.nan
    found = quick(missing="median").fit(pd.DataFrame(TABLE, columns=NAMES)).assess(pd.DataFrame(rows, columns=NAMES))
    assert found.notes[3] == "missing: pressure, flow"
    assert found.notes[5] == "missing: temperature"
    assert (found.notes[[0, 1, 2, 4]] == "").all()
    assert not (found.reason == "bad_input").any()


def test_examples_with_missing_values_are_referred_when_asked():
    rows = TABLE.copy()
    rows[3, 1] = np.nan
    found = quick(missing="refer").fit(TABLE).assess(rows)
    assert found.verdict[3] == Verdict.REFER
    assert found.reason[3] == "bad_input"
    assert np.count_nonzero(found.reason == "bad_input") == 1


def test_a_column_without_any_value_is_refused():
    rows = TABLE.copy()
    rows[:, 2] = np.nan
    with pytest.raises(DataError, match="column 2 has no value at all"):
        quick(missing="median").fit(rows)


# ----- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"missing": "mean"}, "`missing` must be"),
        ({"anomaly_threshold": 1.5}, "`anomaly_threshold` must be"),
        ({"posterior": "ensemble"}, "`posterior` must be an instance of Posterior"),
        ({"likelihood": BernoulliLikelihood()}, "clip=True"),
        ({"device": "toaster"}, "`device` 'toaster' cannot be used here"),
        ({"unseen": "ignore"}, "`unseen` must be one of"),
    ],
)
def test_bad_settings_are_refused_at_fit(settings, message):
    with pytest.raises(ConfigError, match=message):
        Detector(**settings).fit(TABLE)


def test_bernoulli_works_on_clipped_data():
    found = quick(likelihood=BernoulliLikelihood(), scaling=MinMax(clip=True)).fit(TABLE).assess(TABLE + 3)
    assert np.isfinite(found.nll).all()


def test_clipping_hides_how_far_out_a_value_is():
    near, far = TABLE + 50, TABLE + 5000
    clipped = quick(scaling=MinMax(clip=True)).fit(TABLE)
    np.testing.assert_array_equal(clipped.nll(near), clipped.nll(far))
    assert (quick().fit(TABLE).nll(near) < quick().fit(TABLE).nll(far)).all()


def test_progress_is_told_to_the_callback():
    told = []
    quick(posterior=Deterministic()).fit(TABLE, progress=told.append)
    assert [progress.done for progress in told] == list(range(1, 16))


def test_the_same_seed_gives_the_same_detector_and_another_seed_another():
    first, second, other = (quick(seed=seed).fit(TABLE).nll(TABLE) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)
