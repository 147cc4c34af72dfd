"""Cases that every engine is held to: networks, likelihoods, values and rows, and their loss in plain torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from indubio.networks import (
    Autoencoder,
    BernoulliLikelihood,
    BetaLikelihood,
    BlockArchitecture,
    BlockNetwork,
    ContinuousBernoulliLikelihood,
    Conv1d,
    Conv2d,
    Corruption,
    Dense,
    GaussianLikelihood,
    LaplaceLikelihood,
    Likelihood,
    StudentLikelihood,
    TruncatedGaussianLikelihood,
    fresh_weights,
)
from indubio.numerics import streams
from tests.reference.plain_network import Named, Passed, nll_of_values, passed

DOUBLE = np.dtype(np.float64)
NETWORKS = 3


@dataclass(frozen=True)
class Case:
    """An autoencoder, and what it is tried with."""

    architecture: BlockArchitecture
    shape: tuple[int, ...]
    likelihood: Likelihood = GaussianLikelihood()  # noqa: RUF009 - frozen
    code_noise: bool = False

    @cached_property
    def network(self) -> BlockNetwork:
        return self.architecture.build(
            self.shape, code_noise=self.code_noise, output_noise=self.likelihood.output_noise
        )

    @cached_property
    def autoencoder(self) -> Autoencoder:
        return Autoencoder(self.network, self.likelihood)

    def values(self, seed: int = 0, networks: int = NETWORKS) -> np.ndarray:
        """Weights in double precision; also those that begin at a constant differ from it."""
        fresh = fresh_weights(self.autoencoder, streams(seed, networks), DOUBLE)
        return fresh + 0.1 * np.random.default_rng(seed).normal(size=fresh.shape)

    def rows(self, count: int = 23, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).uniform(0.05, 0.95, size=(count, *self.shape))

    def order(self, count: int = 23, seed: int = 0, networks: int = NETWORKS) -> np.ndarray:
        random = np.random.default_rng(seed)
        return np.stack([random.permutation(count) for _ in range(networks)])

    def named(self, theta: Tensor) -> Named:
        """One network's weights by name."""
        shapes = self.autoencoder.shapes()
        parts = theta.split([int(np.prod(shape)) for shape in shapes.values()])
        return {name: part.reshape(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}

    def passed(self, theta: Tensor, rows: Tensor, **noise) -> Passed:
        return passed(self.network, self.named(theta), rows, **noise)

    def nll_apart(self, theta: Tensor, rows: Tensor, seen: Tensor | None = None, **noise) -> Tensor:
        """Negative log-likelihood of every value under one network, which may be given others."""
        found = self.passed(theta, rows if seen is None else seen, **noise)
        return nll_of_values(self.likelihood, self.named(theta), rows, found)

    def nll(self, theta: Tensor, rows: Tensor, **noise) -> Tensor:
        """Mean over rows and values."""
        return self.nll_apart(theta, rows, **noise).mean()


NOISES: dict[str, Likelihood] = {
    f"{kind.__name__}, {noise}": kind(noise=noise, smallest_scale=0.1)
    for kind in (GaussianLikelihood, LaplaceLikelihood, StudentLikelihood)
    for noise in ("unit", "per_feature", "per_example")
}
NOISES |= {
    f"{kind.__name__}, {noise}": kind(noise=noise, smallest_scale=0.1, scale=0.3)
    for kind in (TruncatedGaussianLikelihood, BetaLikelihood)
    for noise in ("fixed", "per_feature", "per_example")
}
NOISES |= {kind.__name__: kind() for kind in (BernoulliLikelihood, ContinuousBernoulliLikelihood)}
IMAGES = Conv2d(channels=(3, 4), latent=3, skips=True)
SMALL = Conv1d(channels=(3, 4), kernels=(4, 2), linear=(7,), latent=3)
ACTIVATIONS = ("leaky_relu", "relu", "elu", "selu", "gelu", "tanh")


def _one_noise_of_each(first: int) -> dict[str, Likelihood]:
    """Every kind of likelihood with one noise, from kind to kind another."""
    noisy = [3 * kind + (first + kind) % 3 for kind in range(5)]
    return {name: NOISES[name] for name in [[*NOISES][place] for place in noisy] + [*NOISES][15:]}


STRUCTURES: dict[str, Case] = {
    "dense, bias": Case(Dense(bias=True), (5,)),
    "dense, bias, no skips": Case(Dense(bias=True, skips=False), (5,)),
    "dense, bias, norm": Case(Dense(bias=True, layer_norm=True, latent=4), (5,)),
    "dense, no last activation": Case(Dense(last_activation="none", bias=True), (5,)),
    "dense, one hidden layer": Case(Dense(widths=(9,), latent=2), (5,)),
    "dense, one feature": Case(Dense(), (1,)),
    "dense on windows": Case(Dense(), (4, 2)),
    "dense, wide": Case(Dense(widths=(130,), latent=10, bias=True), (70,)),
    "conv, odd length": Case(Conv1d(linear=(7,)), (31, 3)),
    "conv, bias, no skips": Case(Conv1d(linear=(7,), bias=True, skips=False), (23, 2)),
    "conv, no linear layer between": Case(Conv1d(linear=(), bias=True), (21, 2)),
    "conv, stride beyond the kernel": Case(Conv1d(channels=(3,), kernels=(2,), strides=(3,), linear=(6,)), (19, 2)),
    "conv, three of them": Case(
        Conv1d(channels=(3, 4, 5), kernels=(5, 3, 2), strides=(2, 3, 1), linear=(6, 5)), (41, 2)
    ),
    "conv, no last activation": Case(SMALL.replaced(last_activation="none"), (23, 2)),
    "images, one row high": Case(Conv2d(channels=(3,), kernels=(1,), strides=(1,), bias=True, latent=3), (1, 9, 2)),
    "images, bias, no skips": Case(IMAGES.replaced(bias=True, skips=False), (6, 11, 1)),
    "images, linear layers between": Case(IMAGES.replaced(linear=(7, 5), bias=True), (8, 8, 1)),
    "images, stride beyond the kernel": Case(Conv2d(channels=(3,), kernels=(2,), strides=(3,), latent=4), (8, 13, 2)),
    "images, three convolutions": Case(
        Conv2d(channels=(3, 4, 5), kernels=(4, 3, 2), strides=(2, 2, 1), latent=4, bias=True), (13, 17, 3)
    ),
    "dense on images": Case(Dense(), (3, 4, 2)),
    "code noise": Case(Dense(bias=True), (5,), code_noise=True),
    "code noise, norm": Case(Dense(layer_norm=True, skips=False, latent=4), (5,), code_noise=True),
    "code noise, conv": Case(SMALL, (20, 2), code_noise=True),
    "code noise, activated heads": Case(Dense(activation="selu", code_heads="activated"), (5,), code_noise=True),
    "code noise, activated heads, norm": Case(
        Dense(layer_norm=True, bias=True, code_heads="activated", latent=4), (5,), code_noise=True
    ),
    "code noise, activated heads, conv": Case(SMALL.replaced(code_heads="activated"), (20, 2), code_noise=True),
    "code noise, frozen heads": Case(Dense(activation="tanh", code_heads="frozen"), (5,), code_noise=True),
    "code noise, images": Case(IMAGES, (6, 7, 1), code_noise=True),
    "code noise, heteroscedastic": Case(Dense(), (5,), GaussianLikelihood(noise="per_example"), code_noise=True),
}

# All pairs of what a network has: its kind, activation, norm, likelihood and noise meet two and two, and each of the
# rest meets every kind of network that has it. A norm of two values is a step from -1 to 1, too steep to compare: the
# normed ones have a code of more.
CASES: dict[str, Case] = (
    {
        f"dense, {activation}{', norm' * norm}": Case(
            Dense(activation=activation, layer_norm=norm, slope=0.2, latent=4), (5,)
        )
        for activation in ACTIVATIONS
        for norm in (False, True)
    }
    | {
        f"conv, {activation}{', norm' * norm}": Case(
            SMALL.replaced(activation=activation, layer_norm=norm, bias=norm), (23, 2)
        )
        for activation, norm in zip(ACTIVATIONS, 3 * (False, True), strict=True)
    }
    | {
        f"images, {activation}{', norm' * norm}": Case(
            IMAGES.replaced(activation=activation, layer_norm=norm, bias=norm), (7, 6, 2)
        )
        for activation, norm in zip(ACTIVATIONS, 3 * (True, False), strict=True)
    }
    | {f"dense, {name}": Case(Dense(bias=True), (5,), likelihood) for name, likelihood in NOISES.items()}
    | {f"conv, {name}": Case(SMALL, (20, 2), likelihood) for name, likelihood in _one_noise_of_each(0).items()}
    | {f"images, {name}": Case(IMAGES, (6, 7, 2), likelihood) for name, likelihood in _one_noise_of_each(2).items()}
    | STRUCTURES
)

NOISY = [name for name, case in CASES.items() if case.code_noise]
POINTS = [name for name in CASES if name not in NOISY]
# For what a likelihood and an activation have no part in: every way that layers follow each other.
SHAPES = [
    name
    for name, case in CASES.items()
    if name in POINTS and case.likelihood == GaussianLikelihood() and (name in STRUCTURES or name[:5] != "dense")
]
# For what happens to weights or rows, whatever the layers are.
FEW = [
    "dense, wide",
    "dense, bias, norm",
    "dense, StudentLikelihood, per_example",
    "conv, three of them",
    "conv, selu, norm",
    "conv, LaplaceLikelihood, per_feature",
    "images, gelu, norm",
    "images, three convolutions",
    "images, StudentLikelihood, per_feature",
]
CLOSE = {"rtol": 1e-9, "atol": 1e-11}  # in double precision
Loss = Callable[[Tensor, Tensor], Tensor]  # one network's values, rows of a batch -> loss


def batches_of(order: np.ndarray, batch: int) -> list[np.ndarray]:
    """The order (C, n) cut into batches (C, b)."""
    return [order[:, start : start + batch] for start in range(0, order.shape[1], batch)]


def adam(
    losses: Sequence[Loss],
    values: np.ndarray,
    rows: np.ndarray,
    batches: Sequence[np.ndarray],
    rates: Sequence[float],
    *,
    prior_scale: float = 0.0,
    anchors: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Plain Adam, network after network, the prior by autograd; sums of the losses without the prior, and values."""
    totals, trained = np.zeros(len(values)), np.empty_like(values)
    for network, loss in enumerate(losses):
        theta = torch.tensor(values[network], requires_grad=True)
        anchor = torch.zeros(()) if anchors is None else torch.tensor(anchors[network])
        optimiser = torch.optim.Adam([theta], foreach=False, fused=False)
        for index, rate in zip(batches, rates, strict=True):
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            value = loss(theta, torch.tensor(rows[index[network]]))
            (value + prior_scale * (theta - anchor).square().sum()).backward()
            optimiser.step()
            totals[network] += value.item()
        trained[network] = theta.detach().numpy()
    return totals, trained


def noisy_inputs(own, case: Case, batch: Tensor, given: Corruption) -> Tensor:
    """What a network is given in its next step, by the formula."""
    noise, uniform = own.inputs(len(batch), case.network)
    low, high = np.log(given.lowest), np.log(given.highest)
    scale = np.exp(low + (high - low) * (uniform.astype(np.float64) + 1) / 2)
    factors = 1.0 if given.factors is None else given.factors
    return batch + torch.tensor(factors * scale.reshape(-1, *[1] * (batch.ndim - 1)) * noise)


def corruption_of(case: Case, kind: str) -> Corruption:
    """Noise of this kind."""
    factors = np.random.default_rng(7).uniform(0, 2, size=case.shape)
    return {
        "fixed": Corruption(lowest=0.2, highest=0.2),
        "log-uniform": Corruption(lowest=0.05, highest=0.8),
        "by feature": Corruption(lowest=0.05, highest=0.8, factors=factors),
    }[kind]
