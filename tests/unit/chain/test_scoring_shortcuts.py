"""What is left out or cut up for speed changes no result and lets no bad input through."""

import numpy as np
import pytest

from indubio import AnchoredEnsemble, Detector
from indubio.errors import DataError, ShapeError
from indubio.networks import Autoencoder, Conv1d, Dense, GaussianLikelihood, Training
from indubio.networks.engine import torch_engine
from indubio.posteriors import Draws
from tests.engines import run_on

ROWS = np.random.default_rng(0).random((40, 4))


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(posterior=AnchoredEnsemble(members=3), training=Training(epochs=2)).fit(ROWS)


def test_an_array_that_needs_no_checks_is_assessed_as_any_other_input(detector):
    ready, checked = detector.assess(ROWS), detector.assess(ROWS.tolist())
    np.testing.assert_array_equal(ready.probability, checked.probability)
    np.testing.assert_array_equal(ready.verdict, checked.verdict)


def test_a_view_with_odd_strides_is_assessed_as_its_copy(detector):
    turned = np.asfortranarray(ROWS)[::-2]
    np.testing.assert_array_equal(detector.nll(turned), detector.nll(turned.copy(order="C")))


@pytest.mark.parametrize("explain", [False, True])
def test_the_network_sees_every_row_once_for_one_assessment(detector, monkeypatch, explain):
    seen = []
    for name in ("nll", "nll_apart"):
        original = getattr(Draws, name)
        monkeypatch.setattr(
            Draws, name, lambda self, rows, original=original: (seen.append(len(rows)), original(self, rows))[1]
        )
    detector.assess(ROWS, explain=explain)
    assert sum(seen) == len(ROWS)


def test_each_of_few_rows_is_assessed_as_among_many(detector):
    many = detector.assess(np.concatenate([ROWS] * 30))
    for place in range(5):
        one = detector.assess(ROWS[[place]])
        np.testing.assert_allclose(one.probability[0], many.probability[place], rtol=1e-6)
        np.testing.assert_allclose(one.p_value[0], many.p_value[place])
        assert (one.verdict[0], one.reason[0]) == (many.verdict[place], many.reason[place])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_array_of_the_right_shape_is_still_refused_for_its_values(detector, bad):
    rows = ROWS[:3].copy()
    rows[1, 2] = bad
    with pytest.raises(DataError):
        detector.assess(rows)


@pytest.mark.parametrize("rows", [ROWS[:, :3], ROWS[:0], ROWS[0], ROWS[:, :, None]], ids=lambda rows: str(rows.shape))
def test_an_array_of_another_shape_is_refused_as_before(detector, rows):
    with pytest.raises((DataError, ShapeError)):
        detector.assess(rows)


def test_rows_without_names_are_noted_when_the_training_rows_had_some():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    named = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=1)).fit(frame)
    with pytest.warns(UserWarning, match="feature names"):
        named.assess(ROWS)


@pytest.mark.parametrize(
    ("architecture", "shape"), [(Dense(), (4,)), (Conv1d(linear=(6,)), (20, 2))], ids=["dense", "conv"]
)
@pytest.mark.parametrize(("values", "fewest"), [(1, 1), (64, 7), (2**20, 1024)])
def test_scores_do_not_depend_on_how_the_work_is_cut_up(monkeypatch, architecture, shape, values, fewest):
    autoencoder = Autoencoder(architecture.build(shape), GaussianLikelihood())
    rows = np.random.default_rng(0).random((25, *shape), dtype=np.float32)
    run_on("torch", monkeypatch)
    made = AnchoredEnsemble(members=3).fit(autoencoder, rows, training=Training(epochs=1), seed=0)
    expected = made.nll(rows)
    monkeypatch.setattr(torch_engine, "VALUES_AT_ONCE", values)
    monkeypatch.setattr(torch_engine, "FEWEST_ROWS", fewest)
    np.testing.assert_allclose(made.nll(rows), expected, rtol=1.3e-6, atol=1e-5)
