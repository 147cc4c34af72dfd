r"""Variational autoencoder: the code is Gaussian, the weights are not random (Kingma & Welling 2013).

z = mu(x) + sigma(x) eps,   L = -log p(x | z) + w KL[N(mu, sigma^2) || N(0, 1)] + lambda ||theta||^2

A draw is one eps, the same for every row and kept. The KL's weight w follows the paper's "prior scaling term for all
models", 1e-10, so the code is hardly regularised; set `kl_weight` to 1 for the textbook VAE. The NLL is a mean over
the D values of an example, so the KL is divided by D too.
"""

from dataclasses import dataclass
from typing import ClassVar

from indubio.networks import FitContext, PointWeights, fit_network
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import PRIOR_SCALE, TrainedPosterior
from indubio.settings import AtLeastOne, NotNegative


@dataclass(frozen=True, kw_only=True)
class VAE(TrainedPosterior):
    """A variational autoencoder; each draw is one fixed noise of the code.

    Args:
        draws: number of noises, M.
        kl_weight: weight of the code's KL divergence from the standard normal.

    Examples:
        The network needs a second output of the encoder, the spread of the code: `code_noise`.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,), code_noise=VAE.code_noise), GaussianLikelihood())
        >>> draws = VAE(draws=6).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> draws.nll(rows).shape, draws.noise.shape
        ((6, 40), (6, 1, 1))
    """

    code_noise: ClassVar[bool] = True

    draws: AtLeastOne = 100
    kl_weight: NotNegative = PRIOR_SCALE

    @property
    def count(self) -> int:
        """As many draws as noises that are kept."""
        return self.draws

    def draws_of(self, context: FitContext) -> Draws:
        """Train one network with fresh noise for every row, then draw the noises to keep."""
        autoencoder = context.autoencoder
        values = autoencoder.network.values_per_loss
        weights, stream = fit_network(
            PointWeights(prior_scale=self.prior_scale_for(context), kl_weight=self.kl_weight / values),
            context,
        )
        noise = stream.normal((self.draws, 1, *autoencoder.network.latent_shape)).astype(weights.dtype)
        return Draws(autoencoder, self.draws, autoencoder.named(weights), noise=noise)
