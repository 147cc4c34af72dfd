r"""How strong the prior is beside the data, from the data.

N rows of D values have the noise sigma, and weights the prior variance tau^2:

    -log p(theta | X) = N D / sigma^2 L + ||theta - anchor||^2 / (2 tau^2)       L: mean NLL, in units where sigma is 1
                      = N / T (L + lambda ||theta - anchor||^2),     T = sigma^2 / D,    lambda = T / (2 N tau^2)

sigma is that of the residuals of a network that was trained without a prior; where the likelihood learns its scale, or
has none, it is 1. tau^2 is the variance of the weights that networks start from. So the prior loses its weight as rows
become more, and gains it as they become noisier.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from indubio.networks.engine.engine import engine_for
from indubio.networks.engine.objectives import PointWeights
from indubio.networks.likelihoods import GaussianLikelihood, LaplaceLikelihood, NoisyLikelihood
from indubio.networks.training.loop import silent
from indubio.networks.training.network_fits import FitContext, fit_network, fresh_weights
from indubio.networks.training.rows import stretches
from indubio.numerics import stream

INITIAL_NUMBERS = 12  # purpose of the random stream; 0 to 11 have others
MOST_ROWS = 4096  # whose residuals are looked at


def temperature_of(context: FitContext, weights: Float[np.ndarray, "c p"]) -> float:
    """T, by the residuals of these networks."""
    autoencoder = context.autoencoder
    likelihood, values = autoencoder.likelihood, autoencoder.network.values_per_loss
    if not isinstance(likelihood, NoisyLikelihood) or likelihood.noise != "unit":
        return 1 / values
    rows = next(stretches(context.rows, 0, MOST_ROWS))[:MOST_ROWS]
    nll = engine_for(autoencoder).scorer(len(weights), weights, None, None).nll(rows)
    mean = float(np.cumsum(nll.ravel(), dtype=np.float64)[-1]) / nll.size
    factor = {GaussianLikelihood: 2.0, LaplaceLikelihood: 1.0}.get(type(likelihood))
    return 1 / values if factor is None else factor * mean / values


def temperature_without_prior(context: FitContext) -> float:
    """T, by the residuals of a network that is trained for nothing else."""
    weights, _ = fit_network(PointWeights(prior_scale=0.0), replace(context, report=silent))
    return temperature_of(context, weights)


def prior_scale_at(context: FitContext, temperature: float) -> float:
    """The pull towards zero, lambda, that rows and temperature imply for weights of the usual size."""
    weights = fresh_weights(context.autoencoder, [stream(context.seed, INITIAL_NUMBERS, 0)], np.dtype(np.float64))
    variance = float(np.cumsum(weights[0] ** 2)[-1]) / weights.size
    return temperature / (2 * len(context.rows) * variance)
