"""A fitted detector never changes; what decides follows its settings, which scikit-learn lets anybody change."""

import copy

import numpy as np
import pytest

from indubio import AnchoredEnsemble, Budget, Detector
from indubio.data import Reading, Roles
from indubio.decision import Evidence, NoReferral, UncertaintyThreshold
from indubio.errors import ConfigError
from indubio.networks import Training


class RefersAll(NoReferral):
    def refers(self, found: Evidence, threshold: float) -> np.ndarray:
        return np.ones(len(found), dtype=bool)


ROWS = np.random.default_rng(0).random((40, 4))


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(posterior=AnchoredEnsemble(members=3), training=Training(epochs=2)).fit(ROWS)


@pytest.mark.parametrize("explain", [False, True])
def test_what_is_changed_after_an_assessment_counts_in_the_next(detector, explain):
    changed = copy.copy(detector)
    before = changed.assess(ROWS, explain=explain).verdict.tolist()
    assert "REFER" in before
    changed = changed.refer_by(NoReferral())
    assert "REFER" not in changed.assess(ROWS, explain=explain).verdict
    changed.anomaly_threshold = 0.0
    assert (changed.assess(ROWS, explain=explain).verdict == "ANOMALY").all()
    changed.anomaly_threshold, changed.referral = 0.5, RefersAll()
    assert (changed.assess(ROWS, explain=explain).verdict == "REFER").all()
    changed = changed.refer_by(UncertaintyThreshold(threshold=1.0))
    assert "REFER" not in changed.assess(ROWS, explain=explain).verdict
    assert detector.assess(ROWS, explain=explain).verdict.tolist() == before


def test_what_gives_another_detector_leaves_this_one_as_it_is(detector):
    before, settings = detector.chain_, detector.get_params()
    others = [
        detector.refer_by(NoReferral()),
        detector.refer_by(Budget(share=0.5), ROWS),
        detector.learn(ROWS, np.arange(40) % 2, recent=ROWS),
        detector.update(ROWS[:3], training_data=ROWS),
        detector.read_by(Reading(table=Roles())),
    ]
    assert all(other.chain_ is not before for other in others)
    assert detector.chain_ is before
    assert detector.get_params() == settings


@pytest.mark.parametrize("name", ["draws_", "conversion_", "reading_", "referral_threshold_", "schema_"])
def test_what_was_learned_cannot_be_overwritten(detector, name):
    with pytest.raises(AttributeError):
        setattr(detector, name, None)


def test_what_a_detector_does_not_have_is_none(detector):
    assert (detector.correction_, detector.group_conversions_, detector.reading_) == (None, None, None)


@pytest.mark.parametrize("explain", [False, True])
def test_every_example_is_decided_on_once(detector, monkeypatch, explain):
    seen: list[int] = []
    refers = Budget.refers

    def counted(rule, found, threshold):
        seen.append(len(found))
        return refers(rule, found, threshold)

    monkeypatch.setattr(Budget, "refers", counted)
    detector.assess(ROWS, explain=explain)
    assert seen == [len(ROWS)]


def test_what_is_changed_after_an_assessment_is_checked(detector):
    changed = copy.copy(detector)
    changed.assess(ROWS)
    changed.missing = "guess"
    with pytest.raises(ConfigError, match="`missing` must be"):
        changed.assess(ROWS)
