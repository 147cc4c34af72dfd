"""Settings as plain data and back: strict, and helpful about what is wrong."""

import inspect
import json
import tomllib

import pytest
from torch import nn

from indubio import AnchoredEnsemble, Coalition, Conv1d, Dense, Detector, MCDropout, NoReferral, OwnNetwork, Training
from indubio.configuration import FAMILIES, PARAMETERS, detector_from_plain, detector_to_plain, from_plain, to_plain
from indubio.data import Long, Reading, Roles, Wide, Windowing
from indubio.errors import ConfigError
from indubio.judging import SCORES, Conversion, Ecdf, Gaussian
from indubio.networks import Architecture, EarlyStopping, GaussianLikelihood, RangeTest
from indubio.posteriors import Posterior
from indubio.prepare import MinMax
from indubio.settings import Settings

OWN = OwnNetwork(encoder=lambda shape: nn.Linear(shape[0], 1), decoder=lambda shape: nn.Linear(1, shape[0]))
NEEDED = {
    "threshold": {"threshold": 0.1},
    "at_most": {"count": 20},
    "cost": {"missed_anomaly": 10.0, "false_alarm": 1.0, "review": 0.3},
    "target_risk": {"alpha": 0.05},
    "long": {"time": "t", "tag": "name", "value": "v"},
}
EVERY = [
    pytest.param(family, settings(**NEEDED.get(kind, {})), id=f"{family}-{kind}")
    for family, choices in FAMILIES.items()
    for kind, settings in choices.items()
    if settings is not OwnNetwork
]
NESTED = [
    Training(),
    Training(learning_rate=RangeTest(use="triangular"), early_stopping=EarlyStopping(patience=3), batches=5),
    Windowing(length=20, step=5),
    Roles(ids=("serial",), categorical={"machine": ("A", "B"), "shift": None}, anomaly_values=("NOK", 2)),
    Roles(categorical=("machine",), label="defect"),
    Reading(table=Roles(label="y")),
    Reading(layout=Long(time="t", tag="name", value="v", sensors=("a", "b")), windowing=Windowing(length=3)),
    Reading(layout=Wide(time="t"), windowing=Windowing(length=3)),
]


def of_family(family, plain):
    """The settings of a family from plain data, where they stand in a configuration."""
    if family == "layout":
        return from_plain(Reading, {"layout": plain, "windowing": {"length": 3}}).layout
    return getattr(detector_from_plain({family: plain}), family)


def through_json(plain):
    return json.loads(json.dumps(plain, allow_nan=False))


# ----- there and back


@pytest.mark.parametrize(("family", "settings"), EVERY)
def test_settings_of_every_family_come_back_from_json(family, settings):
    plain = to_plain(settings)
    assert FAMILIES[family][plain["kind"]] is type(settings)
    assert of_family(family, through_json(plain)) == settings


@pytest.mark.parametrize("settings", NESTED, ids=lambda settings: type(settings).__name__)
def test_nested_settings_come_back_from_json(settings):
    plain = to_plain(settings)
    assert "kind" not in plain
    assert from_plain(type(settings), through_json(plain)) == settings


def test_plain_data_has_every_field_and_nothing_but_numbers_texts_and_lists():
    assert to_plain(AnchoredEnsemble(members=7)) == {"kind": "anchored_ensemble", "members": 7, "prior_scale": 1e-10}
    assert to_plain(Conv1d(channels=(3,), kernels=(2,), strides=(1,)))["channels"] == [3]
    assert to_plain(Training())["early_stopping"] is None


def test_no_field_is_called_kind():
    def below(settings):
        yield settings
        for inner in settings.__subclasses__():
            yield from below(inner)

    assert not any("kind" in settings.__dataclass_fields__ for settings in below(Settings))


def test_what_is_left_out_has_its_default():
    assert of_family("posterior", {"kind": "mc_dropout", "draws": 5}) == MCDropout(draws=5)
    assert from_plain(Training, {}) == Training()


