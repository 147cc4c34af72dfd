"""Who uses the names of another library is told ours."""

import inspect

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest

from indubio import Detector
from indubio.chain.other_names import ATTRIBUTES, PARAMETERS
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("contamination", "false_alarms"),
        ("random_state", "seed"),
        ("threshold", "anomaly_threshold"),
        ("window", "read"),
    ],
)
def test_a_parameter_of_other_libraries_is_answered_by_ours(theirs, ours):
    with pytest.raises(ConfigError, match=rf"{theirs!r}.*{ours}"):
        Detector(**{theirs: 0.1})
    with pytest.raises(ConfigError, match=ours):
        EnsembleDetector(IsolationForest(), **{theirs: 0.1})


def test_what_nobody_knows_is_pythons_error():
    with pytest.raises(TypeError, match="nonsense"):
        Detector(nonsense=1)


@pytest.mark.parametrize(("theirs", "ours"), ATTRIBUTES.items())
def test_an_attribute_of_other_libraries_is_answered_by_ours(theirs, ours):
    detector = Detector()
    assert not hasattr(detector, theirs)
    with pytest.raises(AttributeError) as error:
        getattr(detector, theirs)
    assert ours in str(error.value)


def test_an_attribute_that_is_not_there_yet_says_why_itself():
    detector = Detector()
    with pytest.raises(AttributeError, match="not fitted"):
        _ = detector.n_training_
    fitted = detector.fit(np.random.default_rng(0).normal(size=(50, 2)))
    with pytest.raises(AttributeError, match="no names of features"):
        _ = fitted.feature_names_in_


def test_no_name_of_others_is_one_of_ours_and_editors_see_ours():
    names = set(inspect.signature(Detector).parameters)
    assert "false_alarms" in names
    assert not names & PARAMETERS.keys()
    assert not ATTRIBUTES.keys() & set(dir(Detector))
