"""The engine on the compiled core: it trains and scores the built-in networks, with the same bits on every machine."""

import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from math import prod, sqrt
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from indubio.networks.autoencoder import Autoencoder
from indubio.networks.engine.objectives import Corruption, Dynamics, PointWeights, Variational
from indubio.networks.layers import Block, Convolution
from indubio.networks.likelihoods import (
    BernoulliLikelihood,
    BetaLikelihood,
    ContinuousBernoulliLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    Likelihood,
    StudentLikelihood,
    TruncatedGaussianLikelihood,
)
from indubio.networks.network import BlockNetwork
from indubio.numerics import (
    ACTIVATIONS,
    LAYER_FIELDS,
    Core,
    ScoreJob,
    Stream,
    TrainJob,
    address,
    core,
    precision,
    stream,
)

BETA1, BETA2 = 0.9, 0.999  # Adam's, torch's defaults
THREAD_PRODUCTS = 10**7  # rows x weights of an epoch, about 1 ms: below it, starting threads costs more than it brings
ROWS_AT_ONCE = 240  # when scoring: whole vectors, and layers that stay in the cache
ROOM = 2**26  # values, 256 MB: large images are scored fewer at a time

KINDS = {"linear": 0, "down": 1, "up": 2}
LIKELIHOODS: dict[type[Likelihood], int] = {
    GaussianLikelihood: 0,
    LaplaceLikelihood: 1,
    BernoulliLikelihood: 2,
    StudentLikelihood: 3,
    ContinuousBernoulliLikelihood: 4,
    TruncatedGaussianLikelihood: 5,
    BetaLikelihood: 6,
}
CODE_HEADS = {"linear": 1, "activated": 2, "frozen": 3}  # 0 is none
NOISES = {"unit": 0, "fixed": 0, "per_feature": 1, "per_example": 2}
POINT, VARIATIONAL, CHAIN = range(3)

Values = Float[np.ndarray, "..."]


def compiled_engine(autoencoder: Autoencoder) -> "CompiledEngine | None":
    """The core's engine for this autoencoder; None where torch must serve."""
    built_in = isinstance(autoencoder.network, BlockNetwork) and type(autoencoder.likelihood) in LIKELIHOODS
    if not built_in or autoencoder.device != "cpu":
        return None
    library = core()
    return None if library is None else CompiledEngine(library, autoencoder)


