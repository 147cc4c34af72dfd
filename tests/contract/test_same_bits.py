"""The same bits everywhere: for any batch, order, cut, number of threads and instruction set, and on any machine."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from indubio import Detector
from indubio.networks import (
    BernoulliLikelihood,
    BetaLikelihood,
    Coalition,
    ContinuousBernoulliLikelihood,
    Conv1d,
    Conv2d,
    Denoising,
    Dense,
    EarlyStopping,
    GaussianLikelihood,
    LaplaceLikelihood,
    RangeTest,
    Training,
    TruncatedGaussianLikelihood,
)
from indubio.networks.engine import compiled
from indubio.posteriors import POSTERIORS, RandomFeatures, TrainedPosterior
from indubio.prepare import MinMax
from tests.engines import CORE, instruction_sets
from tests.small_examples import skip_if_refused

pytestmark = pytest.mark.skipif(CORE is None, reason="the core was not built: there is no compiler")

GOLDEN = Path(__file__).parents[1] / "golden" / "bits.json"
FEW = {
    "anchored_ensemble": {"members": 3},
    "deterministic": {},
    "random_features": {"draws": 3, "units": 100},
    "sghmc": {"draws": 3, "burn_in": 5, "thinning": 2},
    "cyclical_sgmcmc": {"draws": 3, "cycles": 2, "burn_in": 5, "thinning": 2},
    "swag": {"draws": 3, "members": 2, "collected": 4, "every": 2},
    "parallel_tempering": {"draws": 3, "chains": 3, "burn_in": 10, "thinning": 4},
    "bayesian_vae": {"draws": 3, "burn_in": 5, "thinning": 2},
    "functional_prior": {"draws": 3, "burn_in": 5, "thinning": 2, "networks": 4, "directions": 5, "moves": 1},
}
SMALL = {name: kind(**FEW.get(name, {"draws": 3})) for name, kind in POSTERIORS.items()}
MANY_UNITS = {"random_features, 800 units": RandomFeatures(draws=3)}
ALONE = 20  # examples at either end that are scored one by one: every place in a vector, and the tail of a block
IN_SEVENS = 100  # at the end, that are scored seven by seven
TRAINED = {name: kind for name, kind in SMALL.items() if isinstance(kind, TrainedPosterior)}
SIGNALS = Conv1d(channels=(3, 4), kernels=(4, 2), strides=(2, 2), linear=(20,), bias=True)


PICTURES = Conv2d(channels=(3, 4), latent=9, bias=True, skips=True)


def signals_for(name: str) -> Conv1d | None:
    """A network for windows; None where the posterior has one of its own."""
    return SIGNALS if name in TRAINED else None


def small_detector(name: str, *, epochs: int, **settings) -> Detector:
    """With a small posterior, trained for so many epochs where it is."""
    training = Training(epochs=epochs) if name in TRAINED else None
    return Detector(posterior=SMALL[name], training=training, **settings)


@pytest.fixture(scope="module")
def good() -> np.ndarray:
    found = load_breast_cancer()
    return np.asarray(found.data[found.target == 1])


@pytest.fixture
def instructions():
    """Call it to change the instruction set; what was in use comes back in the end."""
    before = CORE.instructions
    yield CORE.use
    CORE.use(before)


def bits_of(detector: Detector, rows: np.ndarray) -> dict[str, str]:
    draws = detector.draws_
    kept = [*draws.weights.values(), *(draws.masks or ()), *(() if draws.noise is None else (draws.noise,))]
    weights = b"".join(np.ascontiguousarray(array).tobytes() for array in kept)
    nll = detector.nll(rows)
    assert nll.dtype == np.float32
    return {"weights": hashlib.sha256(weights).hexdigest(), "scores": hashlib.sha256(nll.tobytes()).hexdigest()}


def committed() -> Iterator[Any]:
    """Every posterior on every instruction set; what takes seconds without vectors is slow where there are others."""
    for name, one in product(SMALL, instruction_sets()):
        long = name in TRAINED and one == "plain" and len(instruction_sets()) > 1
        yield pytest.param(name, one, marks=[pytest.mark.slow] if long else [])


@pytest.mark.parametrize(("name", "one"), list(committed()))
def test_a_small_model_is_the_committed_one_on_any_machine_and_instruction_set(name, one, good, instructions):
    golden = json.loads(GOLDEN.read_text())[name]
    instructions(one)
    assert bits_of(small_detector(name, epochs=5).fit(good), good) == golden


@pytest.mark.slow  # many seconds where vectors are not used
@pytest.mark.parametrize("name", MANY_UNITS)
def test_a_model_of_many_units_is_the_committed_one_on_any_machine_and_instruction_set(name, good, instructions):
    golden = json.loads(GOLDEN.read_text())[name]
    for one in instruction_sets():
        instructions(one)
        assert bits_of(Detector(posterior=MANY_UNITS[name]).fit(good), good) == golden, one


SETTINGS = {
    "norm, bias, selu": {"architecture": Dense(layer_norm=True, bias=True, activation="selu")},
    "no skips, gelu": {"architecture": Dense(skips=False, activation="gelu", last_activation="none")},
    "wide": {"architecture": Dense(widths=(300, 200))},
    "learned scale": {"likelihood": GaussianLikelihood(noise="per_feature")},
    "heteroscedastic": {"likelihood": LaplaceLikelihood(noise="per_example")},
    "bernoulli": {"likelihood": BernoulliLikelihood(), "scaling": MinMax(clip=True)},
    "continuous bernoulli": {"likelihood": ContinuousBernoulliLikelihood(), "scaling": MinMax(clip=True)},
    "truncated gaussian": {"likelihood": TruncatedGaussianLikelihood(), "scaling": MinMax(clip=True)},
    "beta": {"likelihood": BetaLikelihood(noise="per_example"), "scaling": MinMax(clip=True)},
    "range test": {"training": Training(epochs=2, learning_rate=RangeTest(steps=40))},
    "early stopping": {"training": Training(epochs=4, early_stopping=EarlyStopping(patience=1))},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_trains_to_the_same_bits_on_every_instruction_set(name, good, instructions):
    given = {"posterior": SMALL["anchored_ensemble"], "training": Training(epochs=2)} | SETTINGS[name]
    found = []
    for one in instruction_sets():
        instructions(one)
        found.append(bits_of(Detector(**given).fit(good[:120]), good))
    assert all(bits == found[0] for bits in found)


@pytest.mark.parametrize("name", TRAINED)
def test_a_coalition_has_the_same_bits_on_every_instruction_set_and_in_any_company(name, instructions):
    windows = np.random.default_rng(0).normal(size=(310, 24, 3))
    found = []
    skip_if_refused(SMALL[name], Coalition(network=SIGNALS))
    for one in instruction_sets():
        instructions(one)
        detector = small_detector(name, architecture=Coalition(network=SIGNALS), epochs=2).fit(windows[:40])
        found.append(bits_of(detector, windows))
    assert all(bits == found[0] for bits in found)
    check_cuts_and_orders(detector, windows)


@pytest.mark.parametrize("name", SMALL)
def test_windows_train_to_the_same_bits_on_every_instruction_set(name, instructions):
    windows = np.random.default_rng(0).normal(size=(40, 24, 2))
    found = []
    for one in instruction_sets():
        instructions(one)
        detector = small_detector(name, architecture=signals_for(name), epochs=2).fit(windows)
        found.append(bits_of(detector, windows))
    assert all(bits == found[0] for bits in found)


@pytest.mark.parametrize("name", SMALL)
def test_images_train_to_the_same_bits_on_every_instruction_set(name, instructions):
    images = np.random.default_rng(0).normal(size=(40, 9, 8, 2))
    found = []
    for one in instruction_sets():
        instructions(one)
        detector = small_detector(name, architecture=PICTURES if name in TRAINED else None, epochs=2).fit(images)
        found.append(bits_of(detector, images))
    assert all(bits == found[0] for bits in found)


DENOISED = Training(epochs=2, denoising=Denoising(scale=0.05, highest=0.5, by_kurtosis=True))


def check_denoising(name, rows, network, instructions):
    given = {"posterior": SMALL[name], "architecture": network}
    training, found = replace(DENOISED, batch_size=32), []  # the last batch is smaller
    for one in instruction_sets():
        instructions(one)
        found.append(bits_of(Detector(**given, training=training).fit(rows), rows))
    assert all(bits == found[0] for bits in found)
    assert found[0] != bits_of(Detector(**given, training=replace(training, denoising=None)).fit(rows), rows)


@pytest.mark.parametrize("name", TRAINED)
def test_denoising_trains_to_the_same_bits_on_every_instruction_set_and_to_others_than_without(
    name, good, instructions
):
    check_denoising(name, good[:60], None, instructions)


# The noise is put on rows before a network sees them, and what trains does not know which network it is.
@pytest.mark.parametrize(
    "name", [name if name == "anchored_ensemble" else pytest.param(name, marks=pytest.mark.slow) for name in TRAINED]
)
def test_denoising_of_windows_and_images_does_too(name, instructions):
    windows = np.random.default_rng(0).normal(size=(40, 24, 2))
    images = np.random.default_rng(0).normal(size=(30, 7, 8, 2))
    for rows, network in ((windows, SIGNALS), (images, PICTURES)):
        check_denoising(name, rows, network, instructions)


def test_the_number_of_threads_changes_no_bit_of_denoising(good):
    wide = {"posterior": SMALL["anchored_ensemble"], "architecture": Dense(widths=(400, 200))}
    one, two = (Detector(**wide, training=replace(DENOISED, threads=threads)).fit(good) for threads in (1, 2))
    assert bits_of(one, good) == bits_of(two, good)


def test_the_number_of_threads_changes_no_bit(good):
    # Enough work that the threads are really used.
    wide = {"posterior": SMALL["anchored_ensemble"], "architecture": Dense(widths=(400, 200))}
    training = Training(epochs=2)
    one, two = (Detector(**wide, training=replace(training, threads=threads)).fit(good) for threads in (1, 2))
    assert bits_of(one, good) == bits_of(two, good)


def test_the_number_of_threads_changes_no_bit_of_images():
    images = np.random.default_rng(0).normal(size=(60, 16, 16, 1))
    settings = {"posterior": SMALL["anchored_ensemble"], "architecture": Conv2d()}
    one, two = (Detector(**settings, training=Training(epochs=2, threads=threads)).fit(images) for threads in (1, 2))
    assert bits_of(one, images) == bits_of(two, images)


@pytest.fixture(scope="module", params=SMALL)
def fitted(request, good) -> Detector:
    return small_detector(request.param, epochs=2).fit(good[:200])


@pytest.fixture(scope="module", params=SMALL)
def fitted_windows(request) -> tuple[Detector, np.ndarray]:
    windows = np.random.default_rng(1).normal(size=(310, 24, 2))
    network = signals_for(request.param)
    return small_detector(request.param, architecture=network, epochs=1).fit(windows[:60]), windows


@pytest.fixture(scope="module", params=SMALL)
def fitted_images(request) -> tuple[Detector, np.ndarray]:
    images = np.random.default_rng(1).normal(size=(310, 9, 8, 2))
    network = PICTURES if request.param in TRAINED else None
    return small_detector(request.param, architecture=network, epochs=1).fit(images[:60]), images


def check_cuts_and_orders(detector: Detector, examples: np.ndarray) -> None:
    whole, apart = detector.nll(examples), detector.nll_per_feature(examples)
    why = detector.contributions(examples).values.value
    order = np.random.default_rng(2).permutation(len(examples))
    np.testing.assert_array_equal(detector.nll(examples[order]), whole[:, order])
    np.testing.assert_array_equal(detector.nll_per_feature(examples[order]), apart[:, order])
    np.testing.assert_array_equal(detector.contributions(examples[order]).values.value, why[order])
    count = len(examples)
    places = np.arange(count)
    alone = [places[place : place + 1] for place in (*range(ALONE), *range(count - ALONE, count))]
    sevens = np.split(places[-IN_SEVENS:], range(7, IN_SEVENS, 7))
    for parts in (alone, sevens, [places[:299], places[299:]]):
        chosen = np.concatenate(parts)
        scores = [detector.nll(examples[part]) for part in parts]
        np.testing.assert_array_equal(np.concatenate(scores, axis=1), whole[:, chosen])
        values = [detector.nll_per_feature(examples[part]) for part in parts]
        np.testing.assert_array_equal(np.concatenate(values, axis=1), apart[:, chosen])
        reasons = [detector.contributions(examples[part]).values.value for part in parts]
        np.testing.assert_array_equal(np.concatenate(reasons), why[chosen])


def test_scores_and_contributions_of_rows_do_not_know_their_neighbours(fitted, good, instructions):
    before = fitted.nll(good)
    for one in instruction_sets():
        instructions(one)
        np.testing.assert_array_equal(fitted.nll(good), before)
        check_cuts_and_orders(fitted, good[:310])


def test_scores_and_contributions_of_windows_do_not_know_their_neighbours(fitted_windows, instructions):
    detector, windows = fitted_windows
    before = detector.nll(windows)
    for one in instruction_sets():
        instructions(one)
        np.testing.assert_array_equal(detector.nll(windows), before)
        check_cuts_and_orders(detector, windows)


def test_scores_and_contributions_of_images_do_not_know_their_neighbours(fitted_images, instructions):
    detector, images = fitted_images
    before = detector.nll(images)
    for one in instruction_sets():
        instructions(one)
        np.testing.assert_array_equal(detector.nll(images), before)
        check_cuts_and_orders(detector, images)


def test_large_images_are_scored_fewer_at_a_time_to_the_same_bits(monkeypatch):
    images = np.random.default_rng(1).normal(size=(50, 9, 8, 2))
    detector = small_detector("mc_dropout", architecture=PICTURES, epochs=1).fit(images)
    whole, autoencoder = detector.nll(images), detector.draws_.autoencoder
    *_, room = CORE.network_sizes(compiled.CompiledEngine(CORE, autoencoder).handle)
    monkeypatch.setattr(compiled, "ROOM", 7 * room)
    engine = compiled.CompiledEngine(CORE, autoencoder)
    assert engine.rows_at_once == 7
    draws = detector.draws_
    scorer = engine.scorer(draws.count, autoencoder.flat(draws.weights), draws.masks, draws.noise)
    np.testing.assert_array_equal(scorer.nll(detector.preparation_.scaled(images)), whole)
