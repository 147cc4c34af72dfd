"""Learning from reviews: a new detector that has also seen what a person found to be good."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from indubio import BayesByBackprop, Detector, Training
from indubio.calibration import CALIBRATIONS, TrainScores
from indubio.data import Table
from indubio.errors import ConfigError, DataError
from indubio.posteriors import POSTERIORS, TrainedPosterior
from tests.contract.test_storage import SMALL
from tests.small_examples import NAMES, SIGNALS, SMALL_NETWORK, good, quick, table, windows
from tests.small_examples import TRAINING as ROWS

WARM = {"calibration": TrainScores()}
UNUSUAL = good(60) + np.array([8, 0, 0, 0])  # good, but of a kind that was not in the training data


@pytest.fixture(scope="module")
def detector() -> Detector:
    return quick(**WARM).fit(ROWS)


def test_confirmed_examples_are_no_longer_strange(detector):
    updated = detector.update(UNUSUAL[:40], training_data=ROWS)
    assert updated.assess(UNUSUAL[40:]).probability.mean() < detector.assess(UNUSUAL[40:]).probability.mean()
    assert updated.n_training_ == len(ROWS) + 40


def test_the_old_detector_stays_as_it_is_and_the_new_one_has_its_settings(detector):
    before = detector.nll(ROWS[:5])
    updated = detector.update(UNUSUAL, training_data=ROWS, epochs=1)
    np.testing.assert_array_equal(detector.nll(ROWS[:5]), before)
    assert updated.settings_in_use() == detector.settings_in_use()
    assert updated.get_params() == detector.get_params()


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_without_epochs_it_is_where_the_old_one_ended(posterior):
    made = POSTERIORS[posterior](**SMALL[posterior])
    own = {} if isinstance(made, TrainedPosterior) else {"architecture": None}
    detector = quick(**WARM | {"posterior": made} | own).fit(ROWS)
    if not made.warm_start:
        with pytest.raises(ConfigError, match="this one trains anew"):
            detector.update(ROWS[:1], training_data=ROWS[1:], epochs=0)
        return
    updated = detector.update(ROWS[:1], training_data=ROWS[1:], epochs=0)
    ours, theirs = detector.draws_.weights, updated.draws_.weights
    if made.CHAINS:  # every chain goes on from its last draw, a few small steps further
        kept = 1 if posterior == "parallel_tempering" else made.chains  # of chains whose places are draws
        chains = np.array_split(np.arange(made.draws), kept)
        first, last = [chain[0] for chain in chains], [chain[-1] for chain in chains]
        assert all((np.abs(theirs[name][first] - ours[name][last]) < 0.02).all() for name in ours)
    else:
        assert all((ours[name] == theirs[name]).all() for name in ours)


def test_a_warm_start_needs_fewer_epochs():
    detector = quick(**WARM, training=Training(epochs=60)).fit(ROWS)
    warm = detector.update(ROWS[:5], training_data=ROWS, epochs=3)
    cold = quick(**WARM, training=Training(epochs=3)).fit(ROWS)
    assert warm.nll(ROWS).mean() < 0.8 * cold.nll(ROWS).mean()


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: pd.DataFrame(rows, columns=NAMES),
        lambda rows: pl.DataFrame(rows, schema=list(NAMES)),
        table,
    ],
    ids=["pandas", "polars", "table"],
)
def test_every_form_of_rows_can_be_put_together(form):
    detector = quick(training=Training(epochs=1)).fit(form(ROWS))
    updated = detector.update(form(UNUSUAL), training_data=form(ROWS))
    assert updated.n_training_ == len(ROWS) + len(UNUSUAL)
    assert updated.schema_.names == detector.schema_.names


def test_windows_can_be_put_together():
    detector = quick(architecture=SMALL_NETWORK, training=Training(epochs=1)).fit(windows(SIGNALS))
    updated = detector.update(windows(SIGNALS[:7]), training_data=windows(SIGNALS))
    assert updated.n_training_ == 47


def test_different_forms_are_refused(detector):
    with pytest.raises(DataError, match="examples of one kind are needed"):
        detector.update(table(UNUSUAL), training_data=ROWS)
    with pytest.raises(DataError, match="cannot be joined"):
        detector.update(UNUSUAL[:, :3], training_data=ROWS)


def test_a_confirmed_new_category_is_learned():
    def parts(colours: list[str]) -> Table:
        features = pa.table({"size": ROWS[: len(colours), 0], "colour": colours})
        return Table(features=features, categorical={"colour": None})

    detector = quick(training=Training(epochs=1)).fit(parts(["red", "blue"] * 50))
    assert set(detector.assess(parts(["green"])).reason) == {"bad_input"}
    updated = detector.update(parts(["green"] * 10), training_data=parts(["red", "blue"] * 50))
    assert set(updated.assess(parts(["green"])).reason) != {"bad_input"}


@pytest.mark.parametrize("calibration", CALIBRATIONS.values(), ids=CALIBRATIONS)
def test_confirmed_examples_train_all_draws_and_calibrate_none(calibration):
    # Those that were sent to a person score higher than others: among the reference they would hide anomalies.
    detector = quick(calibration=calibration()).fit(ROWS)
    updated = detector.update(UNUSUAL, training_data=ROWS)
    assert updated.n_training_ == len(ROWS) + len(UNUSUAL)
    assert updated.n_reference_ == detector.n_reference_
    np.testing.assert_array_equal(updated.drift_reference_.counts, detector.drift_reference_.counts)
    assert updated.nll(UNUSUAL).mean() < detector.nll(UNUSUAL).mean()


def test_a_detector_whose_p_values_promise_something_trains_anew():
    detector = quick(training=Training(epochs=2)).fit(ROWS)
    with pytest.raises(ConfigError, match=r"calibration=TrainScores\(\)"):
        detector.update(UNUSUAL, training_data=ROWS, epochs=1)


def test_bayes_by_backprop_trains_as_a_fresh_fit_does():
    settings = {"posterior": BayesByBackprop(draws=3), "training": Training(epochs=2)} | WARM
    updated = quick(**settings).fit(ROWS).update(UNUSUAL, training_data=ROWS)
    fresh = quick(**settings).fit(np.concatenate([ROWS, UNUSUAL]))
    np.testing.assert_array_equal(updated.nll(ROWS[:5]), fresh.nll(ROWS[:5]))
