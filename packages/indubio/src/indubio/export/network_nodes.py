"""The stacked network as ONNX nodes: the same blocks, in the same order, with the draws' weights as constants."""

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
from onnx import TensorProto

from indubio.errors import ConfigError
from indubio.export.graph import Graph
from indubio.export.linear_views_nodes import views_nll
from indubio.networks import (
    LOG_VARIANCE,
    Autoencoder,
    BernoulliLikelihood,
    BetaLikelihood,
    Block,
    BlockNetwork,
    BoundedLikelihood,
    CoalitionNetwork,
    ContinuousBernoulliLikelihood,
    Convolution,
    GaussianLikelihood,
    LaplaceLikelihood,
    LayerNorm,
    Linear,
    LinearViewsNetwork,
    NoisyLikelihood,
    StudentLikelihood,
    TruncatedGaussianLikelihood,
)
from indubio.posteriors import Draws

# Bernoulli's numbers B_2k / (2k (2k - 1)), of Stirling's series of log Gamma
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def nll_nodes(graph: Graph, draws: Draws, rows: str) -> str:
    """Scores (draws, examples) of scaled float32 rows (examples, ...): of a coalition, the mean over the sensors."""
    network = draws.autoencoder.network
    if isinstance(network, LinearViewsNetwork):
        return views_nll(graph, draws, network, rows)
    if not isinstance(network, CoalitionNetwork):
        return NetworkNodes(graph, draws).nll(rows)
    each = [
        NetworkNodes(graph, _sensor_draws(draws, network, sensor)).nll(
            graph.add("Gather", rows, graph.constant([sensor], np.int64), axis=2)
        )
        for sensor in range(network.sensors)
    ]
    return graph.add("Mean", *each)


def _sensor_draws(draws: Draws, network: CoalitionNetwork, sensor: int) -> Draws:
    return Draws(
        replace(draws.autoencoder, network=network.inner),
        draws.count,
        network.weights_of(sensor, draws.weights),
        masks=None if draws.masks is None else network.masks_of(sensor, draws.masks),
        noise=None if draws.noise is None else network.noise_of(sensor, draws.noise),
    )


