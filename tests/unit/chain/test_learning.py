"""Learning from labels: the correction of the log-odds, against scikit-learn and by what it promises."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression

from indubio import Budget, Detector, TargetRisk, load, save
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError, DataError, ShapeError
from indubio.export import OnnxModel, export_onnx
from indubio.judging import SUREST, Correction
from indubio.report import Subject
from indubio.report.model_facts import model_rows
from tests.small_examples import LABELS, SIGNALS, TRAINING, good
from tests.small_examples import ROWS as MIXED

RNG = np.random.default_rng(3)


def looked_at(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Examples of which those with a low first value and a high second one are anomalies, whatever their score."""
    rows = good(count) + RNG.normal(size=(count, 4)) * [1.5, 1.5, 0.1, 0.1]
    return rows, rows[:, 1] - 10 > rows[:, 0] + 1


RECENT, _ = looked_at(300)


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector().fit(TRAINING)


@pytest.fixture(scope="module")
def learned(detector) -> Detector:
    return detector.learn(*looked_at(200), recent=RECENT)


def test_what_people_say_is_learned(detector, learned):
    rows, anomaly = looked_at(500)
    before, after = detector.assess(rows), learned.assess(rows)
    assert (after.prediction != anomaly).mean() < 0.5 * (before.prediction != anomaly).mean()


def test_scores_p_values_and_the_model_before_stay_what_they_were(detector, learned):
    before, after = detector.assess(MIXED), learned.assess(MIXED)
    np.testing.assert_array_equal(after.nll, before.nll)
    np.testing.assert_array_equal(after.p_value, before.p_value)
    assert detector.correction_ is None
    assert (after.probability != before.probability).any()


def test_all_labels_are_given_again_and_the_order_is_nothing(detector, learned):
    rows, anomaly = looked_at(100)
    order = RNG.permutation(100)
    again = learned.learn(rows[order], anomaly[order], recent=RECENT)
    once = detector.learn(rows, anomaly, recent=RECENT)
    np.testing.assert_allclose(again.assess(MIXED).probability, once.assess(MIXED).probability, atol=1e-9)


