r"""Variational autoencoder: the code is Gaussian, the weights are not random (Kingma & Welling 2013).

z = mu(x) + sigma(x) eps,   L = -log p(x | z) + w KL[N(mu, sigma^2) || N(0, 1)] + lambda ||theta||^2

A draw is one eps, the same for every row and kept. The KL's weight w follows the paper's "prior scaling term for all
models", 1e-10, so the code is hardly regularised; set `kl_weight` to 1 for the textbook VAE. The NLL is a mean over
the D values of an example, so the KL is divided by D too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from indubio.autoencoders.autoencoder import Autoencoder, noisy
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import PRIOR_SCALE, Posterior, WeightObjective, fit_network
from indubio.posteriors.rows import TrainingRows
from indubio.posteriors.training import Report, Training, silent
from indubio.settings import AtLeastOne, NotNegative


@dataclass(frozen=True, kw_only=True)
class VAE(Posterior):
    """A variational autoencoder; each draw is one fixed noise of the code.

    Args:
        draws: number of noises, M.
        kl_weight: weight of the code's KL divergence from the standard normal.
    """

    code_noise: ClassVar[bool] = True

    draws: AtLeastOne = 100
    kl_weight: NotNegative = PRIOR_SCALE

    @property
    def count(self) -> int:
        """Number of noises."""
        return self.draws

    def fit(
        self,
        autoencoder: Autoencoder,
        rows: TrainingRows,
        *,
        training: Training,
        seed: int,
        report: Report = silent,
        start: Draws | None = None,
    ) -> Draws:
        """Train one network with fresh noise for every row, then draw the noises to keep."""
        objective = fit_network(
            lambda weights, generators: _ElboObjective(
                autoencoder,
                weights,
                prior_scale=self.prior_scale,
                generators=generators,
                kl_weight=self.kl_weight,
            ),
            autoencoder,
            rows,
            training=training,
            seed=seed,
            report=report,
            start=start,
        )
        (generator,) = objective.generators
        shape = (self.draws, 1, *autoencoder.network.latent_shape)
        noise = torch.empty(shape).normal_(generator=generator).to(rows.device, rows.dtype)
        return Draws(autoencoder, self.draws, objective.trained(), noise=noise)


class _ElboObjective(WeightObjective):
    def __init__(
        self,
        autoencoder: Autoencoder,
        weights: dict[str, Tensor],
        *,
        prior_scale: float,
        generators: Sequence[Generator],
        kl_weight: float,
    ) -> None:
        super().__init__(autoencoder, weights, prior_scale=prior_scale, generators=generators)
        self._kl_weight = kl_weight / prod(autoencoder.network.input_shape)

    def loss(self, rows: Float[Tensor, "c b ..."]) -> Float[Tensor, " c"]:
        """Mean over the batch of NLL + weighted KL, with fresh noise for every row."""
        network, likelihood = self.autoencoder.network, self.autoencoder.likelihood
        code = network.encode(self.weights, rows, None)
        noise = torch.stack([torch.empty(code.latent.shape[1:]).normal_(generator=g) for g in self.generators])
        decoded = network.decode(self.weights, noisy(code, noise.to(rows)), None)
        nll = likelihood.nll(rows, decoded, self.weights).flatten(1).mean(1)
        assert code.log_variance is not None  # built with `code_noise`
        return nll + self._kl_weight * kl_from_standard_normal(code.latent, code.log_variance).mean(1)


def kl_from_standard_normal(
    mean: Float[Tensor, "c b ..."], log_variance: Float[Tensor, "c b ..."]
) -> Float[Tensor, "c b"]:
    """KL[N(mean, variance) || N(0, 1)], summed over the code: (mean^2 + variance - log variance - 1) / 2."""
    return (mean.square() + log_variance.exp() - log_variance - 1).flatten(2).sum(2) / 2
