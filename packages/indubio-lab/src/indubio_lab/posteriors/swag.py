r"""SWAG: the Gaussian that gradient descent wanders about in (Maddox et al. 2019), around one or several networks.

theta_i <- gradient descent with momentum at a constant rate, from a trained network on; some iterates are collected

    mean = average of theta_i,    d = average of theta_i^2 - mean^2
    D    = the last K of theta_i - average of theta_1 .. theta_i
    theta ~ mean + sqrt(d / 2) z_1 + D z_2 / sqrt(2 (K - 1)),    z ~ N(0, 1)

The covariance is half the diagonal, and half that of the last K iterates, which knows how weights go together. With one
member this is SWAG, with several multi-SWAG (Wilson & Izmailov 2020): an ensemble that costs little more than its
networks, each of which is as many functions as are asked for.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from indubio.networks import Beginning, Dynamics, FitContext, Leg, PointWeights, Progress, fit_networks, fresh_weights
from indubio.numerics import streams
from indubio.posteriors import Draws, TrainedPosterior
from indubio.settings import AtLeastOne, AtLeastTwo, Positive
from indubio.texts import english
from indubio_lab.posteriors.iterates import falling, mean_score, steady

RATE = 2.0  # beyond it, on data scaled to [0, 1], held-out scores no longer fell


@dataclass(frozen=True, kw_only=True)
class SWAG(TrainedPosterior):
    """Samples of the Gaussian around each of some trained networks.

    Args:
        draws: number of weight samples kept, M, shared out over the members.
        members: networks that are trained; 1 is SWAG, more is multi-SWAG.
        rank: K, iterates that say how weights go together.
        rate: of gradient descent after training. The larger, the wider the Gaussian. "auto" is 2, or a tenth of it, a
            hundredth and so on: the first whose Gaussian is not too wide, see `steady`. A likelihood that learns its
            scale needs a small one.
        momentum: of the same.
        collected: iterates that the Gaussian is of.
        every: steps from one to the next.

    Examples:
        Two networks are trained, and three weights drawn around each.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> draws = SWAG(draws=6, members=2).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> draws.nll(rows).shape
        (6, 40)
        >>> list(draws.facts)
        ['NLL of averaged weights', 'NLL of draws around them']
    """

    warm_start: ClassVar[bool] = False

    draws: AtLeastOne = 100
    members: AtLeastOne = 4
    rank: AtLeastTwo = 20
    rate: Positive | Literal["auto"] = "auto"
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    collected: AtLeastTwo = 40
    every: AtLeastOne = 10

    @property
    def count(self) -> int:
        """As many draws as weight samples that are kept."""
        return self.draws

    def draws_of(self, context: FitContext) -> Draws:
        """Train the members, let each go on at a constant rate, then draw around where it was."""
        autoencoder, dtype = context.autoencoder, context.rows.dtype
        lengths = [len(part) for part in np.array_split(np.arange(self.draws), min(self.members, self.draws))]
        own, scale = streams(context.seed, len(lengths)), self.prior_scale_for(context)
        runs = fit_networks(
            PointWeights(prior_scale=scale),
            lambda given: Beginning(fresh_weights(autoencoder, given, dtype)),
            context,
            own,
        )
        weights, means, drawn = np.empty((self.draws, autoencoder.weight_count()), dtype), [], 0
        trained = np.concatenate(list(runs))
        for member, length in enumerate(lengths):
            _, found = steady(
                context,
                trained[member : member + 1],
                own[member],
                falling(RATE) if self.rate == "auto" else [self.rate],
                lambda rate: self._legs(scale, rate),
                rank=self.rank,
            )
            weights[drawn : drawn + length] = found.drawn(own[member], length)
            means.append(found.mean.astype(dtype))
            drawn += length
            context.report(Progress(member + 1, len(lengths), float("nan"), stage=english("averaging")))
        facts: dict[str, float] = {
            english("NLL of averaged weights"): mean_score(context, np.stack(means)),
            english("NLL of draws around them"): mean_score(context, weights),
        }
        return Draws(autoencoder, self.draws, autoencoder.named(weights), facts=facts)

    def _legs(self, prior_scale: float, rate: float) -> list[Leg]:
        """Gradient descent with momentum: a chain without noise."""
        steps = Dynamics(prior_scale=prior_scale, step_size=rate, friction=1 - self.momentum, spread=0.0)
        return [Leg(self.every, steps)] * self.collected