def test_it_is_the_logistic_regression_of_scikit_learn_from_the_unsupervised_log_odds_on():
    scaled, anomaly = RNG.uniform(size=(80, 6)), RNG.uniform(size=80) < 0.2
    spread, half = 1.7, np.full(80, 0.5)  # log-odds of 0: no offset, which theirs has not
    ours = Correction.fit(scaled, half, anomaly, spread, recent=scaled, recent_probability=half)
    values = np.column_stack([4 * (scaled - 0.5) / np.sqrt(6), np.ones(80)])
    theirs = LogisticRegression(C=spread**2, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(
        values, anomaly, sample_weight=counted(anomaly, ours.prevalence)
    )
    np.testing.assert_allclose([*ours.weights, ours.constant], theirs.coef_[0], atol=1e-4)
    expected = expit(values @ theirs.coef_[0] + logit(ours.prevalence))
    assert expected.mean() == pytest.approx(ours.prevalence, abs=1e-4)


def counted(anomaly: np.ndarray, prevalence: float) -> np.ndarray:
    """How much each label counts."""
    weight = np.where(anomaly, 1 / prevalence, 1 / (1 - prevalence))
    return weight / weight.mean()


@pytest.mark.parametrize("width", [3, 400])  # fewer values than examples, and more
def test_no_other_correction_is_more_probable(width):
    scaled, anomaly = RNG.uniform(size=(50, width)), RNG.uniform(size=50) < 0.3
    p = RNG.uniform(size=50)
    ours = Correction.fit(scaled, p, anomaly, 2.0, recent=scaled, recent_probability=p)
    weight = counted(anomaly, ours.prevalence)

    def loss(weights: np.ndarray, constant: float) -> float:
        moved = logit(np.clip(p, 1 - SUREST, SUREST)) + 4 * (scaled - 0.5) / np.sqrt(width) @ weights + constant
        return weight @ np.log1p(np.exp(np.where(anomaly, -moved, moved))) + (weights @ weights + constant**2) / 8

    best = loss(ours.weights, ours.constant)
    for _ in range(50):
        assert loss(ours.weights + 0.01 * RNG.normal(size=width), ours.constant + 0.01 * RNG.normal()) > best


REPETITIONS, REVIEWED = 12, 400


def test_by_what_the_labelled_were_chosen_is_nothing_to_what_is_learned():
    # The truth is the detector's own opinion and a correction that is linear in the values; it is known exactly.
    random = np.random.default_rng(8)
    detector = Detector(seed=1).fit(random.normal(size=(200, 3)))
    rows = random.normal(size=(8000, 3)) * 1.3
    found = detector.assess(rows)
    units = detector.chain_.preparation.in_units_of_the_range(detector.chain_.preparation.prepared(rows).values)
    offset = logit(np.clip(found.probability, 1 - SUREST, SUREST))
    odds = offset + 4 * (units - 0.5) @ [1.5, -1.0, 0.0] / np.sqrt(3) - 2.0
    share = expit(odds).mean()  # of anomalies among what comes
    constant = -2.0 - logit(share)
    by_chance = np.random.default_rng(0)
    ways = {
        "at random": lambda: by_chance.permutation(8000)[:REVIEWED],
        "most uncertain": lambda: np.argsort(-found.total * by_chance.uniform(0.7, 1, size=8000))[:REVIEWED],
        "highest": lambda: np.argsort(-found.nll * by_chance.uniform(0.3, 1, size=8000))[:REVIEWED],
    }
    new = rows[:500]
    truth = expit(odds[:500] - logit(share))
    for way, chosen_by in ways.items():
        constants, shares, errors = [], [], []
        for _ in range(REPETITIONS):
            chosen = chosen_by()
            says = by_chance.uniform(size=REVIEWED) < expit(odds[chosen])
            learned = detector.learn(rows[chosen], says, recent=rows, spread=20.0)
            constants.append(learned.correction_.constant)
            shares.append(logit(learned.correction_.prevalence))
            errors.append((learned.assess(new).probability - truth).mean())
        for values, true in ((constants, constant), (shares, logit(share)), (errors, 0.0)):
            noise = np.std(values, ddof=1) / np.sqrt(REPETITIONS)
            assert abs(np.mean(values) - true) < 3 * noise + 0.02, (way, np.mean(values), true, noise)


def test_a_tight_spread_leaves_the_detector_its_opinion(detector):
    learned = detector.learn(*looked_at(100), recent=RECENT, spread=1e-4)
    ours, theirs = detector.assess(MIXED).probability, learned.assess(MIXED).probability
    np.testing.assert_allclose(theirs, np.clip(ours, 1 - SUREST, SUREST), atol=0.02)


def test_draws_disagree_as_they_did():
    correction = Correction(weights=np.ones(2), constant=0.5, reviewed=4, anomalies=1, prevalence=0.1)
    p = np.array([[0.2, 0.5], [0.6, 0.5]])
    moved = correction.log_odds(np.array([[0.5, 0.5], [1.0, 0.0]]))
    np.testing.assert_allclose(moved, [0.5, 0.5])
    np.testing.assert_allclose(correction.corrected(p, moved), expit(logit(p) + 0.5))


def test_a_row_is_corrected_the_same_in_any_company(learned):
    together = learned.assess(MIXED).probability
    for size in (1, 7):
        parts = [learned.assess(MIXED[start : start + size]).probability for start in range(0, len(MIXED), size)]
        np.testing.assert_array_equal(np.concatenate(parts), together)


def test_a_saved_model_has_learned_to_the_bit(learned, tmp_path):
    save(learned, tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.assess(MIXED).probability, learned.assess(MIXED).probability)
    assert loaded.correction_.reviewed == 200
    assert "corrected by 200 labels" in (tmp_path / "model" / "README.md").read_text()


def test_the_report_says_what_labels_taught(learned):
    rows = dict(model_rows(Subject.of(learned, MIXED, None, None)))
    assert rows["Corrected by"].startswith("200 labels, ")


@pytest.mark.parametrize("windows", [False, True])
def test_an_exported_model_has_learned_too(learned, windows, tmp_path):
    rows, model = MIXED, learned
    if windows:
        rows = SIGNALS
        model = Detector().fit(rows).learn(rows * RNG.uniform(1, 2, size=(40, 1, 1)), [0, 1] * 20, recent=rows)
    export_onnx(model, tmp_path / "model.onnx")
    ours, theirs = model.assess(rows), OnnxModel(tmp_path / "model.onnx").assess(rows)
    step = 0.1 if windows else 1e-5  # one step of the ECDF of eight windows
    np.testing.assert_allclose(theirs.probability, ours.probability, atol=step)
    np.testing.assert_allclose(theirs.total, ours.total, atol=step)


@pytest.mark.parametrize("scaling", [None, "min_max"])
def test_any_detector_learns(scaling):
    from indubio.prepare import MinMax

    model = EnsembleDetector(IsolationForest(), members=3, scaling=MinMax() if scaling else None).fit(TRAINING)
    rows, anomaly = looked_at(300)
    learned = model.learn(rows, anomaly, recent=rows)
    new, truth = looked_at(300)
    assert (learned.assess(new).prediction != truth).mean() < 0.7 * (model.assess(new).prediction != truth).mean()


def test_values_far_outside_the_range_do_not_run_away(learned):
    probability = learned.assess(TRAINING[:3] * 1e9).probability
    assert np.isfinite(probability).all()


@pytest.mark.parametrize(
    ("y", "error", "words"),
    [
        (np.zeros(80), DataError, "all 80 are good"),
        (np.ones(80), DataError, "all 80 are anomalies"),
        (LABELS[:10], DataError, "0 or 1 for each of the 80"),
    ],
)
def test_labels_that_teach_nothing_are_refused(detector, y, error, words):
    with pytest.raises(error, match=words):
        detector.learn(MIXED, y, recent=MIXED)


def test_a_rule_with_a_promise_must_be_fitted_again(detector):
    promising = Detector().fit(TRAINING).refer_by(TargetRisk(alpha=0.4, delta=0.4), MIXED, LABELS)
    with pytest.raises(ConfigError, match="TargetRisk was fitted on probabilities that would change"):
        promising.learn(MIXED, LABELS, recent=MIXED)
    learned = promising.refer_by(Budget()).learn(*looked_at(100), recent=good(200))
    learned.refer_by(TargetRisk(alpha=0.4, delta=0.4), MIXED, LABELS)


def test_a_budget_is_a_share_of_recent_examples(detector):
    recent = good(1000)
    learned = Detector(referral=Budget(share=0.1)).fit(TRAINING).learn(*looked_at(100), recent=recent)
    assert 0.05 < (learned.assess(recent).verdict == "REFER").mean() <= 0.1


def test_a_spread_of_nothing_and_another_width_are_refused(detector):
    with pytest.raises(ConfigError, match="`spread` must be above 0"):
        detector.learn(MIXED, LABELS, recent=MIXED, spread=0.0)
    with pytest.raises(ShapeError, match="of 2 values, got 3"):
        Correction(weights=np.ones(2), constant=0.0, reviewed=2, anomalies=1, prevalence=0.1).log_odds(np.ones((1, 3)))
