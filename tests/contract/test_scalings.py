"""Every scaling: what it promises of training values, new values, files, streams and exports."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from indubio import (
    AnchoredEnsemble,
    Coalition,
    Conv1d,
    Dense,
    Detector,
    ExampleStream,
    Training,
    TrainScores,
    load,
    save,
)
from indubio.configuration import detector_from_plain, detector_to_plain
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError, DataError
from indubio.export import OnnxModel, export_onnx
from indubio.networks import LIKELIHOODS
from indubio.prepare import SCALINGS, ColumnSummary, MinMax, Robust, ZScore
from indubio.prepare.scaling import FAR
from indubio.report import html_report
from tests.small_examples import SIGNALS, SMALL_NETWORK, TRAINING, table

THEIRS = {"min_max": MinMaxScaler(), "z_score": StandardScaler(), "robust": RobustScaler()}
RNG = np.random.default_rng(5)


@pytest.fixture(params=SCALINGS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def scaling(kind):
    return SCALINGS[kind]()


def quick(**settings) -> Detector:
    return Detector(**({"posterior": AnchoredEnsemble(members=2), "training": Training(epochs=10)} | settings))


def test_it_scales_as_scikit_learn_does(kind, scaling):
    rows, new = RNG.normal([0, 5, -1e3], [1, 1e-3, 1e4], size=(200, 3)), RNG.normal(size=(50, 3))
    theirs = THEIRS[kind].fit(rows)
    np.testing.assert_allclose(scaling.fit(rows).scaled(new), theirs.transform(new), rtol=1e-6)


def test_missing_values_are_passed_over(kind, scaling):
    rows = RNG.normal(size=(100, 2))
    rows[RNG.random(rows.shape) < 0.2] = np.nan
    theirs = THEIRS[kind].fit(rows)
    np.testing.assert_allclose(scaling.fit(rows).scaled(rows), theirs.transform(rows), rtol=1e-6, atol=1e-6)


def test_a_sensor_has_one_scale_for_all_time_steps(scaling):
    fitted, flat = scaling.fit(SIGNALS), scaling.fit(SIGNALS.reshape(-1, 2))
    for ours, theirs in zip((fitted.start, fitted.step), (flat.start, flat.step), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("value", [0.0, 3.0, -1e9, 0.1, 1e300])
def test_a_constant_feature_maps_to_zero_and_keeps_its_own_unit(scaling, value):
    fitted = scaling.fit(np.full((7, 1), value))
    assert fitted.scaled(np.array([[value]])).item() == 0
    if abs(value) < 1e9:
        assert fitted.scaled(np.array([[value + 2.5]])).item() == pytest.approx(2.5)


def test_noise_of_the_size_of_rounding_errors_is_not_blown_up(scaling):
    rows = 1e6 + np.spacing(1e6) * RNG.integers(-2, 3, size=(40, 1))
    assert np.abs(scaling.fit(rows).scaled(rows)).max() < 1e-6


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1e150, 1e300])
def test_the_unit_of_the_data_does_not_matter_however_large(scaling, unit):
    rows = RNG.normal(size=(60, 2))
    scaled, usual = scaling.fit(rows * unit).scaled(rows * unit), scaling.fit(rows).scaled(rows)
    np.testing.assert_allclose(scaled, usual, rtol=1e-5, atol=1e-5)


def test_values_far_away_are_bounded(scaling):
    fitted = scaling.fit(RNG.normal(size=(60, 1)))
    assert fitted.scaled(np.array([[1e300], [-1e300]])).ravel().tolist() == [FAR, -FAR]


def test_a_range_that_no_float_holds_is_refused(scaling):
    with pytest.raises(DataError, match="column 1 span more than a float64 can hold"):
        scaling.fit(np.array([[0, -1.7e308], [1, 1.7e308]]))


def test_the_order_of_columns_and_a_copy_change_no_bit(scaling):
    rows = RNG.lognormal(size=(500, 4))
    fitted, swapped = scaling.fit(rows), scaling.fit(np.asfortranarray(rows[:, ::-1]))
    for ours, theirs in zip((fitted.start, fitted.step), (swapped.start, swapped.step), strict=True):
        np.testing.assert_array_equal(ours, theirs[::-1])


def test_what_is_scaled_comes_back(scaling):
    fitted = scaling.fit(TRAINING)
    np.testing.assert_allclose(fitted.unscaled(fitted.scaled(TRAINING)), TRAINING, rtol=1e-5, atol=1e-5)


def test_units_of_the_range_are_the_same_whatever_the_scaling(scaling):
    fitted, expected = scaling.fit(TRAINING), MinMax().fit(TRAINING)
    new = TRAINING * 3
    np.testing.assert_allclose(fitted.in_ranges(fitted.scaled(new)), expected.scaled(new), atol=1e-5)
    for margin in (0.0, 0.7):
        np.testing.assert_array_equal(fitted.outside(new, margin), expected.outside(new, margin))


# ----- sums in blocks


values = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(rows=arrays(np.float64, (12, 1), elements=values), cut=st.integers(0, 12))
def test_summaries_of_blocks_join_to_the_exact_mean_and_deviation(rows, cut):
    found = ColumnSummary.of(rows[:cut]).joined(ColumnSummary.of(rows[cut:]))
    exact = [Fraction(value) for value in rows[:, 0].tolist()]
    mean = sum(exact) / 12
    size = max(abs(value) for value in exact) or Fraction(1)
    variance = sum(((value - mean) / size) ** 2 for value in exact) / 12  # the square of a small value is no float
    assert found.mean.item() == pytest.approx(float(mean), rel=1e-12, abs=1e-14 * float(size))
    assert found.deviation.item() == pytest.approx(
        float(variance) ** 0.5 * float(size), rel=1e-9, abs=1e-14 * float(size)
    )
    assert (found.smallest.item(), found.largest.item()) == (rows.min(), rows.max())


def test_a_large_offset_costs_no_digits():
    # The textbook's mean of squares minus squared mean has no digit right here.
    noise = np.random.default_rng(0).normal(size=(10_000, 1))
    rows = np.round(noise, 3) + 2.0**30
    blocks = [ColumnSummary.of(block) for block in np.array_split(rows, 7)]
    joined = blocks[0]
    for block in blocks[1:]:
        joined = joined.joined(block)
    expected = (rows - 2.0**30).std()  # exact differences
    # The mean of a block is a float64 near 2^30, where they are 2.4e-7 apart, as the data itself is.
    assert joined.deviation.item() == pytest.approx(expected, rel=2.4e-7)
    assert ColumnSummary.of(rows).deviation.item() == pytest.approx(expected, rel=1e-9)


# ----- in a detector


@pytest.mark.parametrize("data", ["table", "windows"])
def test_a_detector_finds_what_is_far_off_and_survives_its_files(scaling, data, tmp_path):
    rows = TRAINING if data == "table" else SIGNALS
    settings = {"architecture": SMALL_NETWORK.replaced(last_activation="none")} if data == "windows" else {}
    detector = quick(scaling=scaling, range_margin=2.0, **settings).fit(rows)
    new = np.concatenate([rows[:20], rows[:20] + 4 * np.ptp(rows.reshape(-1, rows.shape[-1]), axis=0)])
    found = detector.assess(new)
    assert not found.prediction[:20].all()
    assert found.prediction[20:].all()
    assert (found.reason[20:] == "out_of_range").all()
    assert not (found.reason[:20] == "out_of_range").any()
    save(detector, tmp_path / "model")
    again = load(tmp_path / "model").assess(new)
    np.testing.assert_array_equal(again.probability, found.probability)
    export_onnx(detector, tmp_path / "model.onnx")
    exported = OnnxModel(tmp_path / "model.onnx").assess(new)
    np.testing.assert_allclose(exported.nll, found.nll, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(exported.reason, found.reason)


def test_what_labels_teach_is_exported(scaling, tmp_path):
    detector = quick(scaling=scaling).fit(TRAINING)
    labelled = np.concatenate([TRAINING[:30], np.add(TRAINING[:30], [3, 0, 0, 0])])
    learned = detector.learn(labelled, np.repeat([0, 1], 30), recent=TRAINING)
    export_onnx(learned, tmp_path / "model.onnx")
    exported = OnnxModel(tmp_path / "model.onnx").assess(labelled)
    np.testing.assert_allclose(exported.probability, learned.assess(labelled).probability, atol=0.02)


def test_a_report_shows_reconstructions_in_the_units_of_the_data(scaling):
    detector = quick(scaling=scaling).fit(table(TRAINING))
    assert type(scaling).__name__ in html_report(detector, table(TRAINING[:20]))


def test_it_is_a_setting_of_configurations(kind, scaling):
    detector = Detector(scaling=scaling)
    assert detector_from_plain(detector_to_plain(detector)).scaling == scaling
    assert detector_from_plain({"scaling": kind}).scaling == scaling


def test_any_detector_can_be_given_scaled_values(scaling):
    detector = EnsembleDetector(LocalOutlierFactor(novelty=True), members=2, scaling=scaling, one_by_one=False)
    rows, far = TRAINING * [1, 1e6, 1, 1e-6], np.array([50, 0, 0, 0])
    found = detector.fit(rows).assess(rows + far)
    assert found.prediction.mean() > 0.9
    learned = detector.learn(np.concatenate([rows[:30], rows[:30] + far]), np.repeat([0, 1], 30), recent=rows)
    assert learned.correction_.weights[0] > 0


def test_a_stream_is_scaled_as_rows_in_memory_are(scaling, tmp_path):
    rows = RNG.lognormal(size=(3000, 3)) + np.array([0, 1e6, -50])
    parquet.write_table(pa.table(dict(zip("abc", rows.T, strict=True))), tmp_path / "a.parquet", row_group_size=200)
    settings = {"scaling": scaling, "training": Training(epochs=1), "calibration": TrainScores()}
    streamed = quick(**settings).fit(ExampleStream(tmp_path, buffer=500))
    in_memory = quick(**settings).fit(rows)
    ours, theirs = (detector.preparation_.scaling for detector in (streamed, in_memory))
    # The sample that quantiles come from holds all of so few rows.
    for one, other in zip(
        (ours.smallest, ours.start, ours.step), (theirs.smallest, theirs.start, theirs.step), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9)


# ----- outputs that cannot reach the data


@pytest.mark.parametrize("scaling", [ZScore(), Robust()])
@pytest.mark.parametrize("network", [Dense(), Conv1d(), Coalition()])
def test_a_sigmoid_is_refused_where_values_are_not_within_0_and_1(scaling, network):
    with pytest.raises(ConfigError, match=r'last_activation` must be "none" with .* set `scaling=MinMax\(\)`'):
        Detector(posterior=AnchoredEnsemble(), scaling=scaling, architecture=network).settings_in_use()


BOUNDED = [kind() for kind in LIKELIHOODS.values() if kind().unit_interval]


@pytest.mark.parametrize("likelihood", BOUNDED, ids=str)
@pytest.mark.parametrize("scaling", [ZScore(), Robust(), MinMax()])
def test_a_likelihood_of_bounded_values_needs_values_within_0_and_1(scaling, likelihood):
    said = rf"{type(likelihood).__name__} needs data within \[0, 1\]: set `scaling=MinMax"
    with pytest.raises(ConfigError, match=said):
        Detector(scaling=scaling, likelihood=likelihood).settings_in_use()


@pytest.mark.parametrize("likelihood", BOUNDED, ids=str)
def test_a_likelihood_of_bounded_values_needs_reconstructions_within_0_and_1(likelihood):
    given = {"posterior": AnchoredEnsemble(), "scaling": MinMax(clip=True), "likelihood": likelihood}
    with pytest.raises(ConfigError, match=r'`architecture.last_activation` must be "sigmoid" with .*, got .none.'):
        Detector(**given, architecture=Dense(last_activation="none")).settings_in_use()


@pytest.mark.parametrize("shape", [(4,), (30, 2)])
def test_the_usual_network_has_an_output_that_suits_the_scaling(scaling, shape):
    settings = Detector(posterior=AnchoredEnsemble(), scaling=scaling).settings_in_use()
    network = settings.architecture_for(shape, rows=100)
    assert network.last_activation == ("sigmoid" if scaling.unit_interval else "none")


def test_quantiles_must_be_in_order():
    with pytest.raises(ConfigError, match="`quantiles` must be a lower and a higher one"):
        Robust(quantiles=(0.9, 0.1))


def test_the_whole_range_takes_the_place_of_an_inter_quantile_range_of_nothing():
    rows = np.zeros((20, 1))
    rows[:3] = 5.0
    assert Robust().fit(rows).scaled(np.array([[5.0]])).item() == 1
