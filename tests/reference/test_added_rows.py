"""A detector that keeps its sums, and is given more rows, is the detector that is fitted on all rows."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from indubio import CrossFit, Detector, ExampleStream, HoldOut, TrainScores, load, save
from indubio.data import Table
from indubio.errors import ConfigError, ModelFileError
from indubio.fitting import Trimming
from indubio.networks import ROWS
from indubio.posteriors import Prototypes, RandomFeatures
from indubio.prepare import MinMax
from indubio.storage import taken_apart
from indubio.storage.detector_state import put_together

RANDOM = np.random.default_rng(0)
MIX = RANDOM.normal(size=(2, 4))
PLAIN = RandomFeatures(draws=4, units=40, copies=1, lowest_noise=0, highest_noise=0, keep_sums=True)
NOISY = RandomFeatures(draws=4, units=40, copies=2, keep_sums=True)


def rows_of(count: int) -> np.ndarray:
    return RANDOM.normal(size=(count, 2)) @ MIX + 0.2 * RANDOM.normal(size=(count, 4))


TRAINING, NEW = rows_of(2 * ROWS), rows_of(200)
CONFIRMED = 0.4 * rows_of(150)  # within the range: the scaling of a fit on all rows is then the one there was


def assert_same(added: Detector, fitted: Detector) -> None:
    one, other = added.draws_.sums, fitted.draws_.sums
    for name in ("pairs", "targets", "squares"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_allclose(added.nll(NEW), fitted.nll(NEW), rtol=1e-5)
    np.testing.assert_allclose(added.typical_nll_, fitted.typical_nll_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(added.reference_.scores, fitted.reference_.scores, rtol=1e-5)
    assert added.referral_threshold_ == pytest.approx(fitted.referral_threshold_, rel=1e-4)
    assert added.n_training_ == fitted.n_training_
    found, expected = added.assess(NEW), fitted.assess(NEW)
    rank = 1 / added.n_reference_  # of two scores that are nearly the same, the rounding may put either first
    np.testing.assert_allclose(found.p_value, expected.p_value, rtol=0, atol=rank)
    np.testing.assert_allclose(found.probability, expected.probability, rtol=0, atol=rank)


@pytest.mark.parametrize(
    ("posterior", "calibration", "rows"),
    [
        # The rows that train are whole blocks: the confirmed ones have a block of their own in both.
        (NOISY, HoldOut(share=0.2), ROWS * 5 // 4),
        (NOISY, CrossFit(folds=2), 2 * ROWS),
        (NOISY, TrainScores(), ROWS),
        # Without noise it does not matter which block a row is in.
        (PLAIN, CrossFit(folds=4), 333),
        (PLAIN, HoldOut(), 1500),
    ],
    ids=["held out", "two folds", "training scores", "four folds", "not a whole block"],
)
def test_adding_rows_is_fitting_all_rows(posterior, calibration, rows):
    detector = Detector(posterior=posterior, calibration=calibration, scaling=MinMax()).fit(TRAINING[:rows])
    before = detector.nll(NEW)
    added = detector.update(CONFIRMED)
    assert_same(added, detector.update(CONFIRMED, training_data=TRAINING[:rows]))
    np.testing.assert_array_equal(detector.nll(NEW), before)
    assert np.abs(added.nll(NEW) - before).max() > 1e-3


def test_rows_may_be_added_again_and_again():
    detector = Detector(posterior=PLAIN, scaling=MinMax()).fit(TRAINING[:400])
    twice = detector.update(CONFIRMED[:40]).update(CONFIRMED[40:])
    assert_same(twice, detector.update(CONFIRMED))
    np.testing.assert_array_equal(twice.draws_.sums.blocks, detector.draws_.sums.blocks + 2)


def test_a_model_that_was_saved_goes_on_learning(tmp_path):
    detector = Detector(posterior=NOISY).fit(TRAINING[:400])
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    one, other = detector.update(CONFIRMED), loaded.update(CONFIRMED)
    np.testing.assert_array_equal(one.nll(NEW), other.nll(NEW))
    np.testing.assert_array_equal(one.assess(NEW).p_value, other.assess(NEW).p_value)
    save(other, tmp_path / "second")
    np.testing.assert_array_equal(load(tmp_path / "second").nll(NEW), one.nll(NEW))


def test_a_model_without_its_sums_is_refused(tmp_path):
    plain = Detector(posterior=NOISY.replaced(keep_sums=False)).fit(TRAINING[:100])
    save(Detector(posterior=NOISY).of_chain(plain.chain_), tmp_path / "model")
    with pytest.raises(ModelFileError, match="sums"):
        load(tmp_path / "model")


def test_sums_and_rows_that_do_not_belong_to_the_draws_are_refused(tmp_path):
    detector = Detector(posterior=NOISY).fit(TRAINING[:100])
    other = Detector(posterior=NOISY.replaced(units=30)).fit(TRAINING[:100])
    fewer = Detector(posterior=NOISY.replaced(draws=2)).fit(TRAINING[:100])
    scorer = detector.chain_.scorer
    wrong = {
        "of other units": replace(scorer, scores=replace(scorer.draws, sums=other.draws_.sums)),
        "of fewer draws": replace(scorer, scores=replace(scorer.draws, sums=fewer.draws_.sums)),
        "rows for fewer draws": replace(scorer, kept=fewer.kept_rows_),
        "nothing calibrates": replace(
            scorer, kept=replace(scorer.kept, calibrated=np.zeros_like(scorer.kept.calibrated))
        ),
    }
    for name, one in wrong.items():
        save(detector.of_chain(replace(detector.chain_, scorer=one)), tmp_path / name)
        with pytest.raises(ModelFileError, match=r"sums_|kept_rows_"):
            load(tmp_path / name)


def test_a_model_that_keeps_no_sums_stores_none():
    detector = Detector(posterior=NOISY.replaced(keep_sums=False)).fit(TRAINING[:100])
    stored = taken_apart(detector)
    assert not {"sums_", "kept_rows_"} & stored.fitted.keys()
    np.testing.assert_array_equal(put_together(stored, None, None).nll(NEW), detector.nll(NEW))


def test_groups_are_calibrated_again():
    rows = TRAINING[:300]
    groups, new = np.repeat(["a", "b", "c"], 100), np.repeat(["a", "d"], 75)
    detector = Detector(posterior=PLAIN, scaling=MinMax(), smallest_group=10, calibration=CrossFit(folds=2)).fit(
        rows, groups=groups
    )
    added = detector.update(CONFIRMED, groups=new)
    whole = detector.update(CONFIRMED, training_data=rows, groups=np.concatenate([groups, new]))
    assert added.group_conversions_.names == whole.group_conversions_.names
    asked = np.repeat(["a", "b"], 100)
    found, expected = added.assess(NEW, groups=asked), whole.assess(NEW, groups=asked)
    np.testing.assert_allclose(found.probability, expected.probability, atol=1e-4)
    np.testing.assert_allclose(found.p_value, expected.p_value, atol=1 / 50)  # a rank of 50
    with pytest.raises(ConfigError, match="groups"):
        detector.update(CONFIRMED)


def test_what_was_trimmed_stays_out_and_the_reference_is_trimmed_again():
    rows = np.concatenate([TRAINING[:300], 30 * rows_of(6)])
    detector = Detector(posterior=NOISY, trimming=Trimming(share=0.05, reference="drop")).fit(rows)
    added = detector.update(CONFIRMED)
    assert added.reference_.dropped == detector.reference_.dropped > 0
    assert added.assess(rows[-6:]).prediction.all()
    np.testing.assert_array_equal(added.draws_.sums.rows, detector.draws_.sums.rows + 2 * len(CONFIRMED))


def test_a_stream_can_be_added_to():
    names = [f"x{place}" for place in range(4)]
    source = pa.table(dict(zip(names, TRAINING.T, strict=True)))
    streamed = Detector(posterior=PLAIN, calibration=HoldOut()).fit(ExampleStream(source, buffer=500))
    confirmed = Table(features=pa.table(dict(zip(names, CONFIRMED.T, strict=True))))
    added = streamed.update(confirmed)
    assert added.n_reference_ == streamed.n_reference_
    scaled = streamed.chain_.preparation.prepared(confirmed).values.astype(np.float64)
    expected = streamed.draws_.sums.squares + (scaled**2).sum(axis=0)
    np.testing.assert_allclose(added.draws_.sums.squares, expected, rtol=1e-10)


def test_windows_are_added_as_their_spectra():
    windows = RANDOM.normal(size=(60, 64, 2))
    detector = Detector(posterior=PLAIN).fit(windows)
    added = detector.update(windows[:7] * 1.1)
    assert added.preparation_.spectra is not None
    np.testing.assert_array_equal(added.draws_.sums.rows, detector.draws_.sums.rows + 7)


@pytest.mark.parametrize("posterior", [NOISY.replaced(keep_sums=False), Prototypes()], ids=["cosines", "prototypes"])
def test_a_detector_without_sums_says_what_it_needs(posterior):
    detector = Detector(posterior=posterior).fit(TRAINING[:100])
    assert detector.kept_rows_ is detector.draws_.sums is None
    with pytest.raises(ConfigError, match=r"pass `training_data`, or fit with `posterior=.*RandomFeatures\(keep_sums"):
        detector.update(CONFIRMED)


def test_what_only_training_can_do_is_refused():
    table = pa.table({"x": np.arange(60.0) % 7, "colour": np.repeat(["red", "blue"], 30)})
    known = {"colour": None}
    detector = Detector(posterior=PLAIN).fit(Table(features=table, categorical=known))
    with pytest.raises(ConfigError, match="categories"):
        detector.update(Table(features=pa.table({"x": [1.0], "colour": ["green"]}), categorical=known))
    with pytest.raises(ConfigError, match="epochs"):
        detector.update(Table(features=table), epochs=3)
    with pytest.raises(ConfigError, match="in memory"):
        detector.update(ExampleStream(table, buffer=10))
