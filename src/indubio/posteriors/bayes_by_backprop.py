r"""Bayes by Backprop: a Gaussian over every weight, trained by reparameterised samples (Blundell et al. 2015).

theta = mu + sigma eps,  eps ~ N(0, 1),  sigma = softplus(rho)
L(mu, rho) = E_q[-log p(X | theta)] + lambda KL[q || p]
KL[q || p] = E_q[log N(theta; mu, sigma^2) - log(pi N(theta; 0, tau1^2) + (1 - pi) N(theta; 0, tau2^2))]

The paper prints the KL with a minus sign and its prior as a mixture of logarithms; the loss needs a plus and the
logarithm of the mixture (docs/decisions). E_q of the first log is known, so only the mixture's is estimated from the
samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, pi
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.autoencoders.gradient import BlockGradient, can_differentiate
from indubio.autoencoders.layers import Weights
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import Posterior, fit_network, flat_weights, weight_views
from indubio.posteriors.rows import TrainingRows
from indubio.posteriors.training import Objective, Report, Training, silent
from indubio.settings import AtLeastOne, Fraction, Positive

MIXTURE, WIDE, NARROW = 0.5, 1.0, 0.1  # pi, tau1, tau2: paper, appendix


@dataclass(frozen=True, kw_only=True)
class BayesByBackprop(Posterior):
    """A diagonal Gaussian over the weights; each draw is one fixed sample of them.

    Args:
        draws: number of weight samples kept, M.
        samples: weight samples per training step.
        mixture: pi, weight of the wide Gaussian of the prior.
        wide: tau1, its standard deviation.
        narrow: tau2, standard deviation of the other.
        initial_spread: standard deviation of the initial means.
        initial_rho: initial rho; -3 makes sigma about 0.05.
    """

    warm_start: ClassVar[bool] = False

    draws: AtLeastOne = 100
    samples: AtLeastOne = 5
    mixture: Fraction = MIXTURE
    wide: Positive = WIDE
    narrow: Positive = NARROW
    initial_spread: Positive = 0.1
    initial_rho: float = -3.0

    @property
    def count(self) -> int:
        """Number of weight samples kept."""
        return self.draws

    def fit(
        self,
        autoencoder: Autoencoder,
        rows: TrainingRows,
        *,
        training: Training,
        seed: int,
        report: Report = silent,
        start: Draws | None = None,  # noqa: ARG002 - samples do not tell the means and spreads they came from
    ) -> Draws:
        """Train means and spreads, then draw the weight samples to keep."""
        objective = fit_network(
            lambda weights, generators: _VariationalObjective(self, autoencoder, weights, generators),
            autoencoder,
            rows,
            training=training,
            seed=seed,
            report=report,
        )
        with torch.no_grad():
            sampled = objective.named(objective.sample(self.draws))
        return Draws(autoencoder, self.draws, {name: weight.contiguous() for name, weight in sampled.items()})

    def log_prior(self, theta: Tensor) -> Tensor:
        """Log density of the scale mixture at every weight."""
        wide = log(self.mixture) - log(self.wide) - theta.square() / (2 * self.wide**2)
        narrow = log(1 - self.mixture) - log(self.narrow) - theta.square() / (2 * self.narrow**2)
        return torch.logaddexp(wide, narrow) - log(2 * pi) / 2


class _VariationalObjective(Objective):
    """Means and spreads of all weights, one flat tensor each with a row for each network."""

    def __init__(
        self, settings: BayesByBackprop, autoencoder: Autoencoder, usual: Weights, generators: Sequence[Generator]
    ) -> None:
        self.autoencoder, self.generators, self._settings = autoencoder, generators, settings
        self.mean = flat_weights({name: self._initial_mean(weight) for name, weight in usual.items()}).requires_grad_()
        self.rho = torch.full_like(self.mean, settings.initial_rho).requires_grad_()
        self.leaves = self.moved = [self.mean, self.rho]
        self._like = {name: weight[:1] for name, weight in usual.items()}

    def _initial_mean(self, usual: Tensor) -> Tensor:
        # A parameter that starts at a constant (a norm's gain of 1, a shift of 0) keeps it.
        if bool((usual == usual.flatten()[0]).all()):
            return usual.clone()
        return self._normal(usual) * self._settings.initial_spread

    def _normal(self, like: Float[Tensor, "c ..."]) -> Float[Tensor, "c ..."]:
        return torch.stack([torch.empty(like.shape[1:]).normal_(generator=g) for g in self.generators]).to(like)

    def named(self, theta: Float[Tensor, "n p"]) -> Weights:
        """Weights by name, of as many networks as there are rows."""
        return weight_views(theta, self._like)

    def sample(self, samples: int) -> Float[Tensor, "n p"]:
        """So many weight sets for each network, one after the other."""
        mean = self.mean.unsqueeze(1).expand(-1, samples, -1)
        return (mean + F.softplus(self.rho).unsqueeze(1) * self._normal(mean)).flatten(0, 1)

    def loss(self, rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """Mean NLL over batch and weight samples, plus the weighted KL."""
        samples = self._settings.samples
        theta = self.sample(samples)
        nll = self.autoencoder.nll(self.named(theta), rows.repeat_interleave(samples, dim=0)).mean(1)
        return nll.view(-1, samples).mean(1) + self._settings.prior_scale * self.kl(theta)

    def kl(self, theta: Float[Tensor, "n p"]) -> Float[Tensor, " c"]:
        """KL[q || p], the prior's part estimated from samples."""
        # E_q[log q] = -sum(log sigma + log(2 pi e) / 2)
        log_q = -(F.softplus(self.rho).log() + (log(2 * pi) + 1) / 2).sum(1)
        return log_q - self._settings.log_prior(theta).sum(1).view(len(log_q), -1).mean(1)

    @cached_property
    def _by_hand(self) -> "_SampledGradient | None":
        return _SampledGradient(self, self._settings) if can_differentiate(self.autoencoder) else None

    def differentiate(self, rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """As every objective does, or faster where the backward pass is written out."""
        if self._by_hand is None:
            return super().differentiate(rows)
        with torch.no_grad():
            return self._by_hand(rows)

    def add_anchor_gradient(self) -> None:
        """Nothing to add: the KL depends on the samples and is part of the loss."""

    def held_out_loss(self, rows: Float[Tensor, "1 b ..."]) -> Float[Tensor, " c"]:
        """Mean NLL at the mean weights."""
        return self.autoencoder.nll(self.named(self.mean), rows).mean(1)


class _SampledGradient:
    """The same loss with its gradient written out, in tensors that are used again.

    With g = dL/dtheta of a sample, dL/dmu = E[g] and dL/drho = (E[g eps] - lambda / sigma) sigmoid(rho). The prior's
    part of g is lambda theta (1 / tau1^2 + r (1 / tau2^2 - 1 / tau1^2)), r being the share of the narrow Gaussian in
    the mixture's density at theta. Through autograd the prior takes more of a step than the networks.
    """

    def __init__(self, objective: _VariationalObjective, settings: BayesByBackprop) -> None:
        self._objective, self._settings = objective, settings
        networks, size = objective.mean.shape
        shape = (networks, settings.samples, size)
        self._noise, self._theta, self._gradient, self._share = (
            torch.empty(shape, dtype=objective.mean.dtype, device=objective.mean.device) for _ in range(4)
        )
        objective.mean.grad, objective.rho.grad = torch.zeros_like(objective.mean), torch.zeros_like(objective.rho)
        self._networks = BlockGradient(
            objective.autoencoder,
            objective.named(self._theta.flatten(0, 1)),
            objective.named(self._gradient.flatten(0, 1)),
        )

    def __call__(self, rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """The loss of each network; its gradient is written to where the optimiser reads it."""
        objective, scale, samples = self._objective, self._settings.prior_scale, self._settings.samples
        mean, rho = objective.mean, objective.rho
        assert mean.grad is not None  # both made above
        assert rho.grad is not None
        for noise, generator in zip(self._noise, objective.generators, strict=True):
            noise.copy_(torch.empty(noise.shape).normal_(generator=generator))
        sigma = F.softplus(rho)
        torch.addcmul(mean.unsqueeze(1), sigma.unsqueeze(1), self._noise, out=self._theta)
        loss = self._networks(rows.repeat_interleave(samples, dim=0)).view(-1, samples).mean(1)
        if scale:
            loss += scale * self._add_prior(sigma)
        torch.mean(self._gradient, 1, out=mean.grad)
        torch.mean(self._gradient.mul_(self._noise), 1, out=rho.grad)
        rho.grad.sub_(scale / sigma).mul_(torch.sigmoid(rho))
        return loss

    def _add_prior(self, sigma: Float[Tensor, "c p"]) -> Float[Tensor, " c"]:
        """Add the prior's part to the gradient of every sample; gives the KL."""
        settings, theta = self._settings, self._theta
        wide, narrow = settings.wide**-2, settings.narrow**-2
        # log of the narrow part's density over the wide one's, at theta
        odds = torch.mul(theta, theta, out=self._share).mul_((wide - narrow) / 2)
        odds.add_(log((1 - settings.mixture) / settings.mixture) + log(settings.wide / settings.narrow))
        squares: Tensor = torch.linalg.vecdot(theta, theta)
        constant = log(settings.mixture) - log(settings.wide) - log(2 * pi) / 2
        log_prior = F.softplus(odds).sum(2) - squares * (wide / 2) + constant * theta.shape[2]
        slope = odds.sigmoid_().mul_(narrow - wide).add_(wide)
        self._gradient.addcmul_(theta, slope, value=settings.prior_scale)
        log_q = -(sigma.log() + (log(2 * pi) + 1) / 2).sum(1)
        return log_q - log_prior.mean(1)
