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
from math import log, pi
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.autoencoders.layers import Weights
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import Posterior, fit_networks, fresh_weights
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
        (objective,) = fit_networks(
            lambda generators: _VariationalObjective(self, autoencoder, generators, rows),
            autoencoder,
            rows,
            networks=range(1),
            training=training,
            seed=seed,
            report=report,
        )
        with torch.no_grad():
            sampled = objective.sample(self.draws)
        return Draws(autoencoder, self.draws, sampled)

    def log_prior(self, theta: Tensor) -> Tensor:
        """Log density of the scale mixture at every weight."""
        wide = log(self.mixture) - log(self.wide) - theta.square() / (2 * self.wide**2)
        narrow = log(1 - self.mixture) - log(self.narrow) - theta.square() / (2 * self.narrow**2)
        return torch.logaddexp(wide, narrow) - log(2 * pi) / 2


class _VariationalObjective(Objective):
    def __init__(
        self, settings: BayesByBackprop, autoencoder: Autoencoder, generators: Sequence[Generator], rows: TrainingRows
    ) -> None:
        self.autoencoder, self.generators, self._settings = autoencoder, generators, settings
        usual = fresh_weights(autoencoder, generators, rows)
        self.mean = {name: self._initial_mean(weight).requires_grad_() for name, weight in usual.items()}
        self.rho = {
            name: torch.full_like(weight, settings.initial_rho).requires_grad_() for name, weight in usual.items()
        }
        self.leaves = self.moved = [*self.mean.values(), *self.rho.values()]

    def _initial_mean(self, usual: Tensor) -> Tensor:
        # A parameter that starts at a constant (a norm's gain of 1, a shift of 0) keeps it.
        if bool((usual == usual.flatten()[0]).all()):
            return usual.clone()
        return self._normal(usual.unsqueeze(1)).squeeze(1) * self._settings.initial_spread

    def _normal(self, like: Float[Tensor, "c s ..."]) -> Float[Tensor, "c s ..."]:
        return torch.stack([torch.empty(like.shape[1:]).normal_(generator=g) for g in self.generators]).to(like)

    def sample(self, samples: int) -> Weights:
        """So many weight sets per network, stacked as (networks * samples, ...)."""
        drawn = {}
        for name, mean in self.mean.items():
            many = mean.unsqueeze(1).expand(-1, samples, *mean.shape[1:])
            sigma = F.softplus(self.rho[name]).unsqueeze(1)
            drawn[name] = (many + sigma * self._normal(many)).flatten(0, 1)
        return drawn

    def loss(self, rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """Mean NLL over batch and weight samples, plus the weighted KL."""
        samples, networks = self._settings.samples, rows.shape[0]
        weights = self.sample(samples)
        spread = rows.repeat_interleave(samples, dim=0)
        nll = self.autoencoder.nll(weights, spread).mean(1).reshape(networks, samples).mean(1)
        if self._settings.prior_scale == 0:
            return nll
        return nll + self._settings.prior_scale * self._kl(weights, networks)

    def _kl(self, weights: Weights, networks: int) -> Float[Tensor, " c"]:
        kl = torch.zeros(networks, dtype=self.leaves[0].dtype, device=self.leaves[0].device)
        for name, theta in weights.items():
            log_prior = self._settings.log_prior(theta).reshape(networks, self._settings.samples, -1)
            sigma = F.softplus(self.rho[name]).flatten(1)
            # E_q[log q] = -sum(log sigma + log(2 pi e) / 2)
            log_q = -(sigma.log() + (log(2 * pi) + 1) / 2).sum(1)
            kl = kl + log_q - log_prior.sum(2).mean(1)
        return kl

    def add_anchor_gradient(self) -> None:
        """Nothing to add: the KL depends on the samples and is part of the loss."""

    def held_out_loss(self, rows: Float[Tensor, "1 b ..."]) -> Float[Tensor, " c"]:
        """Mean NLL at the mean weights."""
        return self.autoencoder.nll(self.mean, rows).mean(1)
