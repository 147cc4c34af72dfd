"""Shapes and errors of the networks."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from indubio import Detector, OwnNetwork
from indubio.errors import ConfigError, PerformanceWarning, ShapeError
from indubio.networks import (
    Autoencoder,
    Coalition,
    Conv1d,
    Conv2d,
    Dense,
    DrawScorer,
    GaussianLikelihood,
    Training,
    fresh_weights,
)
from indubio.networks.engine.torch_engine import TorchEngine
from indubio.numerics import stream, streams
from indubio.posteriors import VAE, AnchoredEnsemble, BayesByBackprop, Deterministic
from tests.engines import ENGINES

RNG = np.random.default_rng(0)


@pytest.fixture(params=ENGINES)
def engine(request) -> str:
    return request.param


def scorer_of(autoencoder: Autoencoder, engine: str, networks: int = 2) -> DrawScorer:
    """Networks with fresh weights."""
    values = fresh_weights(autoencoder, streams(0, networks), np.dtype(np.float32))
    return ENGINES[engine](autoencoder).scorer(networks, values, None, None)


def random_rows(*shape: int) -> np.ndarray:
    return RNG.random(shape, dtype=np.float32)


def sizes(blocks) -> list[tuple[int, ...]]:
    return [block.layer.out_shape for block in blocks]


def test_the_dense_network_is_the_one_of_the_paper():
    network = Dense().build((21,))
    assert sizes(network.encoder) == [(84,), (84,), (10,)]
    assert sizes(network.decoder) == [(84,), (84,), (21,)]


@pytest.mark.parametrize(
    ("shape", "encoder", "decoder"),
    [
        ((60, 1), [(10, 27), (20, 14), (1000,), (30,)], [(1000,), (280,), (10, 27), (1, 60)]),
        ((562, 1), [(10, 278), (20, 139), (1000,), (281,)], [(1000,), (2780,), (10, 278), (1, 562)]),
        ((562, 3), [(10, 278), (20, 139), (1000,), (843,)], [(1000,), (2780,), (10, 278), (3, 562)]),
    ],
)
def test_the_convolutional_network_has_the_sizes_of_the_authors(shape, encoder, decoder):
    network = Conv1d().build(shape)
    assert sizes(network.encoder) == encoder
    assert sizes(network.decoder) == decoder


@pytest.mark.parametrize("kernels_strides", [((8, 2), (2, 2)), ((5, 3), (3, 2)), ((4, 4), (1, 5)), ((3, 7), (4, 3))])
@pytest.mark.parametrize("sensors", [1, 2, 5])
def test_a_window_of_any_length_comes_back_in_its_own_shape(kernels_strides, sensors, engine):
    kernels, strides = kernels_strides
    architecture = Conv1d(kernels=kernels, strides=strides, linear=(6,), latent=3)
    for length in range(architecture.shortest_side(), architecture.shortest_side() + 40):
        autoencoder = Autoencoder(architecture.build((length, sensors)), GaussianLikelihood())
        rows = np.zeros((3, length, sensors), np.float32)
        assert scorer_of(autoencoder, engine).reconstruction(rows).shape == (2, 3, length, sensors)


@pytest.mark.parametrize("length", range(1, 9))
def test_a_window_that_is_too_short_is_an_error_that_names_the_shortest(length):
    with pytest.raises(ShapeError, match=r"too short.*at least 9 samples"):
        Conv1d().build((length, 1))


@pytest.mark.parametrize("kernels_strides", [((3, 3), (2, 2)), ((5, 3), (3, 2)), ((4, 2), (1, 5)), ((2, 3), (4, 3))])
@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_of_any_size_comes_back_in_its_own_shape(kernels_strides, channels, engine):
    kernels, strides = kernels_strides
    architecture = Conv2d(channels=(2, 3), kernels=kernels, strides=strides, latent=3)
    first = architecture.shortest_side()
    for height in range(first, first + 8):
        for width in (first, first + 1, first + 2, first + 5, 2 * first + 7):
            autoencoder = Autoencoder(architecture.build((height, width, channels)), GaussianLikelihood())
            rows = np.zeros((3, height, width, channels), np.float32)
            assert scorer_of(autoencoder, engine).reconstruction(rows).shape == (2, *rows.shape)


def test_every_pixel_is_seen_by_the_first_convolution(engine):
    architecture = Conv2d(channels=(2, 3), latent=9, skips=False, activation="tanh")
    for height, width in [(6, 6), (7, 9), (10, 8), (9, 7)]:
        autoencoder = Autoencoder(architecture.build((height, width, 1)), GaussianLikelihood())
        scorer = scorer_of(autoencoder, engine)
        rows = np.zeros((1 + height * width, height, width, 1), np.float32)
        rows[1:].reshape(height * width, -1)[:] = np.eye(height * width)
        nothing, *one_pixel = scorer.reconstruction(rows)[0]
        assert not any(np.array_equal(nothing, found) for found in one_pixel)


def test_an_image_that_is_too_small_is_an_error_that_names_the_smallest():
    Conv2d().build((6, 6, 1))
    for shape in [(5, 9, 1), (9, 5, 1), (1, 1, 1)]:
        with pytest.raises(ShapeError, match=r"too small.*at least 6 pixels a side"):
            Conv2d().build(shape)


@pytest.mark.parametrize("shape", [(12,), (8, 8), (8, 8, 1, 1)])
def test_conv2d_refuses_what_is_no_image_and_says_how_to_make_one(shape):
    with pytest.raises(ShapeError, match=r"needs images.*images\[\.\.\., None\]"):
        Conv2d().build(shape)


def test_an_image_that_is_one_pixel_high_is_a_window(engine):
    # The two networks have as many weights, in the same order: the same function of the same numbers.
    one = {
        "channels": (3, 4),
        "kernels": (1, 1),
        "strides": (2, 1),
        "linear": (5,),
        "latent": 4,
        "bias": True,
        "skips": True,
    }
    rows = random_rows(6, 9, 2)
    across = scorer_of(Autoencoder(Conv1d(**one).build((9, 2)), GaussianLikelihood()), engine)
    flat = scorer_of(Autoencoder(Conv2d(**one).build((1, 9, 2)), GaussianLikelihood()), engine)
    np.testing.assert_allclose(flat.nll(rows[:, None]), across.nll(rows), rtol=1e-6)


def test_every_sample_is_seen_by_the_first_convolution(engine):
    # Changing the last sample must change the code, and with it what is made of it, whatever the length: nothing is
    # cut off.
    for length in range(9, 40):
        autoencoder = Autoencoder(Conv1d(linear=(6,), latent=4, skips=False).build((length, 1)), GaussianLikelihood())
        scorer = scorer_of(autoencoder, engine)
        rows = np.zeros((1, length, 1), np.float32)
        changed = rows.copy()
        changed[0, -1] = 1.0
        assert not np.array_equal(scorer.reconstruction(rows), scorer.reconstruction(changed))


def test_convolutions_refuse_tables_and_dense_takes_windows(engine):
    with pytest.raises(ShapeError, match="needs windows"):
        Conv1d().build((12,))
    autoencoder = Autoencoder(Dense().build((6, 2)), GaussianLikelihood())
    assert scorer_of(autoencoder, engine).reconstruction(random_rows(3, 6, 2)).shape == (2, 3, 6, 2)


def test_a_coalition_refuses_tables():
    with pytest.raises(ShapeError, match=r"Coalition needs windows .* got rows of 12 features\. Use Dense"):
        Coalition().build((12,))


def test_the_networks_of_a_coalition_begin_differently():
    network = Coalition(network=Dense(widths=(7,))).build((9, 2))
    first, second = (network.initial(stream(0, 0, 0))[f"sensor.{k}.encoder.0.weight"] for k in range(2))
    assert first.shape == second.shape == (9, 7)
    assert not np.array_equal(first, second)


def test_widths_can_be_given_in_units():
    network = Dense(widths=(7, 5), latent=2).build((4,))
    assert sizes(network.encoder) == [(7,), (5,), (2,)]


ACTIVATIONS = {
    "leaky_relu": nn.LeakyReLU(0.2),
    "relu": nn.ReLU(),
    "elu": nn.ELU(),
    "selu": nn.SELU(),
    "gelu": nn.GELU(),
    "tanh": nn.Tanh(),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_activation_is_the_one_of_torch(activation, engine):
    architecture = Dense(activation=activation, slope=0.2, widths=(3,), skips=False, last_activation="none")
    autoencoder, active = Autoencoder(architecture.build((4,)), GaussianLikelihood()), ACTIVATIONS[activation]
    values = 4 * fresh_weights(autoencoder, streams(0, 1), np.dtype(np.float32))
    weights = {name: torch.from_numpy(weight[0]) for name, weight in autoencoder.named(values).items()}
    rows = random_rows(5, 4) - np.float32(0.5)
    expected = torch.from_numpy(rows)
    for name, weight in weights.items():
        expected = expected @ weight if name == "decoder.1.weight" else active(expected @ weight)
    found = ENGINES[engine](autoencoder).scorer(1, values, None, None).reconstruction(rows)
    np.testing.assert_allclose(found[0], expected, rtol=1.3e-6, atol=1e-5)


def test_the_last_activation_can_be_left_out(engine):
    with_sigmoid, without = (
        Autoencoder(Dense(last_activation=last).build((4,)), GaussianLikelihood()) for last in ("sigmoid", "none")
    )
    rows = random_rows(5, 4)
    expected = 1 / (1 + np.exp(-scorer_of(without, engine).reconstruction(rows)))
    np.testing.assert_allclose(scorer_of(with_sigmoid, engine).reconstruction(rows), expected, rtol=1.3e-6, atol=1e-5)


@pytest.mark.parametrize("architecture", [Dense(layer_norm=True, bias=True), Conv1d(linear=(5,), bias=True)], ids=str)
def test_the_shapes_are_those_of_fresh_weights_in_the_same_order(architecture):
    shape = (4,) if isinstance(architecture, Dense) else (20, 2)
    network = architecture.build(shape, code_noise=True, output_noise=False)
    autoencoder = Autoencoder(network, GaussianLikelihood(noise="per_feature"))
    initial = autoencoder.initial(streams(0, 1)[0])
    assert [(name, weight.shape) for name, weight in initial.items()] == list(autoencoder.shapes().items())
    assert all(weight.dtype == np.float32 for weight in initial.values())
    assert autoencoder.weight_count() == sum(weight.size for weight in initial.values())


def test_weights_in_one_array_are_the_weights_by_name_and_back():
    autoencoder = Autoencoder(Dense(bias=True).build((4,)), GaussianLikelihood())
    flat = fresh_weights(autoencoder, streams(0, 3), np.dtype(np.float32))
    named = autoencoder.named(flat)
    assert autoencoder.flat(named) is flat  # views, so that nothing is in memory twice
    turned = {name: named[name].copy() for name in sorted(named, reverse=True)}
    odd = {name: np.asfortranarray(weight) for name, weight in named.items()}
    assert all(autoencoder.flat(given).flags.c_contiguous for given in (turned, odd))
    np.testing.assert_array_equal(autoencoder.flat(odd), flat)
    np.testing.assert_array_equal(autoencoder.flat(turned), flat)
    np.testing.assert_array_equal(
        autoencoder.flat(named | {"encoder.0.bias": turned["encoder.0.bias"] + 1})[:, 64:80], flat[:, 64:80] + 1
    )
    np.testing.assert_array_equal(autoencoder.flat({name: weight[1:2] for name, weight in named.items()}), flat[1:2])


def test_unequal_numbers_of_convolution_settings_are_an_error():
    with pytest.raises(ConfigError, match="of one length"):
        Conv1d(channels=(10, 20, 30))


class Recurrent(nn.Module):
    def __init__(self, sensors: int) -> None:
        super().__init__()
        self.gru = nn.GRU(sensors, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gru(x)[0]


def test_modules_that_cannot_be_stacked_run_one_by_one_with_a_warning():
    own = OwnNetwork(encoder=lambda shape: Recurrent(shape[1]), decoder=lambda shape: nn.Linear(4, shape[1]))
    with pytest.warns(PerformanceWarning, match="one after the other"):
        autoencoder = Autoencoder(own.build((6, 2)), GaussianLikelihood())
    values, rows = fresh_weights(autoencoder, streams(0, 3), np.dtype(np.float32)), random_rows(5, 6, 2)
    together = TorchEngine(autoencoder).scorer(3, values, None, None).nll(rows)
    alone = [TorchEngine(autoencoder).scorer(1, one[None], None, None).nll(rows) for one in values]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1.3e-6, atol=1e-5)
    assert not np.array_equal(together[0], together[1])


def test_own_modules_give_what_they_give_alone():
    encoder = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    decoder = nn.Linear(3, 4)
    own = OwnNetwork(
        encoder=lambda shape: nn.Sequential(nn.Linear(4, 3), nn.ReLU()), decoder=lambda shape: nn.Linear(3, 4)
    )
    autoencoder = Autoencoder(own.build((4,)), GaussianLikelihood())
    state = {f"encoder.{name.replace('0.', '0.layer.')}": p for name, p in encoder.named_parameters()}
    state |= {f"decoder.layer.{name}": p for name, p in decoder.named_parameters()}
    rows = random_rows(5, 4)
    twice = autoencoder.flat({name: torch.stack([p, p]).detach().numpy() for name, p in state.items()})
    assert {name: tuple(p.shape) for name, p in state.items()} == autoencoder.shapes()
    expected = decoder(encoder(torch.from_numpy(rows))).detach()
    found = TorchEngine(autoencoder).scorer(2, twice, None, None).reconstruction(rows)
    np.testing.assert_allclose(found[1], expected, rtol=1.3e-6, atol=1e-5)


@pytest.mark.parametrize("bare", ["encoder", "decoder"])
@pytest.mark.parametrize(
    "posterior", [Deterministic(), AnchoredEnsemble(members=3), VAE(draws=4), BayesByBackprop(draws=4)]
)
def test_a_part_of_an_own_network_may_have_no_parameters(posterior, bare):
    parts = {"encoder": lambda _: nn.Linear(3, 3), "decoder": lambda _: nn.Linear(3, 3), bare: lambda _: nn.Identity()}
    own = OwnNetwork(**parts)
    rows = random_rows(40, 3)
    detector = Detector(posterior=posterior, architecture=own, training=Training(epochs=2))
    nll = detector.fit(rows).nll(rows)
    assert nll.shape[1] == 40
    assert np.isfinite(nll).all()
    assert len(np.unique(nll[:, 0])) == len(nll)  # draws of their own


WITHOUT_TORCH = """
import sys


class WithoutTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, WithoutTorch())
from indubio import Detector, OwnNetwork
from indubio.errors import MissingExtraError
own = OwnNetwork(encoder=lambda shape: None, decoder=lambda shape: None)
for needs in (lambda: own.build((4,)), Detector(device="cuda").settings_in_use):
    try:
        needs()
    except MissingExtraError as error:
        assert "indubio[torch]" in str(error)
    else:
        raise AssertionError("that needs torch")
"""


def test_what_needs_torch_says_so_where_it_is_missing():
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=True)


def test_batch_normalisation_is_refused_since_a_draw_is_a_function_of_one_example():
    own = OwnNetwork(
        encoder=lambda shape: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), decoder=lambda shape: nn.Linear(3, 4)
    )
    with pytest.raises(ConfigError, match="BatchNorm1d"):
        own.build((4,))


def test_own_modules_that_change_the_shape_are_refused():
    own = OwnNetwork(encoder=lambda shape: nn.Linear(4, 3), decoder=lambda shape: nn.Linear(3, 5))
    with pytest.raises(ShapeError, match="must keep the shape"):
        own.build((4,))


def test_a_factory_that_gives_no_module_is_refused():
    with pytest.raises(ConfigError, match=r"torch\.nn\.Module"):
        OwnNetwork(encoder=lambda shape: 3, decoder=lambda shape: nn.Linear(3, 4)).build((4,))


@pytest.mark.parametrize(
    ("kernels", "strides"), [((8, 2), (2, 2)), ((5, 3), (3, 2)), ((4, 4), (1, 5)), ((3, 7), (4, 3)), ((1, 1), (1, 1))]
)
def test_the_shortest_window_is_the_first_that_can_be_built(kernels, strides):
    architecture = Conv1d(kernels=kernels, strides=strides)
    first = architecture.shortest_side()
    architecture.build((first, 1))
    for length in range(1, first):
        with pytest.raises(ShapeError):
            architecture.build((length, 1))


def test_the_shortest_window_of_a_deep_network_is_known_at_once():
    deep = Conv1d(channels=(2,) * 6, kernels=(8,) * 6, strides=(60,) * 6)
    with pytest.raises(ShapeError, match="too short"):
        deep.build((100, 1))
