r"""Bayesian variational autoencoder: a chain over the decoder, and a Gaussian code (Daxberger & Hernandez-Lobato 2019).

L(phi, theta) = mean NLL(x | z, theta) + w / D KL[N(mu, sigma^2) || N(0, 1)] + lambda ||theta||^2,    z = mu + sigma eps

    theta <- SGHMC on L: the gradient and kicks        decoder, what it says of the noise
    phi   <- SGHMC on L without kicks                  encoder, mean and spread of the code

So the code is variational, the decoder is sampled, and the encoder follows the decoder wherever the chain takes it. A
draw is a place of the chain (both halves of the network) with a noise of the code of its own, the same for every row.

With noise of variance s^2 the textbook's KL weighs w = s^2 beside a mean NLL in units where s is 1: T D at the
chain's temperature T. The default is that of the `VAE`, which hardly regularises the code.

Whether the chains mixed is judged at the mean code: the code's noise is independent from draw to draw, and would hide
that the weights are not.
"""

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from indubio.networks import Autoencoder, FitContext
from indubio.numerics import stream
from indubio.posteriors import PRIOR_SCALE, SGHMC, Draws
from indubio.settings import NotNegative

CODE_NUMBERS = 13  # purpose of the random stream of the code's noise
OF_ENCODER = ("encoder.", "code_log_variance.")  # names of weights begin so


@dataclass(frozen=True, kw_only=True)
class BayesianVAE(SGHMC):
    """A chain of decoders with a variational code; each draw is a place of the chain and one fixed noise of the code.

    Args:
        kl_weight: weight of the code's KL divergence from the standard normal.

    Examples:
        The network needs a second output of the encoder, the spread of the code: `code_noise`.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,), code_noise=BayesianVAE.code_noise), GaussianLikelihood())
        >>> chain = BayesianVAE(draws=6, burn_in=10, thinning=5)
        >>> draws = chain.fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> draws.nll(rows).shape, draws.noise.shape, draws.weights["decoder.0.weight"].shape
        ((6, 40), (6, 1, 1), (6, 1, 12))
    """

    code_noise: ClassVar[bool] = True

    kl_weight: NotNegative = PRIOR_SCALE

    def draws_of(self, context: FitContext) -> Draws:
        """Train VAEs, let the chains run, then draw the code's noise of every place that is kept."""
        network, dtype = context.autoencoder.network, context.rows.dtype
        draws = self.sampled(
            context, kicked=of_decoder(context.autoencoder), kl_weight=self.kl_weight / prod(network.input_shape)
        )
        noise = stream(context.seed, CODE_NUMBERS, 0).normal((self.draws, 1, *network.latent_shape))
        return replace(draws, noise=noise.astype(dtype))


def of_decoder(autoencoder: Autoencoder) -> Float[np.ndarray, " p"]:
    """1 for every weight of the decoder and the likelihood, 0 for those of the encoder."""
    shapes = autoencoder.shapes()
    ones = [0.0 if name.startswith(OF_ENCODER) else 1.0 for name in shapes]
    return np.repeat(ones, [prod(shape) for shape in shapes.values()])
