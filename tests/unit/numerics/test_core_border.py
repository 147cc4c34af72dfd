"""What the core does with calls that make no sense: it says so, and touches nothing it was not given.

`make sanitize` runs these under AddressSanitizer and UndefinedBehaviorSanitizer, with many more examples.
"""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indubio.errors import ConfigError, EngineError
from indubio.networks import (
    Autoencoder,
    BetaLikelihood,
    ContinuousBernoulliLikelihood,
    Conv1d,
    Conv2d,
    Corruption,
    Dense,
    Dynamics,
    GaussianLikelihood,
    PointWeights,
    StudentLikelihood,
    TruncatedGaussianLikelihood,
    Variational,
)
from indubio.networks.engine.compiled import ACTIVATIONS, LIKELIHOODS, CompiledEngine, _layers, _places
from indubio.numerics import LAYER_FIELDS, Core, ScoreJob, TrainJob, address, core, streams
from tests.engines import CORE, instruction_sets

pytestmark = pytest.mark.skipif(CORE is None, reason="the core was not built: there is no compiler")

EXAMPLES = int(os.environ.get("INDUBIO_CORE_EXAMPLES", "60"))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DENSE = Dense(bias=True).build((5,), code_noise=True, output_noise=False)
CONV = Conv1d(channels=(3, 4), kernels=(4, 2), strides=(2, 2), linear=(9,)).build(
    (17, 2), code_noise=False, output_noise=False
)

IMAGES = Conv2d(channels=(3, 4), latent=3).build((7, 6, 2), code_noise=False, output_noise=False)


def built(network, layers, place, **changed):
    given = {
        "depth": len(network.encoder),
        "code_head": network.code_log_variance is not None,
        "output_head": False,
        "likelihood": 0,
        "noise": 0,
        "slope": 0.01,
        "smallest_variance": 0.0,
        "number": 1.0,
    }
    return CORE.network(layers, place, **(given | changed))


def train(handle: int, number: int, job: TrainJob) -> None:
    """Train, where the network can be trained at all."""
    try:
        CORE.train(handle, number, job)
    except EngineError as refused:
        if "cosines and softmax have no way back" not in str(refused):
            raise


def run(handle: int, features: int, *, code_head: bool) -> None:
    """Train and score a network with arrays of just the right sizes."""
    weights, units, latent, _ = CORE.network_sizes(handle)
    if weights > 10**6:
        return
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        number = int(dtype is np.float64)
        rows, order = rng.random((11, features)).astype(dtype), rng.permutation(11)
        values = (rng.normal(size=weights) * 0.1).astype(dtype)
        moments, rates = np.zeros((2, weights), dtype), np.full(3, 1e-3)
        common = {"rows": address(rows), "order": address(order), "weights": weights}
        common |= {"rows_count": 11, "ordered": 11, "batch": 4, "steps": 3}
        job = TrainJob(values=address(values), moments=address(moments), rates=address(rates), roots=address(rates))
        for name, value in common.items():
            setattr(job, name, value)
        job.keep = 0.5
        train(handle, number, job)
        factors = rng.random(features).astype(dtype)
        job.lowest, job.highest, job.factors = 0.1, 0.3, address(factors)
        train(handle, number, job)
        nll, apart = np.empty((2, 11), dtype), np.empty((2, 11, features), dtype)
        masks, noise = np.ones((2, units), dtype), np.zeros((2, latent), dtype)
        for at_once in (1, 4, 11, 112):
            score = ScoreJob(values=address(values), masks=address(masks), rows=address(rows), nll=address(nll))
            score.apart = score.reconstruction = address(apart)
            score.noise = address(noise) if code_head else None
            score.weights, score.draws, score.shared, score.rows_count, score.at_once = weights, 2, 1, 11, at_once
            CORE.score(handle, number, score)
            score.variance = address(apart)
            with pytest.raises(EngineError, match="the decoder gives no variance"):
                CORE.score(handle, number, score)


