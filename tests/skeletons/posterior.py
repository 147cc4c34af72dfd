r"""Noisy weights: one network, and M copies of it whose weights are a little off.

theta_m = theta (1 + spread eps_m),   eps_m ~ N(0, 1)

The noise is drawn once, at the end of the fit, and kept: a draw is a fixed function, so that the score of a row does
not depend on when it is asked for, or with which others.
"""

from dataclasses import dataclass

from indubio.networks import FitContext, PointWeights, fit_network
from indubio.posteriors import Draws, TrainedPosterior
from indubio.settings import AtLeastOne, Positive


@dataclass(frozen=True, kw_only=True)
class NoisyWeights(TrainedPosterior):
    """A trained network, with noise on its weights.

    Args:
        draws: number of noisy copies, M.
        spread: standard deviation of the noise, relative to each weight.
    """

    draws: AtLeastOne = 100
    spread: Positive = 0.01

    @property
    def count(self) -> int:
        """As many draws as copies."""
        return self.draws

    def draws_of(self, context: FitContext) -> Draws:
        """Train one network, then put the noise on its weights.

        The context has the autoencoder, the rows, how to train, the seed, whom to tell of the progress, and weights to
        start from. `fit_network` sees to all of these. Random numbers come from the stream it gives back; the global
        generators of numpy and torch are never touched. Everything has the precision of the rows.
        """
        weights, stream = fit_network(PointWeights(prior_scale=self.prior_scale_for(context)), context)
        noise = stream.normal((self.draws, weights.shape[1])).astype(weights.dtype)
        copies = weights * (1 + self.spread * noise)
        return Draws(context.autoencoder, self.draws, context.autoencoder.named(copies))
