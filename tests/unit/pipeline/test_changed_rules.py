"""A detector keeps what decides from one assessment to the next, and never beyond a change of its settings."""

import copy

import numpy as np
import pytest

from indubio import AnchoredEnsemble, Detector
from indubio.decision import NoReferral, UncertaintyThreshold
from indubio.errors import ConfigError
from indubio.explain import explained
from indubio.posteriors import Training

ROWS = np.random.default_rng(0).random((40, 4))


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(posterior=AnchoredEnsemble(members=3), training=Training(epochs=2)).fit(ROWS)


@pytest.mark.parametrize("look", [Detector.assess, lambda *given: explained(*given).found], ids=["assess", "explained"])
def test_what_is_changed_after_an_assessment_counts_in_the_next(detector, look):
    changed = copy.copy(detector)
    before = look(changed, ROWS).verdict.tolist()
    assert "REFER" in before
    changed.refer_by(NoReferral())
    assert "REFER" not in look(changed, ROWS).verdict
    changed.anomaly_threshold = 0.0
    assert (look(changed, ROWS).verdict == "ANOMALY").all()
    changed.referral, changed.referral_threshold_ = UncertaintyThreshold(threshold=0.5), -1.0
    assert (look(changed, ROWS).verdict == "REFER").all()
    assert look(detector, ROWS).verdict.tolist() == before


def test_what_is_changed_after_an_assessment_is_checked(detector):
    changed = copy.copy(detector)
    changed.assess(ROWS)
    changed.missing = "guess"
    with pytest.raises(ConfigError, match="`missing` must be"):
        changed.assess(ROWS)
