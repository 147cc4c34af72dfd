"""Our detectors inside PyOD: its base class, its utilities, and its numbers against ours."""

import sys

import numpy as np
import pytest
from pyod.models.base import BaseDetector
from pyod.models.knn import KNN
from pyod.utils.data import evaluate_print, generate_data
from pyod.utils.utility import precision_n_scores, standardizer
from sklearn.base import clone
from sklearn.ensemble import IsolationForest

from indubio import AnchoredEnsemble, Detector, Deterministic, Training, Trimming
from indubio.calibration import CrossFit, HoldOut, TrainScores
from indubio.compat.pyod import as_pyod
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError, MissingExtraError
from indubio.judging import Gaussian, exceed

TRAIN, TEST, _, LABELS = generate_data(n_train=200, n_test=100, n_features=4, contamination=0.1, random_state=1)
GOOD = TRAIN[:180]  # PyOD puts the outliers last
ONE = Detector(posterior=Deterministic(), training=Training(epochs=20))
OURS = {
    "one autoencoder": ONE,
    "an ensemble of autoencoders": Detector(posterior=AnchoredEnsemble(members=3), training=Training(epochs=20)),
    "an ensemble of forests": EnsembleDetector(IsolationForest(n_estimators=20), members=3),
}


@pytest.fixture(scope="module", params=OURS)
def fitted(request):
    return as_pyod(OURS[request.param]).fit(GOOD)


def test_it_is_one_of_pyods_detectors_with_all_that_belongs_to_it(fitted):
    assert isinstance(fitted, BaseDetector)
    assert fitted.decision_scores_.shape == (180,)
    assert fitted.labels_.sum() == 18
    np.testing.assert_array_equal(fitted.labels_, fitted.decision_scores_ > fitted.threshold_)
    assert fitted.predict_proba(TEST).shape == (100, 2)
    assert ((fitted.predict_confidence(TEST) >= 0) & (fitted.predict_confidence(TEST) <= 1)).all()
    assert set(fitted.predict_with_rejection(TEST, c_r=0.1)) <= {0, 1, -2}


HOW = {
    "the default, which remembers": Detector(),
    "rows held out": Detector(calibration=HoldOut()),
    "folds that do not divide the rows": Detector(calibration=CrossFit(folds=3)),
    "rows that look bad left out": Detector(trimming=Trimming()),
    "autoencoders that are trained": OURS["an ensemble of autoencoders"],
    "neighbours, by the refits without the row": EnsembleDetector(KNN(n_neighbors=1), bootstrap="subsample"),
}


@pytest.mark.parametrize("how", HOW)
def test_new_good_rows_are_outliers_about_as_often_as_contamination_says(how):
    good = np.random.default_rng(3).normal(size=(650, 4))
    model = as_pyod(HOW[how], contamination=0.1).fit(good[:250])
    assert model.decision_scores_.shape == (250,)
    assert model.labels_.sum() == 25
    assert 0.02 <= model.predict(good[250:]).mean() <= 0.2  # five standard deviations of a share of 0.1 in 250 rows
    new, trained = model.predict_proba(good[250:])[:, 1], model.predict_proba(good[:250])[:, 1]
    assert new.mean() < 0.5
    assert model.predict(good[250:] + 6).all()
    assert trained.mean() <= new.mean() + 0.1  # rows that were trained on are never stranger than new ones


def test_a_training_row_is_scored_by_the_draws_that_have_not_seen_it():
    # The plain way: a plan of the same seed says who saw whom, and the draws score every row one after the other.
    detector = Detector(
        calibration=CrossFit(folds=4), posterior=AnchoredEnsemble(members=4), training=Training(epochs=5)
    )
    model = as_pyod(detector).fit(GOOD)
    nll = model.detector_.nll(GOOD)
    for draw, fold in enumerate(CrossFit(folds=4).plan(len(GOOD), 4, seed=0).folds):
        np.testing.assert_allclose(model.decision_scores_[fold.calibrated], nll[draw, fold.calibrated], rtol=1e-5)


def test_where_every_draw_has_seen_every_row_the_scores_are_what_they_are():
    model = as_pyod(Detector(calibration=TrainScores())).fit(GOOD)
    np.testing.assert_allclose(model.decision_scores_, model.decision_function(GOOD))


def test_a_class_in_place_of_a_detector_is_refused():
    with pytest.raises(ConfigError, match=r"`detector` must be a detector, not a class: make it Detector\(\)\."):
        as_pyod(Detector)


def test_pyods_utilities_take_it(fitted, capsys):
    evaluate_print("ours", LABELS, fitted.decision_function(TEST))
    assert "ROC:" in capsys.readouterr().out
    both = standardizer(np.column_stack([fitted.decision_function(TEST), fitted.predict_proba(TEST)[:, 1]]))
    np.testing.assert_allclose(both.mean(axis=0), 0, atol=1e-9)
    assert precision_n_scores(LABELS, fitted.decision_function(TEST)) > 0.8


def test_its_scores_and_verdicts_are_those_of_the_detector_inside(fitted):
    np.testing.assert_array_equal(fitted.decision_function(TEST), fitted.detector_.assess(TEST).nll)
    np.testing.assert_array_equal(
        fitted.detector_.nll(TEST), clone(fitted.detector).fit(GOOD).nll(TEST)
    )  # the settings that were given, fitted on the same rows


def test_a_clone_has_the_same_settings_and_is_not_fitted(fitted):
    copy = clone(fitted)
    assert not hasattr(copy, "detector_")
    assert str(copy.get_params()) == str(fitted.get_params())


def test_pyods_unified_probability_is_the_papers_gaussian_with_its_scaling():
    fitted = as_pyod(ONE).fit(GOOD)
    ours = Gaussian().fit(fitted.decision_scores_[None]).probability(fitted.detector_.nll(TEST))
    np.testing.assert_allclose(fitted.predict_proba(TEST, method="unify")[:, 1], ours[0], atol=1e-6)


def test_u_exceed_is_one_minus_pyods_confidence_when_a_single_training_row_is_an_outlier():
    # ExCeeD: P(at least N c of N rows score lower), p estimated by (1 + lower) / (2 + N). With N c = 1 it is p^N for
    # what scores above all training rows, and 1 - p^N below: the paper's equation with that p.
    examples = len(GOOD)
    fitted = as_pyod(ONE, contamination=1 / examples).fit(GOOD)
    scores, training = fitted.decision_function(TEST), np.sort(fitted.decision_scores_)
    apart = (scores <= training[-2]) | (scores >= training[-1])  # in between, PyOD's threshold is interpolated
    p = (1 + np.searchsorted(training, scores, side="right")) / (2 + examples)
    ours = exceed(p, scores, training[-1], examples)
    assert apart.sum() > 90
    np.testing.assert_allclose(ours[apart], 1 - fitted.predict_confidence(TEST)[apart], atol=1e-9)


def test_without_pyod_the_way_to_get_it_is_said(monkeypatch):
    monkeypatch.delitem(sys.modules, "indubio.compat.pyod")
    monkeypatch.setitem(sys.modules, "pyod.models.base", None)
    with pytest.raises(MissingExtraError, match=r"pip install \"indubio\[pyod\]\""):
        import indubio.compat.pyod  # noqa: F401 - the import is the test
