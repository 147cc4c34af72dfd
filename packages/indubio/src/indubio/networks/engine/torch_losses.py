"""Losses of C networks on torch, which autograd differentiates.

What is trained is one tensor with a row for each network, and the weights are views of it: anchors and optimiser are
one operation each.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import log, pi

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from indubio.networks.engine.objectives import Corruption, PointWeights, Variational
from indubio.networks.engine.torch_networks import StackedAutoencoder, noisy
from indubio.networks.network import Network
from indubio.networks.tensors import Masks
from indubio.numerics import Stream


class Loss(ABC):
    """The loss of each network, without the part of the prior that has a closed form.

    Args:
        stacked: the networks.
        network: their specification.
        streams: the random numbers of each network.
        corruption: of what they are given; None is none.

    Attributes:
        decay: factor of the values themselves in the prior's gradient. The optimiser adds that part, in the pass over
            the values that it makes anyway.
    """

    decay: float = 0.0

    def __init__(
        self,
        stacked: StackedAutoencoder,
        network: Network,
        streams: Sequence[Stream],
        corruption: Corruption | None = None,
    ) -> None:
        self._stacked, self._network, self._streams, self._corruption = stacked, network, streams, corruption

    @abstractmethod
    def __call__(self, values: Float[Tensor, "c v"], rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """The loss of each network on its own batch."""

    @abstractmethod
    def held_out(self, values: Float[Tensor, "c v"], rows: Float[Tensor, "n ..."]) -> Float[Tensor, " c"]:
        """Mean NLL of rows that all networks see, without noise."""

    def _seen(self, rows: Float[Tensor, "c b ..."]) -> Float[Tensor, "c b ..."]:
        """What the networks are given: the rows, with noise where that is asked for."""
        given = self._corruption
        if given is None:
            return rows
        low, high, tail = log(given.lowest), log(given.highest), [1] * (rows.ndim - 2)
        uniform = self._drawn(lambda stream: stream.uniform((rows.shape[1], *tail), 1.0), rows)
        scale = torch.exp((low + high) / 2 + (high - low) / 2 * uniform)
        noise = self._drawn(lambda stream: stream.normal(tuple(rows.shape[1:])), rows)
        factors = 1.0 if given.factors is None else torch.tensor(given.factors).to(rows).reshape(rows.shape[2:])
        return rows + factors * scale * noise

    def _drawn(self, draw: Callable[[Stream], np.ndarray], like: Tensor) -> Float[Tensor, "c ..."]:
        """What each network's stream gives."""
        return torch.from_numpy(np.stack([draw(stream) for stream in self._streams])).to(like)


class PointLoss(Loss):
    """Mean NLL, under dropout or with code noise and its KL where these are asked for."""

    def __init__(
        self,
        objective: PointWeights,
        stacked: StackedAutoencoder,
        network: Network,
        streams: Sequence[Stream],
        corruption: Corruption | None = None,
    ) -> None:
        super().__init__(stacked, network, streams, corruption)
        self._objective, self.decay = objective, 2 * objective.prior_scale

    def __call__(self, values: Float[Tensor, "c p"], rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """The loss of each network on its own batch."""
        weights, kl_weight = self._stacked.named(values), self._objective.kl_weight
        seen, masks = self._seen(rows), self._masks(rows)
        if kl_weight is None:
            return self._stacked.nll(weights, rows, masks=masks, seen=seen).mean(1)
        code = self._stacked.program.encode(weights, seen, masks)
        noise = self._drawn(lambda stream: stream.normal(tuple(code.latent.shape[1:])), rows)
        decoded = self._stacked.program.decode(weights, noisy(code, noise), masks)
        nll = self._stacked.nll_of(rows, decoded, weights).flatten(1).mean(1)
        assert code.log_variance is not None  # built with `code_noise`
        return nll + kl_weight * kl_from_standard_normal(code.latent, code.log_variance).mean(1)

    def _masks(self, rows: Float[Tensor, "c b ..."]) -> Masks | None:
        if not self._objective.dropout:
            return None
        keep, batch = 1 - self._objective.dropout, rows.shape[1]
        return [
            self._drawn(lambda stream, units=units: stream.bernoulli((batch, units), keep), rows)  # type: ignore[misc]
            for units in self._network.dropout_units
        ]

    def held_out(self, values: Float[Tensor, "c p"], rows: Float[Tensor, "n ..."]) -> Float[Tensor, " c"]:
        """Mean NLL without dropout or code noise."""
        return self._stacked.nll(self._stacked.named(values), rows.unsqueeze(0)).mean(1)


class VariationalLoss(Loss):
    """Mean NLL over batch and weight samples, plus the weighted KL."""

    def __init__(
        self,
        objective: Variational,
        stacked: StackedAutoencoder,
        network: Network,
        streams: Sequence[Stream],
        corruption: Corruption | None = None,
    ) -> None:
        super().__init__(stacked, network, streams, corruption)
        self._objective = objective

    def __call__(self, values: Float[Tensor, "c v"], rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """The loss of each network on its own batch."""
        objective = self._objective
        samples, (mean, rho) = objective.samples, values.chunk(2, dim=1)
        clean, seen = (given.repeat_interleave(samples, dim=0) for given in (rows, self._seen(rows)))
        noise = self._drawn(lambda stream: stream.normal((samples, mean.shape[1])), mean)
        sigma = F.softplus(rho)
        theta = (mean.unsqueeze(1) + sigma.unsqueeze(1) * noise).flatten(0, 1)
        nll = self._stacked.nll(self._stacked.named(theta), clean, seen=seen).mean(1)
        # E_q[log q] = -sum(log sigma + log(2 pi e) / 2)
        log_q = -(sigma.log() + (log(2 * pi) + 1) / 2).sum(1)
        kl = log_q - log_prior(theta, objective).sum(1).view(-1, samples).mean(1)
        return nll.view(-1, samples).mean(1) + objective.prior_scale * kl

    def held_out(self, values: Float[Tensor, "c v"], rows: Float[Tensor, "n ..."]) -> Float[Tensor, " c"]:
        """Mean NLL at the mean weights."""
        return self._stacked.nll(self._stacked.named(values.chunk(2, dim=1)[0]), rows.unsqueeze(0)).mean(1)


def log_prior(theta: Tensor, objective: Variational) -> Tensor:
    """Log density of the scale mixture at every weight."""
    wide = log(objective.mixture) - log(objective.wide) - theta.square() / (2 * objective.wide**2)
    narrow = log(1 - objective.mixture) - log(objective.narrow) - theta.square() / (2 * objective.narrow**2)
    return torch.logaddexp(wide, narrow) - log(2 * pi) / 2


def kl_from_standard_normal(
    mean: Float[Tensor, "c b ..."], log_variance: Float[Tensor, "c b ..."]
) -> Float[Tensor, "c b"]:
    """KL[N(mean, variance) || N(0, 1)], summed over the code: (mean^2 + variance - log variance - 1) / 2."""
    return (mean.square() + log_variance.exp() - log_variance - 1).flatten(2).sum(2) / 2
