"""Our detectors inside PyOD: its base class, its utilities, and its numbers against ours."""

import sys

import numpy as np
import pytest
from pyod.models.base import BaseDetector
from pyod.utils.data import evaluate_print, generate_data
from pyod.utils.utility import precision_n_scores, standardizer
from sklearn.base import clone
from sklearn.ensemble import IsolationForest

from indubio import AnchoredEnsemble, Detector, Deterministic, Training
from indubio.compat.pyod import as_pyod
from indubio.ensemble import EnsembleDetector
from indubio.errors import MissingExtraError
from indubio.probability import Gaussian
from indubio.uncertainty import exceed

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
    np.testing.assert_array_equal(fitted.decision_function(GOOD), fitted.decision_scores_)
    assert fitted.labels_.sum() == 18
    np.testing.assert_array_equal(fitted.predict(GOOD), fitted.labels_)
    assert fitted.predict_proba(TEST).shape == (100, 2)
    assert ((fitted.predict_confidence(TEST) >= 0) & (fitted.predict_confidence(TEST) <= 1)).all()
    assert set(fitted.predict_with_rejection(TEST, c_r=0.1)) <= {0, 1, -2}


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
    ours = Gaussian().fit(fitted.detector_.nll(GOOD).astype(np.float64)).probability(fitted.detector_.nll(TEST))
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
