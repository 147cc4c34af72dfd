"""The presets are the table of the paper's settings."""

import tomllib

import pytest

from indubio import Conv1d, Dense, Detector
from indubio.cli import written_toml
from indubio.configuration import detector_from_plain, detector_to_plain
from indubio.errors import ConfigError
from indubio.networks import RangeTest
from indubio_lab.collections import DATASETS
from indubio_lab.paper.presets import MODELS, preset


@pytest.mark.parametrize(
    ("collection", "task", "network", "norm", "skips"),
    [
        ("odds", "cardio", Dense, True, True),
        ("odds", None, Dense, True, True),
        ("zema", "pump", Conv1d, False, True),
        ("strath", "L_ACTpos", Conv1d, True, False),
        ("strath", "A_ACTspd", Conv1d, True, False),
        ("strath", "Feedback_SPA", Conv1d, True, True),
        ("strath", "all", Conv1d, True, True),
    ],
)
def test_norm_and_skips_are_those_of_the_text(collection, task, network, norm, skips):
    architecture = preset(collection, task).architecture
    assert type(architecture) is network
    assert (architecture.layer_norm, architecture.skips, architecture.bias) == (norm, skips, False)


def test_the_learning_rate_is_found_but_for_strath():
    assert isinstance(preset("odds").training.learning_rate, RangeTest)
    assert isinstance(preset("zema").training.learning_rate, RangeTest)
    assert preset("strath", "all").training.learning_rate == 0.001


def test_the_scripts_train_odds_for_longer_with_selu_and_without_norm():
    authors, text = preset("odds", protocol="authors"), preset("odds")
    assert (authors.architecture.activation, authors.architecture.layer_norm) == ("selu", False)
    assert (text.architecture.activation, text.architecture.layer_norm) == ("leaky_relu", True)
    assert (authors.training.epochs, text.training.epochs) == (300, 100)


def test_the_scripts_have_another_network_for_zema():
    authors, text = preset("zema", protocol="authors").architecture, preset("zema").architecture
    assert (authors.kernels, authors.linear) == ((5, 2), (250,))
    assert (text.kernels, text.linear) == ((8, 2), (1000,))
    assert (authors.channels, authors.strides, authors.activation) == (text.channels, text.strides, text.activation)


@pytest.mark.parametrize("protocol", ["text", "authors"])
@pytest.mark.parametrize("collection", ["odds", "zema"])
def test_where_the_text_is_silent_both_protocols_have_what_the_scripts_do(collection, protocol):
    training = preset(collection, protocol=protocol).training
    rates = training.learning_rate
    assert training.drop_last
    assert (rates.use, rates.smoothing, rates.restart, rates.epochs) == ("alternating", "gaussian_process", True, 10)
    heads = {name: preset(collection, protocol=protocol, model=name).architecture.code_heads for name in MODELS}
    assert heads == {name: "activated" if name == "VAE" else "linear" for name in MODELS}
    assert preset(collection, protocol=protocol).conversion.level == "mean_of_cdf"


def test_the_scripts_of_zema_leave_dropout_at_their_library_s_tenth():
    dropout = {
        (name, protocol): preset(name, "pump" if name == "zema" else None, protocol=protocol, model="BAE-MCD")
        for name in ("odds", "zema")
        for protocol in ("text", "authors")
    }
    assert {place: found.posterior.dropout for place, found in dropout.items()} == {
        ("odds", "text"): 0.01,
        ("odds", "authors"): 0.01,
        ("zema", "text"): 0.01,
        ("zema", "authors"): 0.1,
    }


def test_batches_are_a_third_for_odds_and_a_fifth_elsewhere():
    assert preset("odds").training.batch_rows(1324) == 441
    assert preset("zema").training.batch_rows(518) == 103


def test_the_paper_s_models_have_its_numbers_of_draws():
    counts = {name: model.count for name, model in MODELS.items()}
    assert [counts[name] for name in ("VAE", "BAE-MCD", "BAE-BBB", "BAE-Ensemble")] == [100, 100, 100, 10]


def test_every_task_has_a_preset_that_can_be_written_as_a_configuration():
    for name, collection in DATASETS.items():
        for task in collection.tasks:
            for protocol in ("text", "authors"):
                detector = preset(name, task, protocol=protocol)
                again = detector_from_plain(tomllib.loads(written_toml(detector_to_plain(detector))))
                assert isinstance(detector, Detector)
                assert again.get_params(deep=False) == detector.get_params(deep=False)


def test_a_preset_takes_a_model_of_the_paper():
    detector = preset("zema", "pump", model="BAE-MCD").set_params(seed=3)
    assert (detector.posterior.dropout, detector.seed, detector.training.batches) == (0.01, 3, 5)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ConfigError, match="odds, zema, strath"):
        preset("oods")
    with pytest.raises(ConfigError, match="cooler, valve"):
        preset("zema", "engine")
    with pytest.raises(ConfigError, match="`model` must be one of Deterministic AE"):
        preset("odds", model="AE")
    with pytest.raises(ConfigError, match="`task` must be one of L_ACTpos"):
        preset("strath")
