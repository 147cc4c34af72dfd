"""A loaded detector is the saved one: to the bit, for every kind of detector there is."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from torch import nn

from indubio import (
    Budget,
    Coalition,
    Conv1d,
    Conv2d,
    Dense,
    Detector,
    NoReferral,
    OwnNetwork,
    Training,
    UncertaintyThreshold,
    load,
    save,
)
from indubio.data import Reading, Roles, Table, Windowing, array_windows
from indubio.errors import ConfigError, DataError
from indubio.judging import CONVERSIONS, UNCERTAINTIES, Conversion
from indubio.networks import (
    Attention,
    BernoulliLikelihood,
    BetaLikelihood,
    ContinuousBernoulliLikelihood,
    EarlyStopping,
    GaussianLikelihood,
    LaplaceLikelihood,
    RangeTest,
    StudentLikelihood,
    TruncatedGaussianLikelihood,
)
from indubio.posteriors import POSTERIORS, Prototypes, TrainedPosterior
from indubio.prepare import MinMax
from tests.small_examples import skip_if_refused
from tests.stored_models import ROWS, TRAINED, assert_same, fitted, trained

SMALL = {
    "deterministic": {},
    "vae": {"draws": 4},
    "mc_dropout": {"draws": 4, "dropout": 0.3},
    "bayes_by_backprop": {"draws": 4},
    "anchored_ensemble": {"members": 3},
    "sghmc": {"draws": 4, "burn_in": 3, "thinning": 2},
    "cyclical_sgmcmc": {"draws": 4, "cycles": 2, "burn_in": 3, "thinning": 2, "step_size": 0.01},
    "swag": {"draws": 4, "members": 2, "collected": 3, "every": 2},
    "laplace": {"draws": 4},
    "parallel_tempering": {"draws": 4, "chains": 2, "burn_in": 4, "thinning": 3},
    "bayesian_vae": {"draws": 4, "burn_in": 3, "thinning": 2},
    "functional_prior": {"draws": 4, "burn_in": 3, "thinning": 2, "networks": 4, "directions": 5, "moves": 1},
    "random_features": {"draws": 4, "units": 30},
    "prototypes": {"draws": 4},
    "normal_wishart": {"draws": 4},
}
OWN = OwnNetwork(
    encoder=lambda shape: nn.Sequential(nn.Linear(shape[0], 6), nn.Tanh(), nn.Linear(6, 2)),
    decoder=lambda shape: nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, shape[0]), nn.Sigmoid()),
)
RNG = np.random.default_rng(1)
WINDOWS = np.sin(np.linspace(0, 6, 20))[None, :, None] + 0.1 * RNG.normal(size=(30, 20, 2)) * [1, 20]
PICTURES = np.linspace(0, 255, 56).reshape(7, 8, 1) + 20 * RNG.normal(size=(30, 7, 8, 2))
NETWORKS = {
    "dense": (Dense(layer_norm=True, bias=True), ROWS),
    "conv1d": (Conv1d(linear=(8,)), WINDOWS),
    "conv2d": (Conv2d(channels=(3, 4), latent=5), PICTURES),
    "coalition": (Coalition(network=Dense(widths=(8,))), WINDOWS),
    "own": (OWN, ROWS),
    "its own": (None, ROWS),
    "its own, of windows": (None, WINDOWS),
    "its own, of images": (None, PICTURES),
}
LIKELIHOODS = {
    "gaussian": GaussianLikelihood(),
    "gaussian, sigma per feature": GaussianLikelihood(noise="per_feature"),
    "gaussian, heteroscedastic": GaussianLikelihood(noise="per_example"),
    "laplace": LaplaceLikelihood(),
    "bernoulli": BernoulliLikelihood(),
    "student": StudentLikelihood(noise="per_feature"),
    "continuous bernoulli": ContinuousBernoulliLikelihood(),
    "truncated gaussian": TruncatedGaussianLikelihood(noise="fixed", scale=0.2),
    "beta": BetaLikelihood(noise="per_example", edge=0.01),
}
NOT_IN_CLOSED_FORM = [
    name for name, likelihood in LIKELIHOODS.items() if likelihood.output_noise or likelihood.unit_interval
]


@pytest.fixture(params=POSTERIORS)
def posterior(request) -> str:
    return request.param


@pytest.fixture(params=NETWORKS)
def network(request, posterior) -> str:
    skip_if_refused(POSTERIORS[posterior](), NETWORKS[request.param][0])
    return request.param


def check(posterior: str, network: str, likelihood: str, conversions: Iterable[str], folder: Path) -> None:
    architecture, examples = NETWORKS[network]
    only_its_own = posterior == "normal_wishart" and likelihood != "gaussian"
    if only_its_own or (not issubclass(POSTERIORS[posterior], TrainedPosterior) and likelihood in NOT_IN_CLOSED_FORM):
        pytest.skip("a posterior in closed form refuses it: see test_posteriors.py")
    detector = Detector(
        posterior=POSTERIORS[posterior](**SMALL[posterior]),
        architecture=architecture,
        likelihood=LIKELIHOODS[likelihood],
        training=Training(epochs=2, batch_size=16) if POSTERIORS[posterior].TRAINED else None,
        scaling=MinMax(clip=True),
    ).fit(examples)
    scores = detector.nll(examples)
    strange = np.concatenate([examples, examples * 1.7 - 0.3])
    for name in conversions:  # another conversion needs no other network
        detector = converted_by(detector, CONVERSIONS[name](), scores).refer_by(Budget(share=0.03))
        save(detector, folder / name)
        loaded = load(folder / name, architecture=OWN if network == "own" else None)
        assert_same(detector, loaded, strange)
        for share, by in product((0.0, 0.01, 0.03, 0.05, 0.2, 0.5, 1.0), UNCERTAINTIES):
            rule = Budget(share=share, by=by)
            assert loaded.refer_by(rule).referral_threshold_ == detector.refer_by(rule).referral_threshold_


def converted_by(detector: Detector, conversion: Conversion, scores: np.ndarray) -> Detector:
    """The same with another conversion, fitted on these scores."""
    fitted, chain = conversion.fit(scores), detector.chain_
    calibrated = replace(chain.calibrated, conversion=fitted)
    good = calibrated.quantified(fitted.probability(scores), scores)
    settings = Detector(**detector.get_params(deep=False) | {"conversion": conversion})
    return settings.of_chain(replace(chain, calibrated=calibrated, good=good))


def test_a_loaded_detector_says_the_same_to_the_bit_with_every_conversion(posterior, network, tmp_path):
    check(posterior, network, "gaussian", third_of_conversions(posterior, network), tmp_path)


def third_of_conversions(posterior: str, network: str) -> list[str]:
    """Every posterior and every network meets all conversions, in turn; the slow tests have all three together."""
    return list(CONVERSIONS)[(list(POSTERIORS).index(posterior) + list(NETWORKS).index(network)) % 3 :: 3]


def test_every_posterior_and_every_network_meets_every_conversion():
    pairs = [(posterior, network) for posterior in POSTERIORS for network in NETWORKS if accepts(posterior, network)]
    for place, names in enumerate((POSTERIORS, NETWORKS)):
        for name in names:
            met = [third_of_conversions(*pair) for pair in pairs if pair[place] == name]
            assert {conversion for some in met for conversion in some} == CONVERSIONS.keys(), name


def in_turn() -> Iterator[tuple[str, str, str]]:
    """Every posterior with every likelihood, and both with every network in turn."""
    for place, posterior in enumerate(POSTERIORS):
        networks = [name for name in NETWORKS if accepts(posterior, name)]
        for turn, likelihood in enumerate(LIKELIHOODS):
            yield posterior, networks[(place + turn) % len(networks)], likelihood


def accepts(posterior: str, network: str) -> bool:
    architecture = NETWORKS[network][0]
    try:
        if architecture is not None:
            POSTERIORS[posterior]().check_architecture(architecture)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(("posterior", "network", "likelihood"), list(in_turn()))
def test_a_loaded_detector_says_the_same_to_the_bit_with_every_likelihood(posterior, network, likelihood, tmp_path):
    check(posterior, network, likelihood, ["ecdf"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_every_conversion_goes_with_every_likelihood(posterior, network, likelihood, tmp_path):
    check(posterior, network, likelihood, CONVERSIONS, tmp_path)


def test_every_posterior_is_tried():
    assert SMALL.keys() == POSTERIORS.keys()


PARTS = pd.DataFrame(
    {
        "serial": [f"P{i:03}" for i in range(50)],
        "pressure": RNG.normal(10, 1, 50),
        "machine": RNG.choice(["A", "B", "ü|\n`"], 50),
        "flow": RNG.normal(5, 2, 50),
    }
)
NEW = PARTS.assign(
    pressure=PARTS["pressure"].where(PARTS.index % 7 != 0),
    machine=PARTS["machine"].where(PARTS.index % 5 != 0, "Z"),
)


def parted(frame: pd.DataFrame) -> Table:
    return Roles(ids=("serial",), categorical=("machine",)).part(pa.Table.from_pandas(frame, preserve_index=False))


@pytest.mark.parametrize("missing", ["median", "refer"])
def test_a_table_with_categories_and_gaps(missing, tmp_path):
    detector = Detector(missing=missing).fit(parted(PARTS))
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.schema_ == detector.schema_
    assert loaded.feature_names_in_.tolist() == detector.feature_names_in_.tolist()
    assert_same(detector, loaded, parted(NEW))


def test_a_frame_with_names_is_still_matched_by_name(tmp_path):
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    detector = Detector().fit(frame)
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_same(detector, loaded, frame)
    with pytest.raises(DataError, match="feature names"):
        loaded.assess(frame[["b", "a", "c"]])


@pytest.mark.parametrize("missing", ["error", "refer"])
def test_windows_of_named_sensors(missing, tmp_path):
    values = np.concatenate([WINDOWS[:20].reshape(-1, 2), np.full((40, 2), 1.0)])
    windows = array_windows(values, Windowing(length=20), sensors=("valve", "flow"))
    detector = Detector(**TRAINED | {"architecture": Conv1d(linear=(8,))}, missing=missing).fit(
        windows.select(range(20))
    )
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_same(detector, loaded, windows)
    assert any("frozen" in note for note in loaded.assess(windows).notes)


def test_a_dense_network_on_windows(tmp_path):
    detector = Detector().fit(WINDOWS)
    save(detector, tmp_path / "model")
    assert_same(detector, load(tmp_path / "model"), WINDOWS)


RULES = [NoReferral(by="epistemic"), UncertaintyThreshold(threshold=0.1), Budget(share=0.0333, by="exceed")]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_every_referral_rule(rule, tmp_path):
    detector = fitted(referral=rule)
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.referral == rule
    assert_same(detector, loaded, ROWS)
    assert loaded.refer_by(rule).referral_threshold_ == detector.referral_threshold_


def test_a_rule_that_was_fitted_on_other_examples(tmp_path):
    detector = fitted().refer_by(Budget(share=0.1), ROWS[:15] + 0.1)
    save(detector, tmp_path / "model")
    assert_same(detector, load(tmp_path / "model"), ROWS)


def test_training_settings_come_back(tmp_path):
    training = Training(epochs=3, learning_rate=RangeTest(steps=50), early_stopping=EarlyStopping(patience=2))
    detector = trained(training=training, seed=7, anomaly_threshold=0.75)
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert (loaded.training, loaded.seed, loaded.anomaly_threshold) == (training, 7, 0.75)
    assert_same(detector, loaded, ROWS)


def test_what_was_left_to_the_defaults_is_written_out_in_full(tmp_path):
    detector = Detector().fit(ROWS)
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.posterior == Prototypes()
    assert loaded.architecture == Attention(units=len(detector.draws_.weights["decoder.0.weight"][0]))
    assert loaded.scaling == MinMax()
    assert loaded.referral == Budget()
    assert_same(detector, loaded, ROWS)


def test_how_the_data_was_read_is_kept_with_the_model(tmp_path):
    detector = fitted().read_by(Reading(table=Roles(ids=("serial",), categorical={"machine": ("A", "B")})))
    save(detector, tmp_path / "model")
    assert load(tmp_path / "model").reading_ == detector.reading_


def test_a_loaded_detector_can_be_saved_again_and_is_the_same_model(tmp_path):
    save(fitted(), tmp_path / "one")
    loaded = load(tmp_path / "one")
    save(loaded, tmp_path / "two")
    assert {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()
    }


def test_a_loaded_detector_can_be_fitted_again_and_cloned(tmp_path):
    save(fitted(), tmp_path / "model")
    loaded = load(tmp_path / "model")
    again = clone(loaded).fit(ROWS)
    assert_same(again, loaded, ROWS)