class NetworkNodes:
    """Adds the network and likelihood of some draws to a graph."""

    def __init__(self, graph: Graph, draws: Draws) -> None:
        network = draws.autoencoder.network
        if not isinstance(network, BlockNetwork):
            raise ConfigError(
                "only built-in networks (Dense, Conv1d, Conv2d, Coalition) can be exported, not a user's own modules."
            )
        self._graph, self._draws, self._network = graph, draws, network
        self._weights = draws.weights

    def nll(self, rows: str) -> str:
        """Scores (draws, examples) of scaled float32 rows (examples, ...)."""
        graph = self._graph
        x = graph.add("Unsqueeze", rows, graph.constant([0], np.int64))
        location, log_variance = self._decode(*self._encode(x))
        per_value = self._likelihood(self._draws.autoencoder, x, location, log_variance)
        axes = range(2, 2 + len(self._network.input_shape))
        return self._for_every_draw(graph.mean(per_value, list(axes)))

    def _for_every_draw(self, nll: str) -> str:
        """One row of scores per draw, also where one network serves all."""
        count = self._draws.count
        return self._graph.add("Expand", nll, self._graph.constant([count, 1], np.int64))

    def _encode(self, x: str) -> tuple[str, list[str]]:
        graph, network = self._graph, self._network
        if network.channels_last:
            x = graph.add(
                "Transpose", x, perm=[0, 1, len(network.input_shape) + 1, *range(2, len(network.input_shape) + 1)]
            )
        outputs, members = [], 1
        for place, block in enumerate(network.encoder):
            x = graph.reshape(x, [0, 0, *block.layer.in_shape])
            code = x
            x, members = self._block(block, x, members)
            x, members = self._masked(x, place, members, len(block.layer.out_shape))
            outputs.append((x, members))
        if network.code_log_variance and self._draws.noise is not None:
            log_variance, _ = self._block(network.code_log_variance, code, members)
            if network.code_heads == "linear":
                sigma = graph.add("Exp", graph.add("Mul", log_variance, graph.constant(0.5, np.float32)))
            else:
                sigma = graph.add("Softplus", log_variance)
            x = graph.add("Add", x, graph.add("Mul", sigma, self._graph.constant(self._draws.noise)))
            members = self._draws.count
        self._members = members
        skips = outputs[:-1] if network.skips else []
        self._skip_members = [m for _, m in skips]
        return x, [name for name, _ in skips]

    def _decode(self, x: str, skips: list[str]) -> tuple[str, str | None]:
        graph, network, members = self._graph, self._network, self._members
        log_variance = None
        for place, block in enumerate(network.decoder):
            x = graph.reshape(x, [0, 0, *block.layer.in_shape])
            if place and skips:
                x = graph.add("Add", x, graph.reshape(skips[-place], [0, 0, *block.layer.in_shape]))
                members = max(members, self._skip_members[-place])
            if block is network.decoder[-1] and network.output_log_variance:
                log_variance = self._as_input(self._block(network.output_log_variance, x, members)[0])
            x, members = self._block(block, x, members)
            if block is not network.decoder[-1]:
                x, members = self._masked(x, len(network.encoder) + place, members, len(block.layer.out_shape))
        x = self._as_input(x)
        return graph.add("Sigmoid", x) if network.last_activation == "sigmoid" else x, log_variance

    def _as_input(self, x: str) -> str:
        if self._network.channels_last:
            axes = len(self._network.input_shape)
            return self._graph.add("Transpose", x, perm=[0, 1, *range(3, axes + 2), 2])
        return self._graph.reshape(x, [0, 0, *self._network.input_shape])

    def _masked(self, x: str, place: int, members: int, axes: int) -> tuple[str, int]:
        if self._draws.masks is None:
            return x, members
        mask = self._draws.masks[place]
        return self._graph.add("Mul", x, self._graph.constant(mask.reshape(*mask.shape, *[1] * (axes - 1)))), len(mask)

    def _block(self, block: Block, x: str, members: int) -> tuple[str, int]:
        layer = block.layer
        networks = len(self._weights[f"{layer.name}.weight"])
        x = self._linear(layer, x) if isinstance(layer, Linear) else self._convolution(layer, x, members, networks)
        if block.norm:
            x = self._norm(block.norm, x)
        return self._activated(x, block.activation), max(members, networks)

    def _linear(self, layer: Linear, x: str) -> str:
        out = self._graph.add("MatMul", x, self._graph.constant(self._weights[f"{layer.name}.weight"]))
        return self._biased(layer, out, 0)

    def _biased(self, layer: Linear | Convolution, x: str, extra_axes: int) -> str:
        bias = self._weights.get(f"{layer.name}.bias")
        if bias is None:
            return x
        return self._graph.add("Add", x, self._graph.constant(bias.reshape(len(bias), 1, -1, *[1] * extra_axes)))

    def _convolution(self, layer: Convolution, x: str, members: int, networks: int) -> str:
        graph, weight = self._graph, self._weights[f"{layer.name}.weight"]
        attributes = {
            "strides": list(layer.stride),
            "pads": list(layer.padding) * 2,  # before every axis, then after
            "kernel_shape": list(layer.kernel),
        }
        axes = len(layer.kernel)
        operation = "ConvTranspose" if layer.transposed else "Conv"
        if layer.output_padding and any(layer.output_padding):
            attributes["output_padding"] = list(layer.output_padding)
        if networks == 1:  # shared weights: the draws are just more rows
            flat = graph.reshape(x, [-1, *layer.in_shape])
            out = graph.add(operation, flat, self._graph.constant(weight[0]), **attributes)
            return self._biased(layer, graph.reshape(out, [members, -1, *layer.out_shape]), axes)
        if members == 1:
            x = graph.add("Expand", x, graph.constant([networks, 1, 1, *[1] * axes], np.int64))
        swap = [1, 0, *range(2, 3 + axes)]
        swapped = graph.add("Transpose", x, perm=swap)
        grouped = graph.reshape(swapped, [0, networks * layer.in_shape[0], *layer.in_shape[1:]])
        stacked = weight.reshape(-1, *weight.shape[2:])
        out = graph.add(operation, grouped, self._graph.constant(stacked), group=networks, **attributes)
        apart = graph.reshape(out, [0, networks, *layer.out_shape])
        return self._biased(layer, graph.add("Transpose", apart, perm=swap), axes)

    def _norm(self, norm: LayerNorm, x: str) -> str:
        graph = self._graph
        ones, zeros = np.ones(norm.shape, np.float32), np.zeros(norm.shape, np.float32)
        normed = graph.add("LayerNormalization", x, graph.constant(ones), graph.constant(zeros), axis=2, epsilon=1e-5)
        gain, shift = (self._weights[f"{norm.name}.{kind}"][:, None] for kind in ("gain", "shift"))
        return graph.add("Add", graph.add("Mul", normed, self._graph.constant(gain)), self._graph.constant(shift))

    def _activated(self, x: str, activation: str) -> str:
        graph = self._graph
        nodes: dict[str, Callable[[], str]] = {
            "leaky_relu": lambda: graph.add("LeakyRelu", x, alpha=self._network.slope),
            "relu": lambda: graph.add("Relu", x),
            "elu": lambda: graph.add("Elu", x),
            "selu": lambda: graph.add("Selu", x),
            "tanh": lambda: graph.add("Tanh", x),
            "gelu": lambda: self._gelu(x),
            "cosine": lambda: graph.add("Cos", x),
            "softmax": lambda: graph.add("Softmax", x, axis=-1),
            "none": lambda: x,
        }
        return nodes[activation]()

    def _gelu(self, x: str) -> str:
        # The operation of this name came with opset 20: x (1 + erf(x / sqrt 2)) / 2.
        graph = self._graph
        erf = graph.add("Erf", graph.add("Mul", x, graph.constant(np.sqrt(0.5), np.float32)))
        half = graph.add("Mul", graph.add("Add", erf, graph.constant(1, np.float32)), graph.constant(0.5, np.float32))
        return graph.add("Mul", x, half)

    def _likelihood(self, autoencoder: Autoencoder, x: str, location: str, log_variance: str | None) -> str:
        graph, likelihood = self._graph, autoencoder.likelihood
        if isinstance(likelihood, BernoulliLikelihood):
            return self._bernoulli(x, location)
        if isinstance(likelihood, ContinuousBernoulliLikelihood):
            return self._continuous_bernoulli(x, location)
        known = (
            GaussianLikelihood | LaplaceLikelihood | StudentLikelihood | TruncatedGaussianLikelihood | BetaLikelihood
        )
        if not isinstance(likelihood, known):
            raise ConfigError(f"{type(likelihood).__name__} cannot be exported: only the built-in likelihoods can.")
        variance = self._variance(likelihood, log_variance)
        if isinstance(likelihood, BetaLikelihood):
            assert variance is not None  # a scale that is not learned is fixed at a number
            return self._beta(likelihood, x, location, variance)
        distance = graph.add("Sub", x, location)
        if isinstance(likelihood, StudentLikelihood):
            return self._student(likelihood, distance, variance)
        if isinstance(likelihood, GaussianLikelihood | TruncatedGaussianLikelihood):
            part = graph.add("Mul", distance, distance)
            if variance is not None:
                part = graph.add("Add", graph.add("Div", part, variance), graph.add("Log", variance))
            part = graph.add("Mul", part, graph.constant(0.5, np.float32))
            return part if isinstance(likelihood, GaussianLikelihood) else self._truncated(part, location, variance)
        part = graph.add("Abs", distance)
        if variance is None:
            return part
        scaled = graph.add("Div", part, graph.add("Sqrt", variance))
        return graph.add("Add", scaled, graph.add("Mul", graph.add("Log", variance), graph.constant(0.5, np.float32)))

    def _variance(self, likelihood: NoisyLikelihood | BoundedLikelihood, log_variance: str | None) -> str | None:
        """The squared scale of every value; None where it is 1."""
        graph, floor = self._graph, likelihood.least_variance
        if likelihood.noise == "per_feature":
            return graph.constant(np.exp(self._weights[LOG_VARIANCE][:, None]) + floor, np.float32)
        if log_variance is not None:
            return graph.add("Add", graph.add("Exp", log_variance), graph.constant(floor, np.float32))
        return graph.constant(floor, np.float32) if likelihood.noise == "fixed" else None

    def _truncated(self, gaussian: str, location: str, variance: str | None) -> str:
        """What a Gaussian's score is when it cannot leave [0, 1]."""
        assert variance is not None  # a scale that is not learned is fixed at a number
        graph, one = self._graph, self._graph.constant(1, np.float32)
        scale = graph.add("Sqrt", graph.add("Mul", variance, graph.constant(2, np.float32)))
        above = graph.add("Erf", graph.add("Div", graph.add("Sub", one, location), scale))
        below = graph.add("Erf", graph.add("Div", location, scale))
        mass = graph.add("Mul", graph.add("Add", above, below), graph.constant(0.5, np.float32))
        return graph.add("Add", gaussian, graph.add("Log", graph.add("Max", mass, graph.constant(1e-15, np.float32))))

    def _beta(self, likelihood: BetaLikelihood, x: str, location: str, variance: str) -> str:
        """In double: the logarithms of large gamma functions nearly cancel."""
        graph, one = self._graph, self._graph.constant(1.0)
        edge, shrunk = graph.constant(likelihood.edge), graph.constant(1 - 2 * likelihood.edge)

        def inside(values: str) -> str:
            return graph.add("Add", graph.add("Mul", graph.cast(values, TensorProto.DOUBLE), shrunk), edge)

        def rest(values: str) -> str:
            return graph.add("Sub", one, values)

        value, mean = inside(x), inside(location)
        everything = graph.add("Div", one, graph.cast(variance, TensorProto.DOUBLE))
        total = graph.add("Neg", self._log_gamma(everything))
        for share, of in ((mean, value), (rest(mean), rest(value))):
            own = graph.add("Mul", everything, share)
            power = graph.add("Mul", graph.add("Sub", own, one), graph.add("Log", of))
            total = graph.add("Add", total, graph.add("Sub", self._log_gamma(own), power))
        return graph.cast(total, TensorProto.FLOAT)

    def _log_gamma(self, x: str) -> str:
        """Stirling's series at x + 8, less the logarithms of the steps in between, for x above 0."""
        graph = self._graph
        steps = [x, *(graph.add("Add", x, graph.constant(float(k))) for k in range(1, 9))]
        y = steps.pop()
        logs = [graph.add("Log", step) for step in steps]
        over = graph.add("Div", graph.constant(1.0), y)
        square = graph.add("Mul", over, over)
        series = graph.constant(STIRLING[-1])
        for factor in reversed(STIRLING[:-1]):
            series = graph.add("Add", graph.add("Mul", series, square), graph.constant(factor))
        main = graph.add("Mul", graph.add("Sub", y, graph.constant(0.5)), graph.add("Log", y))
        main = graph.add("Add", graph.add("Sub", main, y), graph.constant(0.5 * np.log(2 * np.pi)))
        return graph.add("Sub", graph.add("Add", main, graph.add("Mul", series, over)), graph.add("Sum", *logs))

    def _student(self, likelihood: StudentLikelihood, distance: str, variance: str | None) -> str:
        graph, shape = self._graph, self._network.input_shape
        own = graph.add("Mul", distance, distance)
        own = own if variance is None else graph.add("Div", own, variance)
        axes = graph.constant(list(range(2, 2 + len(shape))), np.int64)
        total = graph.add("Max", graph.add("ReduceSum", own, axes, keepdims=1), graph.constant(1e-30, np.float32))
        freedom, one = graph.constant(likelihood.freedom, np.float32), graph.constant(1, np.float32)
        logs = graph.add("Log", graph.add("Add", graph.add("Div", total, freedom), one))
        half = graph.constant((likelihood.freedom + prod(shape)) / 2, np.float32)
        shares = graph.add("Mul", own, graph.add("Div", graph.add("Mul", logs, half), total))
        if variance is None:
            return shares
        return graph.add("Add", shares, graph.add("Mul", graph.add("Log", variance), graph.constant(0.5, np.float32)))

    def _bernoulli(self, x: str, location: str) -> str:
        graph, one = self._graph, self._graph.constant(1, np.float32)
        yes = graph.add("Mul", x, self._bounded_log(location))
        no = graph.add("Mul", graph.add("Sub", one, x), self._bounded_log(graph.add("Sub", one, location)))
        return graph.add("Neg", graph.add("Add", yes, no))

    def _bounded_log(self, p: str) -> str:
        return self._graph.add("Max", self._graph.add("Log", p), self._graph.constant(-100, np.float32))

    def _continuous_bernoulli(self, x: str, location: str) -> str:
        """Bernoulli's score less log C; the constant's series near 1/2, where its formula is 0 / 0."""
        graph, one = self._graph, self._graph.constant(1, np.float32)
        rest = graph.add("Sub", one, location)
        off = graph.add("Sub", rest, location)
        square = graph.add("Mul", off, off)
        near = graph.add("Less", square, graph.constant(1 / 9, np.float32))
        series = graph.constant(2 / 17, np.float32)
        for k in reversed(range(8)):
            series = graph.add("Add", graph.add("Mul", series, square), graph.constant(2 / (2 * k + 1), np.float32))
        odds = graph.add("Sub", self._bounded_log(rest), self._bounded_log(location))
        ratio = graph.add("Div", odds, graph.add("Where", near, one, off))
        constant = graph.add("Where", near, series, ratio)
        return graph.add("Sub", self._bernoulli(x, location), graph.add("Log", constant))
