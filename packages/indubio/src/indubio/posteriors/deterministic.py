r"""Deterministic autoencoder: one network, trained to the mode.

L(theta) = -log p(X | theta) + lambda ||theta||^2          MAP; with lambda = 0, MLE

One draw has no spread: its epistemic uncertainty is 0, and total uncertainty is aleatoric alone.
"""

from dataclasses import dataclass
from typing import ClassVar

from indubio.networks import FitContext, PointWeights, fit_network
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import TrainedPosterior


@dataclass(frozen=True, kw_only=True)
class Deterministic(TrainedPosterior):
    """A single autoencoder: MAP with the prior, MLE with `prior_scale=0`.

    Examples:
        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> draws = Deterministic().fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> draws.nll(rows).shape
        (1, 40)
    """

    COUNT: ClassVar[str | None] = None

    @property
    def count(self) -> int:
        """Always 1: there is a single network."""
        return 1

    def draws_of(self, context: FitContext) -> Draws:
        """Train one network; it is the only draw."""
        weights, _ = fit_network(
            PointWeights(prior_scale=self.prior_scale_for(context)),
            context,
        )
        return Draws(context.autoencoder, 1, context.autoencoder.named(weights))