class CompiledEngine:
    """One autoencoder in the form that the core reads.

    Args:
        library: the core.
        autoencoder: of a built-in network.
    """

    by_network = True

    def __init__(self, library: Core, autoencoder: Autoencoder) -> None:
        network, likelihood = autoencoder.network, autoencoder.likelihood
        assert isinstance(network, BlockNetwork)  # `compiled_engine` asked
        self.core, self.name = library, f"compiled core, {library.instructions}"
        self.handle = library.network(
            _layers(network),
            _places(network),
            depth=len(network.encoder),
            code_head=0 if network.code_log_variance is None else CODE_HEADS[network.code_heads],
            output_head=network.output_log_variance is not None,
            likelihood=LIKELIHOODS[type(likelihood)],
            noise=NOISES[getattr(likelihood, "noise", "unit")],
            slope=network.slope,
            smallest_variance=likelihood.least_variance,
            number=_own_number(likelihood),
        )
        weakref.finalize(self, library.forget, self.handle)
        self.weights, self.units, self.latent, room = library.network_sizes(self.handle)
        self.rows_at_once = max(1, min(ROWS_AT_ONCE, ROOM // room))
        assert self.weights == autoencoder.weight_count()

    def trainer(
        self,
        objective: PointWeights | Variational,
        values: Float[np.ndarray, "networks p"],
        anchors: Float[np.ndarray, "networks p"] | None,
        streams: Sequence[Stream],
        *,
        batch: int,
        threads: int,
        corruption: Corruption | None = None,
    ) -> "CompiledTrainer":
        """What trains these networks on batches of so many rows, whole networks side by side on threads."""
        noise = _InputNoise(corruption, values.dtype)
        return CompiledTrainer(self, objective, values, anchors, streams, batch=batch, threads=threads, noise=noise)

    def sampler(
        self,
        chain: Dynamics,
        values: Float[np.ndarray, "1 p"],
        stream: Stream,
        *,
        batch: int,
        corruption: Corruption | None = None,
    ) -> "CompiledSampler":
        """A chain that starts at these weights."""
        return CompiledSampler(self, chain, values, stream, batch=batch, noise=_InputNoise(corruption, values.dtype))

    def gradient(self, values: Float[np.ndarray, "1 p"], rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "1 p"]:
        """Of the mean NLL of all rows: the first move of a chain without momentum and kicks."""
        still = Dynamics(prior_scale=0.0, step_size=-1.0, friction=1.0, spread=0.0)
        sampler = self.sampler(still, values, stream(0, 0, 0), batch=len(rows))
        sampler.steps(rows, np.arange(len(rows))[None])
        return sampler.momentum

    def scorer(
        self,
        count: int,
        values: Float[np.ndarray, "m p"],
        masks: Sequence[Float[np.ndarray, "draws _"]] | None,
        noise: Float[np.ndarray, "draws ..."] | None,
    ) -> "CompiledScorer":
        """What scores rows under these draws."""
        return CompiledScorer(self, count, values, masks, noise)

    def nll(self, values: Float[np.ndarray, "m p"], rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "m n"]:
        """NLL of every row under these weights, without noise."""
        return self.scorer(len(values), values, None, None).nll(rows)

    def flat(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n features"]:
        """The rows with all values of an example side by side, as the core reads them."""
        return np.ascontiguousarray(rows).reshape(len(rows), -1)


class _InputNoise:
    """A corruption in the form that the core reads."""

    def __init__(self, corruption: Corruption | None, dtype: np.dtype[Any]) -> None:
        self._scales = (0.0, 0.0) if corruption is None else (corruption.lowest, corruption.highest)
        factors = None if corruption is None else corruption.factors
        self._factors = None if factors is None else np.ascontiguousarray(factors.ravel(), dtype)

    def put_into(self, job: TrainJob) -> None:
        """Write the scales and factors into a job of the core."""
        job.lowest, job.highest = self._scales
        job.factors = address(self._factors)


class CompiledTrainer:
    """Networks in training, and Adam's memory of them."""

    def __init__(
        self,
        engine: CompiledEngine,
        objective: PointWeights | Variational,
        values: Float[np.ndarray, "networks p"],
        anchors: Float[np.ndarray, "networks p"] | None,
        streams: Sequence[Stream],
        *,
        batch: int,
        threads: int,
        noise: _InputNoise,
    ) -> None:
        self._engine, self._objective, self._batch, self._threads = engine, objective, batch, threads
        self._noise = noise
        self._values = np.array(values, order="C")
        self._anchors = None if anchors is None else np.ascontiguousarray(anchors, self._values.dtype)
        self._moments = np.zeros((len(values), 2, values.shape[1]), values.dtype)
        self._keys = [stream.key for stream in streams]
        self._steps, self._power1, self._power2 = 0, 1.0, 1.0

    def steps(
        self, rows: Float[np.ndarray, "n ..."], order: Int[np.ndarray, "networks ordered"], rates: Sequence[float]
    ) -> Float[np.ndarray, " networks"]:
        """One step for each rate, on the rows in this order; the sum of the steps' losses of each network."""
        flat = np.ascontiguousarray(self._engine.flat(rows), self._values.dtype)
        over, roots = self._corrected(rates)
        members = range(len(self._values))

        def trained(member: int) -> float:
            return self._steps_of(member, flat, np.ascontiguousarray(order[member]), over, roots)

        # A network is trained on one thread: the number of threads changes nothing but the time.
        if self._worth_threads(order):
            losses = list(self._pool.map(trained, members))
        else:
            losses = [trained(member) for member in members]
        self._steps += len(rates)
        return np.array(losses)

    def held_out_loss(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, " networks"]:
        """Mean NLL of each network, at the means where weights are random."""
        means = np.ascontiguousarray(self._values[:, : self._engine.weights])
        return mean_of_rows(self._engine.nll(means, rows.astype(means.dtype, copy=False)))

    def values(self) -> Float[np.ndarray, "networks p"]:
        """What is trained, as it is now."""
        return self._values

    def put(self, values: Float[np.ndarray, "networks p"]) -> None:
        """Go on training from these values; Adam keeps its memory."""
        self._values[...] = values

    def restart(self) -> None:
        """Let Adam forget the steps it has taken."""
        self._moments[...] = 0
        self._power1 = self._power2 = 1.0

    def _corrected(self, rates: Sequence[float]) -> tuple[Values, Values]:
        """Rates over Adam's first correction, and one over the root of its second; only exactly rounded operations."""
        over, roots = np.empty(len(rates)), np.empty(len(rates))
        for step, rate in enumerate(rates):
            self._power1 *= BETA1
            self._power2 *= BETA2
            over[step], roots[step] = rate / (1 - self._power1), 1 / sqrt(1 - self._power2)
        return over, roots

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads)  # its threads end when the trainer is gone

    def _worth_threads(self, order: Int[np.ndarray, "networks ordered"]) -> bool:
        products = order.size * self._values.shape[1]
        return self._threads > 1 and len(order) > 1 and products > THREAD_PRODUCTS

    def _steps_of(
        self, member: int, rows: Values, order: Int[np.ndarray, " ordered"], over: Values, roots: Values
    ) -> float:
        objective = self._objective
        job = TrainJob(
            values=address(self._values[member]),
            moments=address(self._moments[member]),
            anchors=None if self._anchors is None else address(self._anchors[member]),
            rows=address(rows),
            order=address(order),
            rates=address(over),
            roots=address(roots),
            weights=self._engine.weights,
            rows_count=len(rows),
            ordered=len(order),
            batch=self._batch,
            steps=len(over),
            keep=1.0,
            prior_scale=objective.prior_scale,
            key=self._keys[member],
            first_step=self._steps,
        )
        if isinstance(objective, Variational):
            job.objective, job.samples = VARIATIONAL, objective.samples
            job.mixture, job.wide, job.narrow = objective.mixture, objective.wide, objective.narrow
        else:
            job.objective, job.decay, job.keep = POINT, 2 * objective.prior_scale, 1 - objective.dropout
            job.kl_weight = objective.kl_weight or 0.0
        self._noise.put_into(job)
        self._engine.core.train(self._engine.handle, precision(rows.dtype), job)
        return float(job.loss)


class CompiledSampler:
    """A chain of weights, and its momentum."""

    def __init__(
        self,
        engine: CompiledEngine,
        chain: Dynamics,
        values: Float[np.ndarray, "1 p"],
        stream: Stream,
        *,
        batch: int,
        noise: _InputNoise,
    ) -> None:
        self._engine, self.chain, self._batch, self._noise = engine, chain, batch, noise
        self._values = np.array(values, order="C")
        self.momentum = np.zeros_like(self._values)
        self._key, self._steps = stream.key, 0

    def steps(self, rows: Float[np.ndarray, "n ..."], order: Int[np.ndarray, "1 ordered"]) -> float:
        """A move for each batch of the rows in this order; the last batch's loss."""
        chain, flat = self.chain, np.ascontiguousarray(self._engine.flat(rows), self._values.dtype)
        order = np.ascontiguousarray(order[0])
        steps = -(-len(order) // self._batch)
        decays, spreads = (
            np.full(self._engine.weights, each, self._values.dtype) for each in (2 * chain.prior_scale, chain.spread)
        )
        job = TrainJob(
            values=address(self._values),
            moments=address(self.momentum),
            rows=address(flat),
            decays=address(decays),
            spreads=address(spreads),
            order=address(order),
            objective=CHAIN,
            weights=self._engine.weights,
            rows_count=len(flat),
            ordered=len(order),
            batch=self._batch,
            steps=steps,
            keep=1.0,
            kl_weight=chain.kl_weight or 0.0,
            step_size=chain.step_size,
            friction=chain.friction,
            key=self._key,
            first_step=self._steps,
        )
        self._noise.put_into(job)
        self._engine.core.train(self._engine.handle, precision(flat.dtype), job)
        self._steps += steps
        return float(job.last_loss)

    def values(self) -> Float[np.ndarray, "1 p"]:
        """The weights that the chain has reached, as the live array."""
        return self._values


class CompiledScorer:
    """Draws in the form that the core reads."""

    def __init__(
        self,
        engine: CompiledEngine,
        count: int,
        values: Float[np.ndarray, "m p"],
        masks: Sequence[Float[np.ndarray, "draws _"]] | None,
        noise: Float[np.ndarray, "draws ..."] | None,
    ) -> None:
        self._engine, self._count = engine, count
        self._values = np.ascontiguousarray(values)
        dtype = self._values.dtype
        joined = None if masks is None else np.concatenate([mask.reshape(count, -1) for mask in masks], axis=1)
        self._masks = None if joined is None else np.ascontiguousarray(joined, dtype)
        self._noise = None if noise is None else np.ascontiguousarray(noise.reshape(count, -1), dtype)

    def nll(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "draws n"]:
        """Negative log-likelihood of every row under every draw."""
        out = self._room(rows)
        self._score(rows, nll=out)
        return out

    def nll_apart(
        self, rows: Float[np.ndarray, "n ..."]
    ) -> tuple[Float[np.ndarray, "draws n"], Float[np.ndarray, "draws n ..."]]:
        """The scores of `nll`, to the bit, and the score of every value, from one pass."""
        out, apart = self._room(rows), self._room(rows, *rows.shape[1:])
        self._score(rows, nll=out, apart=apart)
        return out, apart

    def reconstruction(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "draws n ..."]:
        """What every draw takes every row for."""
        out = self._room(rows, *rows.shape[1:])
        self._score(rows, reconstruction=out)
        return out

    def variance(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "draws n ..."]:
        """The squared scale that every draw's decoder gives for every value."""
        out = self._room(rows, *rows.shape[1:])
        self._score(rows, variance=out)
        return out

    def _room(self, rows: Values, *shape: int) -> Values:
        return np.empty((self._count, len(rows), *shape), self._values.dtype)

    def _score(self, rows: Values, **outputs: Values) -> None:
        flat = np.ascontiguousarray(self._engine.flat(rows), self._values.dtype)
        job = ScoreJob(
            values=address(self._values),
            masks=address(self._masks),
            noise=address(self._noise),
            rows=address(flat),
            weights=self._engine.weights,
            draws=self._count,
            shared=len(self._values) == 1,
            rows_count=len(flat),
            at_once=self._engine.rows_at_once,
        )
        for name, out in outputs.items():
            setattr(job, name, address(out))
        self._engine.core.score(self._engine.handle, precision(self._values.dtype), job)


def _own_number(likelihood: Likelihood) -> float:
    """What a likelihood has beside its scale, as native/network.h says."""
    match likelihood:
        case StudentLikelihood():
            return likelihood.freedom
        case BetaLikelihood():
            return likelihood.edge
        case _:
            return 0.0


def mean_of_rows(nll: Float[np.ndarray, "networks n"]) -> Float[np.ndarray, " networks"]:
    """The mean over the rows, added up in order: numpy's own sums depend on the processor."""
    return np.asarray(np.cumsum(nll, axis=1, dtype=np.float64)[:, -1] / nll.shape[1])


def _layers(network: BlockNetwork) -> Int[np.ndarray, "layers fields"]:
    """The layers, one row each, as native/network.h has them."""
    depth = len(network.encoder)
    chain = [*network.encoder, *network.decoder]
    heads = [head for head in (network.code_log_variance, network.output_log_variance) if head is not None]
    rows = []
    for place, block in enumerate([*chain, *heads]):
        last = place == len(chain) - 1
        skip = 2 * depth - 1 - place if network.skips and depth < place < len(chain) else -1
        rows.append(_fields(block, network.last_activation if last else block.activation, skip))
    return np.array([[row[name] for name in LAYER_FIELDS] for row in rows], np.int64)


def _fields(block: Block, activation: str, skip: int) -> dict[str, Any]:
    layer = block.layer
    common = {
        "bias": int(layer.bias),
        "norm": int(block.norm is not None),
        "activation": ACTIVATIONS[activation],
        "skip": skip,
    }
    if not isinstance(layer, Convolution):
        sizes = {"in_channels": layer.inputs, "in_length": 1, "out_channels": layer.outputs, "out_length": 1}
        return dict.fromkeys(LAYER_FIELDS, 0) | {"kind": KINDS["linear"]} | sizes | common
    (in_channels, *in_sides), (out_channels, *out_sides) = layer.in_shape, layer.out_shape
    return {
        "kind": KINDS["up" if layer.transposed else "down"],
        "in_channels": in_channels,
        "in_length": prod(in_sides),
        "out_channels": out_channels,
        "out_length": prod(out_sides),
        "kernel": layer.kernel[-1],
        "stride": layer.stride[-1],
        "padding": layer.padding[-1],
        **common,
        **_downwards(layer),
    }


def _downwards(layer: Convolution) -> dict[str, int]:
    """Sizes of a convolution from the top of an image to its bottom; a signal is 1 high."""
    if len(layer.kernel) == 1:
        return {"in_height": 1, "out_height": 1, "kernel_height": 1, "stride_height": 1, "padding_height": 0}
    return {
        "in_height": layer.in_shape[1],
        "out_height": layer.out_shape[1],
        "kernel_height": layer.kernel[0],
        "stride_height": layer.stride[0],
        "padding_height": layer.padding[0],
    }


def _places(network: BlockNetwork) -> Int[np.ndarray, " features"]:
    """Where the network's features are in a row: convolutions want those of a channel side by side."""
    order = np.arange(prod(network.input_shape))
    if not network.channels_last:
        return order
    return np.moveaxis(order.reshape(network.input_shape), -1, 0).ravel()