def test_a_text_is_a_kind_with_its_defaults():
    assert of_family("conversion", "gaussian") == Gaussian()


def test_a_family_of_one_needs_no_kind():
    assert from_plain(MinMax, {"clip": True}) == from_plain(MinMax, {"kind": "min_max", "clip": True})


def test_a_base_class_stands_for_its_family():
    assert from_plain(Conversion, {"kind": "ecdf"}) == Ecdf()
    assert from_plain(Posterior, {"kind": "vae"}).count == 100


def test_whole_numbers_do_for_fractions():
    assert from_plain(Training, {"learning_rate": 1}).learning_rate == 1
    assert of_family("architecture", {"kind": "dense", "expansions": [4, 2]}).expansions == (4, 2)


def test_a_learning_rate_is_a_number_or_a_table():
    assert from_plain(Training, {"learning_rate": 0.1}).learning_rate == 0.1
    assert from_plain(Training, {"learning_rate": {"steps": 7}}).learning_rate == RangeTest(steps=7)
    assert from_plain(Training, {"learning_rate": {}}).learning_rate == RangeTest()


# ----- what is refused


@pytest.mark.parametrize(
    ("family", "plain", "message"),
    [
        ("posterior", {"kind": "anchored_ensemble", "membres": 3}, r'`posterior.membres` is no .* mean "members"\?'),
        ("posterior", {"kind": "vae", "qqq": 3}, r'`posterior.qqq` is no setting. There are "prior_scale", "draws"'),
        ("posterior", {"kind": "anchord_ensemble"}, r'`posterior.kind` must not be .* mean "anchored_ensemble"\?'),
        ("posterior", {"kind": 3}, "`posterior.kind` must not be 3"),
        ("posterior", {"members": 3}, '`posterior.kind` is missing: one of "deterministic"'),
        ("posterior", {"kind": "anchored_ensemble", "members": 0}, "`posterior.members` must be .* got 0"),
        ("posterior", {"kind": "anchored_ensemble", "members": "3"}, "`posterior.members` must be .* got '3'"),
        ("posterior", 3, "`posterior` must be a table of settings, got 3"),
        ("referral", {"kind": "threshold"}, "`referral.threshold` is missing"),
        ("architecture", {"kind": "own"}, r"pass `architecture=OwnNetwork\(...\)`"),
        ("architecture", {"kind": "conv1d", "channels": [1, 2, 3]}, "`architecture.channels`, .* of one length"),
        ("architecture", {"kind": "dense", "widths": "wide"}, "`architecture.widths` must be"),
        ("conversion", {"kind": "ecdf", "scaled": {"a": 1}}, "`conversion.scaled` must be"),
        ("postirior", {}, r'`postirior` is no setting. Did you mean "posterior"\?'),
        ("scaling", {"kind": "standard"}, "`scaling.kind` must not be 'standard'"),
        ("architecture", {"kind": "conv1d", "channels": [1, 0]}, "`architecture.channels.1` must be at least 1, got 0"),
        ("layout", {"kind": "wied"}, r'`layout.kind` must not be .* Did you mean "wide"\?'),
        ("layout", {"kind": "long", "time": "t", "tag": "n"}, "`layout.value` is missing"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_place_and_the_way_out(family, plain, message):
    with pytest.raises(ConfigError, match=message):
        of_family(family, plain)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"learning_rate": {"stepps": 3}}, r'`training.learning_rate.stepps` is no setting. Did you mean "steps"\?'),
        ({"learning_rate": {"steps": 0}}, "`training.learning_rate.steps` must be"),
        ({"learning_rate": {"lowest": 2, "highest": 1}}, "`training.learning_rate.lowest` must be below"),
        ({"early_stopping": True}, "`training.early_stopping` must be"),
        ({"kind": "training"}, "`training.kind` is no setting"),
        ("training", "`training` must be a table"),
    ],
)
def test_a_mistake_in_nested_settings_is_refused_with_its_place(plain, message):
    with pytest.raises(ConfigError, match=message):
        from_plain(Training, plain, "training")


