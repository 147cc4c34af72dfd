"""Shapes and errors of the networks."""

import pytest
import torch
from torch import nn

from indubio.autoencoders import Autoencoder, Conv1d, Dense, GaussianLikelihood, OwnNetwork
from indubio.errors import ConfigError, PerformanceWarning, ShapeError


def stacked(autoencoder: Autoencoder, networks: int = 2) -> dict[str, torch.Tensor]:
    each = [autoencoder.initial(torch.Generator().manual_seed(seed)) for seed in range(networks)]
    return {name: torch.stack([one[name] for one in each]) for name in each[0]}


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
def test_a_window_of_any_length_comes_back_in_its_own_shape(kernels_strides, sensors):
    kernels, strides = kernels_strides
    architecture = Conv1d(kernels=kernels, strides=strides, linear=(6,), latent=3)
    for length in range(architecture.shortest_window(), architecture.shortest_window() + 40):
        autoencoder = Autoencoder(architecture.build((length, sensors)), GaussianLikelihood())
        rows = torch.zeros(1, 3, length, sensors)
        assert autoencoder.reconstruct(stacked(autoencoder), rows).location.shape == (2, 3, length, sensors)


@pytest.mark.parametrize("length", range(1, 9))
def test_a_window_that_is_too_short_is_an_error_that_names_the_shortest(length):
    with pytest.raises(ShapeError, match=r"too short.*at least 9 samples"):
        Conv1d().build((length, 1))


def test_every_sample_is_seen_by_the_first_convolution():
    # Changing the last sample must change the code, whatever the length: nothing is cut off.
    for length in range(9, 40):
        autoencoder = Autoencoder(Conv1d(linear=(6,), latent=4, skips=False).build((length, 1)), GaussianLikelihood())
        weights = stacked(autoencoder)
        rows = torch.zeros(1, 1, length, 1)
        changed = rows.clone()
        changed[0, 0, -1] = 1.0
        first, second = (autoencoder.network.encode(weights, x, None).latent for x in (rows, changed))
        assert not torch.equal(first, second)


def test_convolutions_refuse_tables_and_dense_takes_windows():
    with pytest.raises(ShapeError, match="needs windows"):
        Conv1d().build((12,))
    autoencoder = Autoencoder(Dense().build((6, 2)), GaussianLikelihood())
    assert autoencoder.reconstruct(stacked(autoencoder), torch.zeros(1, 3, 6, 2)).location.shape == (2, 3, 6, 2)


def test_widths_can_be_given_in_units():
    network = Dense(widths=(7, 5), latent=2).build((4,))
    assert sizes(network.encoder) == [(7,), (5,), (2,)]


@pytest.mark.parametrize("activation", ["leaky_relu", "relu", "gelu", "tanh"])
def test_the_activation_is_the_one_of_torch(activation):
    reference = {"leaky_relu": nn.LeakyReLU(0.2), "relu": nn.ReLU(), "gelu": nn.GELU(), "tanh": nn.Tanh()}[activation]
    autoencoder = Autoencoder(Dense(activation=activation, slope=0.2, widths=(3,)).build((4,)), GaussianLikelihood())
    weights = stacked(autoencoder, 1)
    x = torch.rand(1, 5, 4)
    code = autoencoder.network.encode(weights, x, None).latent
    expected = reference(reference(x @ weights["encoder.0.weight"]) @ weights["encoder.1.weight"])
    torch.testing.assert_close(code, expected)


def test_the_last_activation_can_be_left_out():
    shape = (4,)
    with_sigmoid, without = (
        Autoencoder(Dense(last_activation=last).build(shape), GaussianLikelihood()) for last in ("sigmoid", "none")
    )
    weights, rows = stacked(without), torch.rand(1, 5, 4)
    expected = torch.sigmoid(without.reconstruct(weights, rows).location)
    torch.testing.assert_close(with_sigmoid.reconstruct(weights, rows).location, expected)


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
    weights, rows = stacked(autoencoder, 3), torch.rand(1, 5, 6, 2)
    together = autoencoder.nll(weights, rows)
    alone = [autoencoder.nll({name: w[i : i + 1] for name, w in weights.items()}, rows) for i in range(3)]
    torch.testing.assert_close(together, torch.cat(alone))
    assert not torch.equal(together[0], together[1])


def test_own_modules_give_what_they_give_alone():
    encoder = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    decoder = nn.Linear(3, 4)
    own = OwnNetwork(
        encoder=lambda shape: nn.Sequential(nn.Linear(4, 3), nn.ReLU()), decoder=lambda shape: nn.Linear(3, 4)
    )
    autoencoder = Autoencoder(own.build((4,)), GaussianLikelihood())
    state = {f"encoder.{name.replace('0.', '0.layer.')}": p for name, p in encoder.named_parameters()}
    state |= {f"decoder.layer.{name}": p for name, p in decoder.named_parameters()}
    rows = torch.rand(5, 4)
    stacked_twice = {name: torch.stack([p, p]) for name, p in state.items()}
    assert stacked_twice.keys() == autoencoder.initial(torch.Generator()).keys()
    expected = decoder(encoder(rows))
    torch.testing.assert_close(autoencoder.reconstruct(stacked_twice, rows[None]).location[1], expected)


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
    first = architecture.shortest_window()
    architecture.build((first, 1))
    for length in range(1, first):
        with pytest.raises(ShapeError):
            architecture.build((length, 1))


def test_the_shortest_window_of_a_deep_network_is_known_at_once():
    deep = Conv1d(channels=(2,) * 6, kernels=(8,) * 6, strides=(60,) * 6)
    with pytest.raises(ShapeError, match="too short"):
        deep.build((100, 1))
