r"""Anchored ensembling: M autoencoders, each pulled towards its own anchor (Pearce et al. 2020).

L(theta_m) = -log p(X | theta_m) + lambda ||theta_m - anchor_m||^2          paper, eq. prior loss

Anchors are never shared: with one anchor the spread would vanish as lambda grows. An anchor is a draw from the
initialisation's distribution, independent of the weights the member starts from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from indubio.networks import Beginning, FitContext, PointWeights, fit_networks, fresh_weights
from indubio.numerics import Stream, streams
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import SeparateDraws, TrainedPosterior
from indubio.settings import AtLeastOne


@dataclass(frozen=True, kw_only=True)
class AnchoredEnsemble(SeparateDraws, TrainedPosterior):
    """M autoencoders, each regularised towards its own anchor.

    Args:
        members: size of the ensemble, M.

    Examples:
        Every member is a network with weights of its own.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> draws = AnchoredEnsemble(members=4).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> draws.nll(rows).shape
        (4, 40)
        >>> len(draws.weights["encoder.0.weight"])
        4
    """

    COUNT: ClassVar[str | None] = "members"

    members: AtLeastOne = 10

    @property
    def count(self) -> int:
        """As many draws as members."""
        return self.members

    def some_draws(self, context: FitContext, which: range) -> Draws:
        """Some of the members, as many side by side as is fastest: each has random streams and a start of its own."""
        autoencoder, dtype = context.autoencoder, context.rows.dtype

        def begin(own: Sequence[Stream]) -> Beginning:
            values = fresh_weights(autoencoder, own, dtype)
            return Beginning(values, anchors=fresh_weights(autoencoder, own, dtype))

        own = streams(context.seed, which.stop)[which.start :]
        trained = fit_networks(PointWeights(prior_scale=self.prior_scale_for(context)), begin, context, own)
        weights = np.empty((len(which), autoencoder.weight_count()), dtype)
        done = 0
        for part in trained:
            weights[done : done + len(part)] = part
            done += len(part)
        return Draws(autoencoder, len(which), autoencoder.named(weights))
