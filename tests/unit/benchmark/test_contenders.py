"""Who takes part: by name, by class, by configuration, and refused with what there is."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.neighbors import LocalOutlierFactor

from indubio import AnchoredEnsemble, Detector
from indubio.detector import EnsembleDetector, score_of, scores
from indubio.errors import ConfigError, MissingExtraError
from indubio.fitting import defaults
from indubio_lab.benchmark import OURS, PEERS, Contender, contender, contenders

GOOD = np.random.default_rng(0).normal(size=(60, 3))
ROWS = np.array([[0.0, 0.0, 0.0], [8.0, 8.0, 8.0]])


@pytest.mark.parametrize("name", [*OURS, *PEERS])
def test_every_detector_of_the_list_ranks_what_is_far_away_higher(name):
    (one,) = contenders([name], refits=False)
    detector = one.detector(seed=0, train_rows=len(GOOD)).fit(GOOD)
    if one.form == "own":
        found = detector.assess(ROWS).nll
    else:
        found = scores(one.scored_by or score_of(detector), detector, ROWS)[0]
    assert found[1] > found[0]


@pytest.mark.parametrize("name", PEERS)
def test_refits_judge_by_the_rules_of_the_default_detector(name):
    one = PEERS[name].refits()
    detector, ours = one.detector(seed=3, train_rows=60), Detector().settings_in_use()
    assert isinstance(detector, EnsembleDetector)
    assert detector.members == 10
    assert (detector.conversion, detector.referral) == (ours.conversion, ours.referral)
    assert detector.calibration == ours.calibration_for(60, (1,))
    assert detector.seed == 3


@pytest.mark.parametrize("name", [*OURS, *PEERS])
def test_a_contender_can_be_sent_to_another_process(name):
    one = contenders([name])[0]
    assert pickle.loads(pickle.dumps(one)).described == one.described


def test_ours_come_first_and_every_peer_has_two_forms():
    found = contenders(["lof", "default", "knn"], own={"mine": Detector(seed=2)})
    assert [one.name for one in found] == ["mine", "default", "lof", "knn", "lof-refits", "knn-refits"]
    assert [one.name for one in contenders(["lof"], refits=False)] == ["lof"]


def test_by_default_everything_takes_part_that_is_not_slow():
    names = [one.name for one in contenders(refits=False)]
    assert names == ["default", *(name for name in PEERS if name != "lunar")]


def test_any_class_may_be_named():
    one = contenders(["sklearn.covariance:EllipticEnvelope"], refits=False)[0]
    assert one.name == "ellipticenvelope"
    assert one.detector(seed=7, train_rows=60).random_state == 7


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("knnn", r'no detector \'knnn\'; there are "default", .*"nn".*module:Class'),
        ("sklearn.svm:NoSVM", r"sklearn.svm has no detector 'NoSVM'"),
        ("sklearn.nothing:X", r"no module 'sklearn.nothing'"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(name, message):
    with pytest.raises(ConfigError, match=message):
        contenders([name])


def test_a_package_that_is_missing_is_named_with_the_way_to_it(monkeypatch):
    with pytest.raises(MissingExtraError, match="needs notthere: pip install notthere"):
        contenders(["notthere.models:X"])
    monkeypatch.setitem(sys.modules, "pyod.models.pca", None)
    monkeypatch.setattr(contender, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r'pip install "indubio\[pyod\]"'):
        contenders(["pca"])
    assert "pca" not in [one.name for one in contenders()]


def test_a_name_is_given_once():
    with pytest.raises(ConfigError, match='"knn" is there more than once'):
        contenders(["knn"], own={"knn": Detector()})


def test_a_slow_one_is_left_out_of_large_sets_and_says_why():
    lunar = PEERS["lunar"]
    assert lunar.left_out(1000, 50) is None
    assert lunar.left_out(1001, 5) == "1001 training rows, more than 1000"
    assert lunar.left_out(10, 51) == "51 features, more than 50"


def test_a_detector_in_memory_takes_part_and_is_not_changed():
    base = LocalOutlierFactor(novelty=True, n_neighbors=3)
    one = Contender.of("mine", base)
    assert one.form == "plain"
    one.detector(0, 60).fit(GOOD)
    assert not hasattr(base, "offset_")


def test_a_description_follows_the_settings():
    few = Contender.of("a", Detector(posterior=AnchoredEnsemble(members=2)))
    many = Contender.of("a", Detector(posterior=AnchoredEnsemble(members=3)))
    assert few.described != many.described
    assert PEERS["nn"].described != PEERS["knn"].described
    assert PEERS["knn"].described != PEERS["knn"].refits().described


def test_a_default_that_changes_is_another_detector(monkeypatch):
    before = Contender.of("a", Detector()).described
    monkeypatch.setattr(defaults, "DEFAULT_POSTERIOR", AnchoredEnsemble(members=3))
    assert Contender.of("a", Detector()).described != before
