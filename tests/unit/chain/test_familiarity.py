"""Novelty: low inside, growing outwards, above 1 for one good example in a hundred."""

import numpy as np
import pytest

from indubio import AnchoredEnsemble, Detector, Training, load, save
from indubio.chain import Familiarity
from indubio.detector import EnsembleDetector
from indubio.errors import ShapeError
from tests.engines import CORE


def test_it_grows_along_a_ray_from_the_data_outwards_while_uncertainty_does_not():
    detector = Detector().fit(np.random.default_rng(0).normal(size=(1000, 2)))
    found = detector.assess(np.array([[r, 0.0] for r in (0, 1, 2, 4, 6, 10)]))
    assert (np.diff(found.novelty[2:]) > 0).all()
    assert (found.novelty[:3] < 1).all()
    assert (found.novelty[3:] > 1).all()
    assert (found.epistemic[-2:] < 0.01).all()
    assert (found.total[-2:] < 0.02).all()


def test_a_hole_within_the_range_is_unfamiliar_too():
    random = np.random.default_rng(0)
    rows = np.concatenate([random.normal(-5, 1, size=(300, 2)), random.normal(5, 1, size=(300, 2))])
    found = Detector().fit(rows).assess(np.zeros((1, 2)))
    assert found.novelty[0] > 1


@pytest.mark.parametrize("features", [2, 20])
def test_one_good_example_in_a_hundred_is_above_1(features):
    shares = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        known = Familiarity.fit(random.uniform(size=(500, features)), in_order=False, seed=seed)
        shares.append(np.mean(known.novelty(random.uniform(size=(2000, features))) > 1))
    assert 0.003 < np.mean(shares) < 0.02


def test_it_is_the_distance_to_the_nearest_centre_over_the_usual_one():
    known = Familiarity(centres=np.float32([[0, 0], [3, 4]]), usual=2.0)
    np.testing.assert_allclose(known.novelty(np.array([[0.0, 0], [3, 0], [6, 8]])), [0, 1.5, 2.5])


@pytest.mark.skipif(CORE is None, reason="without the core numpy multiplies, whose last bits depend on the company")
def test_an_example_has_the_same_novelty_in_any_company():
    random = np.random.default_rng(0)
    known, new = Familiarity.fit(random.normal(size=(300, 7)), in_order=False, seed=0), random.normal(size=(99, 7))
    together = known.novelty(new)
    alone = np.concatenate([known.novelty(new[place : place + 1]) for place in range(99)])
    np.testing.assert_array_equal(together, alone)


def test_neighbours_in_time_are_left_out_together():
    """A signal that drifts is unfamiliar at its end, and not for having seen the window beside it."""
    rows = np.repeat(np.arange(50.0), 10)[:, None] / 50
    apart, together = (Familiarity.fit(rows, in_order=in_order, seed=0).usual for in_order in (False, True))
    assert together > 3 * apart


@pytest.mark.parametrize("rows", [np.zeros((1, 3)), np.ones((40, 3)), np.zeros((3, 2, 2))])
def test_few_or_equal_examples_still_have_a_usual_distance(rows):
    known = Familiarity.fit(rows, in_order=False, seed=0)
    assert known.usual > 0
    assert (known.novelty(rows) == 0).all()
    assert (known.novelty(rows + 1) > 1).all()


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 19])
def test_few_training_rows_are_not_novel_to_themselves(count, in_order):
    rows = np.random.default_rng(count).uniform(size=(count, 3))
    known = Familiarity.fit(rows, in_order=in_order, seed=0)
    assert (known.novelty(rows) <= 1).all()
    assert (known.novelty(rows + 9) > 1).all()


def test_many_rows_are_sampled():
    known = Familiarity.fit(np.random.default_rng(0).normal(size=(20_000, 2)), in_order=False, seed=0)
    assert known.centres.shape == (64, 2)


def test_what_is_no_familiarity_is_refused():
    with pytest.raises(ShapeError, match="a distance above 0"):
        Familiarity(centres=np.zeros((2, 2), np.float32), usual=0.0)


@pytest.mark.parametrize(
    "detector",
    [
        Detector(novelty_limit=1.0),
        Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=2), novelty_limit=1.0),
        EnsembleDetector(lambda rows: np.abs(rows).sum(axis=1), members=1, bootstrap=False, novelty_limit=1.0),
    ],
    ids=["prototypes", "ensemble", "any"],
)
def test_a_limit_refers_what_is_unfamiliar(detector, tmp_path):
    fitted = detector.fit(np.random.default_rng(0).normal(size=(200, 3)))
    new = np.array([[0.0, 0, 0], [30, 0, 0]])
    found = fitted.assess(new)
    assert found.reason.tolist() == ["", "unfamiliar"]
    assert fitted.set_params(novelty_limit=None).assess(new).reason[1] != "unfamiliar"
    if isinstance(detector, Detector):
        save(fitted.set_params(novelty_limit=1.0), tmp_path / "model")
        again = load(tmp_path / "model").assess(new)
        np.testing.assert_array_equal(again.novelty, found.novelty)
        assert again.reason.tolist() == found.reason.tolist()