@pytest.mark.parametrize("network", [DENSE, CONV, IMAGES], ids=["dense", "conv1d", "conv2d"])
@many
@given(data=st.data())
def test_any_change_of_a_network_is_refused_or_runs(network, data):
    layers, place = _layers(network).copy(), _places(network).copy()
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.integers(0, len(layers) - 1))
        field = data.draw(st.integers(0, len(LAYER_FIELDS) - 1))
        odd = st.sampled_from([-(2**63), -1, 0, 2**31, 2**40, 2**62, 2**63 - 1])
        layers[row, field] = data.draw(st.integers(-2, 40) | odd)
    if data.draw(st.booleans()):
        place[data.draw(st.integers(0, len(place) - 1))] = data.draw(st.integers(-3, len(place) + 3))
    changed = {"depth": data.draw(st.integers(-1, len(layers) + 1))} if data.draw(st.booleans()) else {}
    code_head = network.code_log_variance is not None
    try:
        handle = built(network, layers, place, **changed)
    except EngineError:
        return
    try:
        run(handle, len(place), code_head=code_head)
    finally:
        CORE.forget(handle)


@pytest.mark.parametrize(
    "changed",
    [
        {"likelihood": -1},
        {"likelihood": len(LIKELIHOODS)},
        {"likelihood": LIKELIHOODS[StudentLikelihood], "number": 0.0},
        {"likelihood": LIKELIHOODS[ContinuousBernoulliLikelihood], "noise": 1},
        {"likelihood": LIKELIHOODS[TruncatedGaussianLikelihood], "smallest_variance": 0.0},
        {"likelihood": LIKELIHOODS[BetaLikelihood], "smallest_variance": 0.01, "number": 0.5},
        {"likelihood": LIKELIHOODS[BetaLikelihood], "smallest_variance": float("nan"), "number": 0.1},
    ],
    ids=str,
)
def test_a_likelihood_that_makes_no_sense_is_refused(changed):
    with pytest.raises(EngineError, match="unknown likelihood"):
        built(DENSE, _layers(DENSE), _places(DENSE), **changed)


WITH_A_SCALE = [(kind, noise) for kind in LIKELIHOODS for noise in (0, 1) if not noise or hasattr(kind, "noise")]


@pytest.mark.parametrize(("kind", "noise"), WITH_A_SCALE, ids=lambda one: getattr(one, "__name__", str(one)))
def test_every_likelihood_runs_in_arrays_of_just_the_right_sizes(kind, noise):
    given = {"likelihood": LIKELIHOODS[kind], "noise": noise, "smallest_variance": 0.01, "number": 0.1}
    handle = built(DENSE, _layers(DENSE), _places(DENSE), **given)
    try:
        run(handle, 5, code_head=True)
    finally:
        CORE.forget(handle)


