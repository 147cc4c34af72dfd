"""Detector keeps scikit-learn's contract for outlier detectors."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from indubio import AnchoredEnsemble, CrossFit, Detector, Deterministic, Training
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError
from indubio.storage import load, save

QUICK = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=10))


@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")  # of few rows
@parametrize_with_checks(
    [Detector(), QUICK, Detector(posterior=Deterministic(), training=Training(epochs=5), missing="median")]
)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def blobs() -> np.ndarray:
    return make_blobs(80, 4, centers=1, random_state=0)[0]


def test_a_clone_fits_to_the_same_scores():
    X = blobs()
    fitted = clone(QUICK).fit(X)
    np.testing.assert_array_equal(clone(fitted).fit(X).score_samples(X), fitted.score_samples(X))


def test_it_works_in_a_pipeline():
    X = blobs()
    pipeline = make_pipeline(StandardScaler(), clone(QUICK)).fit(X)
    assert set(pipeline.predict(np.concatenate([X, X + 50]))) == {1, -1}


def test_inner_settings_can_be_searched_over():
    X = blobs()
    labels = np.ones(len(X), dtype=int)
    far = np.concatenate([X, X[:20] + 30])
    truth = np.concatenate([labels, -np.ones(20, dtype=int)])

    def score(detector, X, y=None):
        return roc_auc_score(truth == 1, detector.decision_function(far))

    search = GridSearchCV(
        clone(QUICK), {"posterior__members": [1, 3], "conversion__steepness": [1.0, 2.0]}, scoring=score, cv=2
    ).fit(X)
    assert search.best_score_ > 0.9
    assert set(search.cv_results_["param_posterior__members"]) == {1, 3}


def test_inner_settings_are_changed_by_copy():
    detector = Detector(posterior=AnchoredEnsemble(members=3))
    before = detector.posterior
    detector.set_params(posterior__members=5, training__epochs=7)
    assert detector.posterior.members == 5
    assert before.members == 3
    assert detector.training.epochs == 7
    assert detector.get_params()["posterior__members"] == 5


@pytest.mark.parametrize(
    ("name", "message"),
    [("posterior__size", "no setting 'size'"), ("missing__x", "no settings 'missing'"), ("nothing__x", "no settings")],
)
def test_an_unknown_inner_setting_is_an_error(name, message):
    with pytest.raises(ConfigError, match=message):
        Detector().set_params(**{name: 1})


def test_predict_is_the_paper_s_rule_with_scikit_learn_s_signs():
    X = blobs()
    detector = clone(QUICK).fit(X)
    new = np.concatenate([X + 1e-3, X + np.linspace(1e-3, 5, len(X))[:, None]])  # none that it was fitted on
    found = detector.assess(new)
    np.testing.assert_array_equal(detector.predict(new) == -1, found.probability >= 0.5)
    np.testing.assert_array_equal(detector.predict(new) == -1, found.prediction)
    np.testing.assert_array_equal(detector.score_samples(new), -found.probability)


def test_an_example_exactly_at_the_threshold_is_an_anomaly():
    X = blobs()
    detector = clone(QUICK).fit(X)
    new = X + 0.01
    probabilities = np.unique(detector.assess(new).probability)
    detector.anomaly_threshold = float(probabilities[len(probabilities) // 2])
    at = detector.assess(new).probability == detector.anomaly_threshold
    assert at.any()
    assert (detector.predict(new)[at] == -1).all()


class Near:
    """Distance to the nearest training row, which is 0 for a training row."""

    def fit(self, rows):
        self.near = NearestNeighbors(n_neighbors=1).fit(rows)
        return self

    def score(self, rows):
        return self.near.kneighbors(rows)[0][:, 0]


def planted() -> np.ndarray:
    """A thousand rows, of which the first fifty are outliers."""
    random = np.random.default_rng(0)
    far = random.normal(size=(50, 5))
    far *= random.uniform(8, 16, size=(50, 1)) / np.linalg.norm(far, axis=1, keepdims=True)
    return np.concatenate([far, random.normal(size=(950, 5))])


@pytest.mark.parametrize(
    "detector",
    [
        Detector(),
        EnsembleDetector(
            Near(), scored_by=lambda model, rows: model.score(rows), calibration=CrossFit(), one_by_one=False
        ),
    ],
    ids=["default", "nearest"],
)
def test_outliers_among_the_training_rows_are_found(detector):
    X = planted()
    labels = clone(detector).fit_predict(X)
    assert (labels[:50] == -1).sum() == 50
    assert (labels == -1).mean() == pytest.approx(0.1, abs=0.03)
    fitted = clone(detector).fit(X)
    np.testing.assert_array_equal(fitted.labels_, labels)
    np.testing.assert_array_equal(fitted.predict(X), labels)


def test_training_rows_are_judged_as_held_out_only_where_they_are_known(tmp_path):
    X = planted()
    detector = Detector().fit(X)
    assert (detector.predict(X + 1e-9 * np.abs(X).max())[:50] == detector.labels_[:50]).sum() < 50
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert not hasattr(loaded, "labels_")
    assert loaded.training_scores_ is None


def test_equal_training_rows_have_equal_labels():
    X = np.concatenate([planted(), planted()[:60]])
    labels = Detector().fit_predict(X)
    np.testing.assert_array_equal(labels[:60], labels[1000:])
