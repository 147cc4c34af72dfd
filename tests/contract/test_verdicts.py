"""A verdict never contradicts its p-value, whatever made the scores, the probabilities and the reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import LocalOutlierFactor

from indubio import AnchoredEnsemble, CrossFit, Detector, HoldOut, Training, TrainScores
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError
from indubio.judging import CDF_CONVERSIONS, TOLERANCE, Odds, agreeing
from indubio_lab.collections import adbench_table

CONVERSIONS = {
    f"{kind}-{level}": conversion(scaled=level != "unscaled", **({} if level == "unscaled" else {"level": level}))
    for kind, conversion in CDF_CONVERSIONS.items()
    for level in ("unscaled", "cdf_of_mean", "mean_of_cdf")
} | {"odds": Odds(), "odds-steep": Odds(steepness=2.0)}


def blob(random, count):
    return random.normal(size=(count, 3))


def at_rest(random, count):
    return np.where(random.uniform(size=(count, 1)) < 0.3, 0.0, 1 + random.gamma(2.0, size=(count, 3)))


def skewed(random, count):
    return np.exp(2 * random.normal(size=(count, 3)))


def discrete(random, count):
    return random.integers(0, 3, size=(count, 3)).astype(float)


KINDS = {"blob": blob, "at_rest": at_rest, "skewed": skewed, "discrete": discrete}
DETECTORS = {
    "prototypes": lambda **given: Detector(**given),
    "ensemble": lambda **given: Detector(
        posterior=AnchoredEnsemble(members=4), training=Training(epochs=5, batch_size=16), **given
    ),
    "neighbours": lambda **given: EnsembleDetector(
        LocalOutlierFactor(novelty=True, n_neighbors=5), members=4, one_by_one=False, **given
    ),
}
CALIBRATIONS = {"train": TrainScores(), "holdout": HoldOut(), "cross": CrossFit(folds=4)}
CHOICES = DETECTORS, CONVERSIONS, CALIBRATIONS


def contradictions(found, rate):
    """Examples whose verdict says the opposite of the p-value."""
    limit = np.maximum(2 * rate, found.smallest_p) * TOLERANCE
    return (found.prediction & (found.p_value > limit)) | (~found.prediction & (found.p_value <= rate / 2))


@pytest.mark.filterwarnings("ignore:before you rely")  # on training scores some call half of the rows anomalies
@pytest.mark.filterwarnings("ignore::indubio.errors.CalibrationWarning")
@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_no_verdict_contradicts_its_p_value(detector, conversion, calibration, turn):
    """Half of the kinds of rows in turn: every three of kind, detector, conversion and calibration are tried often."""
    places = [list(of).index(one) for of, one in zip(CHOICES, (detector, conversion, calibration), strict=True)]
    for seed, (kind, made) in enumerate(KINDS.items()):
        if (sum(places) + turn - seed) % 2:
            continue
        random, rate = np.random.default_rng(seed), (0.1, 0.03)[seed % 2]
        chosen = {"conversion": CONVERSIONS[conversion], "calibration": CALIBRATIONS[calibration]}
        fitted = DETECTORS[detector](false_alarms=rate, **chosen).fit(made(random, 80))
        found = fitted.assess(np.concatenate([made(random, 150), 3 * made(random, 50), made(random, 50) + 10]))
        assert np.isnan(found.p_value).all() == (calibration == "train")
        assert not contradictions(found, rate).any(), kind


def test_the_paper_s_conversion_would_contradict_it():
    """The counterpart: where the rate holds nothing back, what two thirds of the good examples reach is an anomaly."""
    fitted = DETECTORS["ensemble"](conversion=CONVERSIONS["uniform-unscaled"], calibration=HoldOut())
    fitted = fitted.fit(skewed(np.random.default_rng(0), 80))
    p = fitted.conversion_.probability(fitted.nll(skewed(np.random.default_rng(1), 400))).mean(axis=0)
    found = fitted.assess(skewed(np.random.default_rng(1), 400))
    assert ((p >= 0.5) & (found.p_value > 0.5)).any()


def test_no_verdict_of_a_group_contradicts_the_p_value_within_the_group():
    random = np.random.default_rng(0)
    groups = np.repeat(["calm", "noisy"], 100)
    scatter = np.where(groups == "noisy", 5.0, 1.0)[:, None]
    for conversion in ("odds", "gaussian-cdf_of_mean", "uniform-unscaled"):
        chosen = {"conversion": CONVERSIONS[conversion], "calibration": HoldOut(), "smallest_group": 20}
        fitted = Detector(**chosen).fit(scatter * blob(random, 200), groups=groups)
        found = fitted.assess(scatter * blob(random, 200) * 2, groups=groups)
        assert not contradictions(found, 0.1).any()


@given(
    p=st.lists(st.floats(0, 1), min_size=3, max_size=3),
    p_value=st.floats(0, 1),
    smallest=st.floats(0, 0.5),
    rate=st.floats(0.001, 0.5),
)
@settings(max_examples=500)
def test_any_probabilities_are_brought_to_the_side_of_the_p_value(p, p_value, smallest, rate):
    mean = agreeing(np.array(p)[:, None], np.array([p_value]), smallest, rate).mean()
    assert mean < 0.5 or p_value <= max(2 * rate, smallest) * TOLERANCE
    assert mean >= 0.5 or p_value > rate / 2


@pytest.mark.parametrize("share", [0.15, 0.3])
def test_a_machine_at_rest_is_an_inlier(share):
    for seed in range(5):
        random = np.random.default_rng(seed)
        rows = random.normal(5, 1, size=(500, 6))
        rows[random.uniform(size=500) < share] = 0
        found = Detector(seed=seed).fit(rows).assess(np.zeros((1, 6)))
        assert not found.prediction[0]
        assert found.p_value[0] > 0.1


def test_the_commonest_row_of_mammography_is_an_inlier(data_folder):
    table = adbench_table("23_mammography", folder=data_folder)
    good = table.rows[~table.anomalous]
    values, counts = np.unique(good, axis=0, return_counts=True)
    assert counts.max() > 1000
    for seed in range(3):
        trained = np.random.default_rng(seed).permutation(len(good))[: len(good) // 2]
        found = Detector(seed=seed).fit(good[trained]).assess(values[[counts.argmax()]])
        assert str(found.verdict[0]) == "INLIER"


def test_no_example_has_probability_0_or_1_and_far_outliers_stay_in_order():
    random = np.random.default_rng(0)
    fitted = Detector().fit(blob(random, 300))
    far = fitted.assess(np.geomspace(4, 4e4, 20)[:, None] * np.ones(3))
    near = fitted.assess(blob(random, 2000))
    assert (near.probability > 0).all()
    assert (far.probability < 1).all()
    assert (np.diff(far.probability) > 0).all()


def test_the_rate_is_given_once():
    with pytest.raises(ConfigError, match=r"`false_alarms` is 0.05, and 0.2 in the conversion: leave one"):
        Detector(false_alarms=0.05, conversion=Odds(false_alarms=0.2)).settings_in_use()
    assert Detector(conversion=Odds(false_alarms=0.2)).settings_in_use().false_alarms == 0.2
    assert Detector(false_alarms=0.05, conversion=Odds(steepness=2)).settings_in_use().conversion == Odds(
        false_alarms=0.05, steepness=2
    )
    for wrong in (0.0, 1.0, -0.1):
        with pytest.raises(ConfigError, match="false_alarms"):
            Detector(false_alarms=wrong).settings_in_use()


@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")  # of few rows
def test_a_handful_of_rows_does_not_make_everything_else_an_anomaly():
    called = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        found = (
            Detector(seed=seed).fit(blob(random, 10)).assess(np.concatenate([blob(random, 100), blob(random, 5) + 9]))
        )
        assert found.prediction[100:].all()
        called.append(found.prediction[:100].mean())
    assert np.mean(called) < 0.2