@many
@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=5),
    activation=st.sampled_from(sorted(ACTIVATIONS.keys() - {"cosine", "softmax"})),
    norm=st.booleans(),
    bias=st.booleans(),
    skips=st.booleans(),
    examples=st.integers(1, 140),
    batch=st.integers(1, 150),
    objective=st.sampled_from(["point", "dropout", "variational", "chain"]),
    isa=st.integers(0, 3),
    noisy=st.booleans(),
)
def test_any_dense_network_trains_and_scores(
    sizes, activation, norm, bias, skips, examples, batch, objective, isa, noisy
):
    inputs, *widths = sizes
    activation = "leaky_relu" if activation in ("none", "sigmoid") else activation
    architecture = Dense(widths=tuple(widths), latent=3, activation=activation, layer_norm=norm, bias=bias, skips=skips)
    network = architecture.build((inputs,), code_noise=False, output_noise=False)
    autoencoder = Autoencoder(network, GaussianLikelihood())
    engine, own = CompiledEngine(CORE, autoencoder), streams(0, 1)
    before = CORE.instructions
    CORE.use(instruction_sets()[isa % len(instruction_sets())])
    values = autoencoder.flat({name: value[None] for name, value in autoencoder.initial(own[0]).items()})
    rows = np.random.default_rng(0).random((examples, inputs)).astype(np.float32)
    order = own[0].permutation(examples)[None]
    given = Corruption(lowest=0.1, highest=0.5, factors=np.linspace(0, 1, inputs)) if noisy else None
    if objective == "chain":
        chain = Dynamics(prior_scale=0, step_size=1e-3, friction=0.1, spread=1e-3)
        sampler = engine.sampler(chain, values, own[0], batch=batch, corruption=given)
        assert np.isfinite(sampler.steps(rows, order))
        trained = sampler.values()
    else:
        variational = Variational(prior_scale=1e-4, samples=2, mixture=0.5, wide=1.0, narrow=0.1)
        chosen = {
            "point": PointWeights(prior_scale=0.1),
            "dropout": PointWeights(prior_scale=0, dropout=0.3),
            "variational": variational,
        }[objective]
        start = np.concatenate([values, np.full_like(values, -3)], axis=1) if objective == "variational" else values
        trainer = engine.trainer(chosen, start, None, own, batch=batch, threads=1, corruption=given)
        assert np.isfinite(trainer.steps(rows, order, [1e-3] * -(-examples // batch))).all()
        trained = np.ascontiguousarray(trainer.values()[:, : values.shape[1]])
    assert np.isfinite(engine.nll(trained, rows)).all()
    CORE.use(before)


def dense_job(**changed) -> tuple[CompiledEngine, TrainJob, list[np.ndarray]]:
    autoencoder = Autoencoder(Dense().build((5,), code_noise=False, output_noise=False), GaussianLikelihood())
    engine = CompiledEngine(CORE, autoencoder)
    arrays = [np.zeros(engine.weights, np.float32), np.zeros(2 * engine.weights, np.float32)]
    arrays += [np.zeros((6, 5), np.float32), np.arange(6), np.ones(2), np.ones(2)]
    job = TrainJob(weights=engine.weights, rows_count=6, ordered=6, batch=3, steps=2, keep=1.0)
    for name, array in zip(("values", "moments", "rows", "order", "rates", "roots"), arrays, strict=True):
        setattr(job, name, address(array))
    for name, value in changed.items():
        setattr(job, name, value)
    return engine, job, arrays


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"weights": 7}, "not those of the network"),
        ({"batch": 0}, "fewer rows than steps"),
        ({"steps": 3}, "fewer rows than steps"),
        ({"steps": 2**62, "batch": 2**62}, "fewer rows than steps"),
        ({"rows_count": 5}, "order is of other rows"),
        ({"objective": 3}, "unknown objective"),
        ({"objective": 1, "samples": 0}, "unknown objective"),
        ({"rates": None}, "no rates"),
        ({"highest": 0.5}, "inputs has no scale"),
        ({"lowest": 0.5, "highest": 0.1}, "inputs has no scale"),
        ({"lowest": -0.5, "highest": -0.1}, "inputs has no scale"),
        ({"lowest": float("nan"), "highest": 0.1}, "inputs has no scale"),
        ({"lowest": 0.1, "highest": float("inf")}, "inputs has no scale"),
    ],
    ids=str,
)
def test_a_training_call_that_makes_no_sense_is_refused(changed, said):
    engine, job, _arrays = dense_job(**changed)
    with pytest.raises(EngineError, match=said):
        CORE.train(engine.handle, 0, job)


def test_a_network_of_more_weights_than_can_be_counted_is_refused():
    layers = _layers(CONV).copy()
    layers[2, LAYER_FIELDS.index("out_channels")] = layers[3, LAYER_FIELDS.index("in_channels")] = 2**38
    with pytest.raises(EngineError, match="too large"):
        built(CONV, layers, _places(CONV))


def test_an_instruction_set_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match=f'no instruction set "sse9": it has .*{instruction_sets()[-1]}'):
        CORE.use("sse9")
    assert CORE.instructions in instruction_sets()


def test_a_library_of_other_sources_is_refused(monkeypatch):
    monkeypatch.setattr("indubio.numerics.compiled_core.LAYER_FIELDS", LAYER_FIELDS[:-1])
    with pytest.raises(EngineError, match="Build it again"):
        Core(CORE.path)


def test_a_library_that_is_named_and_not_there_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("INDUBIO_CORE", str(tmp_path / "none.so"))
    core.cache_clear()
    try:
        with pytest.raises(ConfigError, match="INDUBIO_CORE names no file"):
            core()
    finally:
        core.cache_clear()
