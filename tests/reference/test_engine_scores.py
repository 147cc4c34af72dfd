"""Scores of every engine against plain torch in double precision."""

from itertools import cycle, product

import numpy as np
import pytest
import torch

from tests.engines import ENGINES
from tests.reference.engine_cases import CASES, CLOSE, NETWORKS, NOISY, SHAPES, Case


@pytest.fixture(params=ENGINES)
def engine(request) -> str:
    return request.param


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.tensor(array)


def draws_of(case: Case, count: int, *, shared: bool = False, masks: bool = False, noise: bool = False):
    """Values, masks and noise of so many draws."""
    random = np.random.default_rng(4)
    values = case.values(networks=1 if shared else count)
    places = tuple((random.random((count, units)) < 0.7).astype(float) for units in case.network.dropout_units)
    code = random.normal(size=(count, *case.network.latent_shape))
    return values, places if masks else None, code if noise else None


DRAWS = list(product((1, 4), (False, True)))  # how many, and whether one network's weights are those of all
SCORED = (
    [(name, "plain") for name in CASES] + [(name, "masks") for name in SHAPES] + [(name, "noise") for name in NOISY]
)
THOROUGHLY = ["conv, three of them", "code noise", "code noise, conv", "code noise, frozen heads"]


@pytest.mark.parametrize(
    ("name", "kind", "count", "shared"),
    dict.fromkeys(
        [(*scored, *draws) for scored, draws in zip(SCORED, cycle(DRAWS), strict=False)]
        + [(name, kind, *draws) for name, kind in SCORED if name in THOROUGHLY for draws in DRAWS]
        + [(name, "masks", *draws) for name in NOISY for draws in DRAWS[2:]]
    ),
)
def test_scores_are_those_of_the_plain_network(name, kind, count, shared, engine):
    case = CASES[name]
    values, masks, noise = draws_of(case, count, shared=shared, masks=kind == "masks", noise=kind == "noise")
    rows = case.rows(33)
    scorer = ENGINES[engine](case.autoencoder).scorer(count, values, masks, noise)
    nll, (again, apart), back = scorer.nll(rows), scorer.nll_apart(rows), scorer.reconstruction(rows)
    for draw in range(count):
        theta = tensor(values[0 if shared else draw])
        given = {
            "masks": None if masks is None else [tensor(mask[draw : draw + 1]) for mask in masks],
            "noise": None if noise is None else tensor(noise[draw : draw + 1]),
        }
        expected = case.nll_apart(theta, tensor(rows), **given)
        np.testing.assert_allclose(apart[draw], expected, **CLOSE)
        np.testing.assert_allclose(nll[draw], expected.flatten(1).mean(1), **CLOSE)
        np.testing.assert_allclose(back[draw], case.passed(theta, tensor(rows), **given).location, **CLOSE)
    np.testing.assert_allclose(again, nll, rtol=1e-13)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.likelihood.output_noise])
@pytest.mark.parametrize("masks", [False, True], ids=["plain", "masks"])
def test_the_variance_is_what_the_plain_decoder_gives(name, masks, engine):
    case = CASES[name]
    values, places, _ = draws_of(case, 3, masks=masks)
    rows = case.rows(33)
    found = ENGINES[engine](case.autoencoder).scorer(3, values, places, None).variance(rows)
    for draw in range(3):
        own = None if places is None else [tensor(mask[draw : draw + 1]) for mask in places]
        log_variance = case.passed(tensor(values[draw]), tensor(rows), masks=own, noise=None).log_variance
        np.testing.assert_allclose(found[draw], log_variance.exp() + case.likelihood.smallest_scale**2, **CLOSE)


def test_a_score_depends_on_nothing_but_the_row(engine):
    case = CASES["conv, leaky_relu"]
    values, masks, _ = draws_of(case, 4, masks=True)
    scorer = ENGINES[engine](case.autoencoder).scorer(4, values, masks, None)
    rows = case.rows(300)
    turned = np.asfortranarray(rows[::-1])  # also whatever its memory looks like
    np.testing.assert_allclose(scorer.nll(turned)[:, ::-1], scorer.nll(rows), rtol=1e-12)
    fixed = rows.copy()
    fixed.flags.writeable = False
    np.testing.assert_array_equal(scorer.nll(fixed), scorer.nll(rows))
    np.testing.assert_allclose(scorer.nll(rows[7:8])[:, 0], scorer.nll(rows)[:, 7], rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_in_single_precision_scores_are_nearly_the_same(name, engine):
    case = CASES[name]
    values, rows = case.values(), case.rows(200)
    single = [array.astype(np.float32) for array in (values, rows)]
    made = ENGINES[engine](case.autoencoder)
    found = made.scorer(NETWORKS, single[0], None, None).nll(single[1])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, made.scorer(NETWORKS, values, None, None).nll(rows), rtol=1e-4, atol=1e-6)
