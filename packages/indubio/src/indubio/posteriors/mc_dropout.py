r"""Monte Carlo dropout: one network trained under dropout, M fixed masks as draws (Gal & Ghahramani 2016).

theta = W * eps,  eps ~ Ber(1 - p),   L = -log p(X | theta) + lambda ||W||^2          paper, appendix

A mask switches whole units (linear layers) or channels (convolutions), after the activation, without the usual
rescaling by 1/(1 - p): the paper's theta is W times eps and no more. In training every row gets its own masks; a draw
has one mask for all rows, drawn at the end of fit, or else one row's score would depend on its neighbours.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from indubio.networks import FitContext, PointWeights, fit_network
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import TrainedPosterior
from indubio.settings import AtLeastOne

DROPOUT = 0.01  # paper, appendix


@dataclass(frozen=True, kw_only=True)
class MCDropout(TrainedPosterior):
    """One autoencoder with dropout; each draw is a fixed mask.

    Args:
        draws: number of masks, M.
        dropout: probability that a unit is switched off.

    Examples:
        There is one network. A draw is a mask for each layer, over its 12, 12 and 1 units and back.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> draws = MCDropout(draws=6, dropout=0.1).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> draws.nll(rows).shape
        (6, 40)
        >>> [mask.shape[2] for mask in draws.masks], len(draws.weights["encoder.0.weight"])
        ([12, 12, 1, 12, 12], 1)
    """

    masks: ClassVar[bool] = True

    draws: AtLeastOne = 100
    dropout: Annotated[float, Field(ge=0, lt=1)] = DROPOUT

    @property
    def count(self) -> int:
        """As many draws as masks that are kept."""
        return self.draws

    def draws_of(self, context: FitContext) -> Draws:
        """Train one network under dropout, then draw the masks."""
        weights, stream = fit_network(
            PointWeights(prior_scale=self.prior_scale_for(context), dropout=self.dropout),
            context,
        )
        autoencoder, keep = context.autoencoder, 1 - self.dropout
        masks = tuple(
            stream.bernoulli((self.draws, 1, size), keep).astype(weights.dtype)
            for size in autoencoder.network.dropout_units
        )
        return Draws(autoencoder, self.draws, autoencoder.named(weights), masks=masks)