def test_an_own_network_is_no_data():
    with pytest.raises(ConfigError, match=r"Python functions, .* `load\(path, architecture=OwnNetwork"):
        to_plain(OWN)


def test_settings_that_no_list_names_are_refused():
    class Mine(MCDropout):
        pass

    with pytest.raises(ConfigError, match="Mine is in none of the lists"):
        to_plain(Mine())


def test_a_coalition_says_which_network_each_sensor_has():
    plain = {"kind": "coalition", "network": {"kind": "dense", "widths": [5]}}
    assert from_plain(Architecture, plain) == Coalition(network=Dense(widths=(5,)))
    assert from_plain(Architecture, through_json(to_plain(Coalition()))) == Coalition(network=Conv1d(bias=True))


def test_a_coalition_is_made_of_networks_that_are_trained():
    with pytest.raises(ConfigError, match=r'`network\.kind` must not be \'attention\'. There are "dense", "conv1d"'):
        from_plain(Architecture, {"kind": "coalition", "network": {"kind": "attention"}})


# ----- the whole detector


FULL = Detector(
    posterior=MCDropout(draws=4),
    architecture=Conv1d(linear=(5,)),
    likelihood=GaussianLikelihood(noise="per_feature"),
    training=Training(epochs=3, learning_rate=RangeTest()),
    conversion=Gaussian(level="mean_of_cdf"),
    scaling=MinMax(clip=True),
    missing="refer",
    unseen="error",
    anomaly_threshold=0.25,
    referral=NoReferral(by="epistemic"),
    device="cpu",
    seed=3,
)


def test_every_parameter_of_the_detector_is_known():
    assert set(PARAMETERS) == set(inspect.signature(Detector).parameters)


SCORED = [Detector(anomaly_score=score) for score in ("nll", *SCORES)]


@pytest.mark.parametrize("detector", [Detector(), FULL, *SCORED], ids=["defaults", "everything set", "nll", *SCORES])
def test_a_detector_comes_back_from_json(detector):
    again = detector_from_plain(through_json(detector_to_plain(detector)))
    assert again.get_params(deep=False) == detector.get_params(deep=False)


def test_parts_that_are_none_are_left_out():
    assert detector_to_plain(Detector()).keys() == {"missing", "unseen", "anomaly_threshold", "device", "seed"}
    assert detector_from_plain({"posterior": None}).posterior is None


def test_a_detector_can_be_written_in_toml():
    text = """
        seed = 5
        posterior = { kind = "anchored_ensemble", members = 3 }
        conversion = "gaussian"
        [training]
        epochs = 7
        [training.learning_rate]
        use = "triangular"
    """
    detector = detector_from_plain(tomllib.loads(text))
    assert (detector.seed, detector.posterior) == (5, AnchoredEnsemble(members=3))
    assert detector.training == Training(epochs=7, learning_rate=RangeTest(use="triangular"))
    assert detector.conversion == Gaussian()


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"posteriors": {}}, r'`posteriors` is no setting. Did you mean "posterior"\?'),
        ({"posterior": {"kind": "vae", "drwas": 3}}, r'`posterior.drwas` is no setting. Did you mean "draws"\?'),
        ({"seed": "3"}, "`seed` must be"),
        ({"seed": -1}, "`seed` must be"),
        ({"anomaly_threshold": 1.5}, "`anomaly_threshold` must be"),
        ({"missing": "drop"}, "`missing` must be"),
        ({"device": 3}, "`device` must be"),
        ([], "must be a table"),
    ],
)
def test_a_mistake_in_a_detector_is_refused(plain, message):
    with pytest.raises(ConfigError, match=message):
        detector_from_plain(plain)


def test_a_detector_with_an_own_network_is_no_data():
    with pytest.raises(ConfigError, match="OwnNetwork"):
        detector_to_plain(Detector(architecture=OWN))
