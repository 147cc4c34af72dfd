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
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from indubio.networks import (
    Autoencoder,
    Beginning,
    FitContext,
    Variational,
    fit_network,
    fresh_weights,
    temperature_without_prior,
)
from indubio.numerics import Stream
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import TrainedPosterior
from indubio.settings import AtLeastOne, Fraction, Positive

MIXTURE, WIDE, NARROW = 0.5, 1.0, 0.1  # pi, tau1, tau2: paper, appendix


@dataclass(frozen=True, kw_only=True)
class BayesByBackprop(TrainedPosterior):
    """A diagonal Gaussian over the weights; each draw is one fixed sample of them.

    Args:
        draws: number of weight samples kept, M.
        samples: weight samples per training step.
        mixture: pi, weight of the wide Gaussian of the prior.
        wide: tau1, its standard deviation.
        narrow: tau2, standard deviation of the other.
        initial_spread: standard deviation of the initial means.
        initial_rho: initial rho; -3 makes sigma about 0.05, half of the initial means' spread. It moves by a learning
            rate per step at most, so what starts far lower stays there: see docs/decisions/priors-and-chains.md.

    Examples:
        One distribution of weights is trained; every draw is a sample of it.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> draws = BayesByBackprop(draws=6, samples=2).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> draws.nll(rows).shape, len(draws.weights["encoder.0.weight"])
        ((6, 40), 6)
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
        """As many draws as weight samples that are kept."""
        return self.draws

    def draws_of(self, context: FitContext) -> Draws:
        """Train means and spreads, then draw the weight samples to keep."""
        autoencoder = context.autoencoder
        trained, stream = fit_network(
            Variational(
                prior_scale=self.prior_scale_for(context),
                samples=self.samples,
                mixture=self.mixture,
                wide=self.wide,
                narrow=self.narrow,
            ),
            context,
            lambda own: self._begin(autoencoder, own, context.rows.dtype),
        )
        mean, rho = np.split(trained, 2, axis=1)
        # In double precision, where the last bit of a logarithm does not reach the result.
        sigma = np.logaddexp(0, rho.astype(np.float64)).astype(trained.dtype)
        weights = mean + sigma * stream.normal((self.draws, mean.shape[1])).astype(trained.dtype)
        return Draws(autoencoder, self.draws, autoencoder.named(weights))

    def prior_scale_for(self, context: FitContext) -> float:
        """Lambda; "auto" is T / N: the weight of the KL beside N / T mean NLLs."""
        if self.prior_scale != "auto":
            return self.prior_scale
        return temperature_without_prior(context) / len(context.rows)

    def _begin(self, autoencoder: Autoencoder, streams: Sequence[Stream], dtype: np.dtype) -> Beginning:
        usual = autoencoder.named(fresh_weights(autoencoder, streams, dtype))
        means = autoencoder.flat({name: self._initial_mean(weight, streams) for name, weight in usual.items()})
        return Beginning(np.concatenate([means, np.full_like(means, self.initial_rho)], axis=1))

    def _initial_mean(self, usual: Float[np.ndarray, "c ..."], streams: Sequence[Stream]) -> Float[np.ndarray, "c ..."]:
        # A parameter that starts at a constant (a norm's gain of 1, a shift of 0) keeps it.
        if (usual == usual.flat[0]).all():
            return usual
        return (
            np.stack([stream.normal(usual.shape[1:]) for stream in streams]).astype(usual.dtype) * self.initial_spread
        )
