r"""Stochastic gradient Hamiltonian Monte Carlo: a chain of weights that wanders over the posterior (Chen et al. 2014).

v <- (1 - a) v - e grad L(theta) + N(0, 2 a e T / N),     theta <- theta + v

with friction a, step size e, N training rows, and L = mean NLL + lambda ||theta||^2, so that the chain settles to
exp(-N L / T). The paper names the method and gives no settings: these are ours.

T is the temperature. At T = 1 the posterior belongs to sigma = 1, ten to a hundred times the residuals of data scaled
to [0, 1], and to one value per example (the paper's 1/D): so wide that the draws reconstruct nothing. The default is
the order of residual variance / D, which is what the data say; "auto" is that of the residuals themselves.

On a linear model the chain has the spread of the exact posterior (tests/reference/test_mixing.py). On networks it does
not get there: most directions of the weights are so flat that it wanders along them for as long as it runs. `mixing` of
the draws says so, and several chains, each from a network of its own that is trained by Adam like all the others, say
what one cannot: docs/decisions/priors-and-chains.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Annotated, ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from indubio.networks import (
    FEWEST,
    MOST_ROWS,
    MOST_WEIGHTS,
    Begin,
    Beginning,
    Dynamics,
    FitContext,
    Leg,
    Mixing,
    PointWeights,
    Progress,
    What,
    fit_networks,
    fresh_weights,
    prior_scale_at,
    stretches,
    temperature_of,
    walk,
)
from indubio.numerics import Stream, streams
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import TrainedPosterior
from indubio.settings import AtLeastOne, NotNegative, NotNegativeInt, Positive
from indubio.texts import english


@dataclass(frozen=True, kw_only=True)
class SGHMC(TrainedPosterior):
    """A chain of weights; each draw is where the chain is after some more steps.

    Args:
        draws: number of weights kept, M.
        step_size: e; about the learning rate of gradient descent with momentum, times the friction.
        friction: a, the share of the momentum lost at every step.
        burn_in: steps before the first draw, after training.
        thinning: steps from one draw to the next.
        temperature: T; 0 gives plain gradient descent with momentum, "auto" the T of the residuals, see `data_prior`.
        chains: that share the draws, each from a network of its own.

    Examples:
        The chain makes 10 moves, and 5 more before each draw.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> draws = SGHMC(draws=6, burn_in=10, thinning=5).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> draws.nll(rows).shape
        (6, 40)
    """

    CHAINS: ClassVar[bool] = True
    COMPARED: ClassVar[What] = "chain"

    draws: AtLeastOne = 100
    step_size: Positive = 0.01
    friction: Annotated[float, Field(gt=0, le=1)] = 0.05
    burn_in: NotNegativeInt = 200
    thinning: AtLeastOne = 10
    temperature: NotNegative | Literal["auto"] = 1e-4
    chains: AtLeastOne = 4

    @property
    def count(self) -> int:
        """As many draws as places of the chain that are kept."""
        return self.draws

    def draws_of(self, context: FitContext) -> Draws:
        """Train one network, then let the chain run; it starts where the chain of `start` ended."""
        return self.sampled(context)

    def sampled(
        self,
        context: FitContext,
        *,
        variances: Float[np.ndarray, " p"] | None = None,
        kicked: Float[np.ndarray, " p"] | float = 1.0,
        kl_weight: float | None = None,
        begin: Begin | None = None,
    ) -> Draws:
        """The places of the chains.

        Args:
            context: what is trained, on which rows, and how.
            variances: of each weight under the prior; None for the prior of `prior_scale`.
            kicked: factor of each weight's kicks; a weight with 0 is moved by its gradient alone.
            kl_weight: of the code's KL, as in `PointWeights`; None for networks without code noise.
            begin: what networks are trained from before the chains run; None is fresh weights.
        """
        lengths = [len(part) for part in np.array_split(np.arange(self.draws), min(self.chains, self.draws))]
        own, autoencoder = streams(context.seed, len(lengths)), context.autoencoder
        scale = 0.0 if self.prior_scale == "auto" else self.prior_scale
        objective = PointWeights(prior_scale=scale, kl_weight=kl_weight)
        trained = _trained(objective, context, own, np.cumsum(lengths) - 1, begin)
        moves = self._moves(context, trained, variances)
        moves = replace(moves, spread=moves.spread * kicked, kl_weight=kl_weight)
        weights = np.empty((self.draws, trained.shape[1]), trained.dtype)
        drawn = 0
        for chain, length in enumerate(lengths):
            for place in walk(context, trained[chain : chain + 1], own[chain], self.legs(moves, length)):
                weights[drawn] = place.weights[0]
                drawn += 1
                context.report(Progress(drawn, self.draws, place.loss, stage=english("sampling")))
        draws = Draws(autoencoder, self.draws, autoencoder.named(weights))
        compared = [part for length in lengths for part in self.compared(length)]
        return replace(draws, mixing=mixing_of(context, draws, weights, compared, self.COMPARED))

    def chain(self, examples: int, temperature: float, prior_scale: float | Float[np.ndarray, " p"]) -> Dynamics:
        """The settings of the chain's moves, for so many training rows."""
        return Dynamics(
            prior_scale=prior_scale,
            step_size=self.step_size,
            friction=self.friction,
            spread=sqrt(2 * self.friction * self.step_size * temperature / examples),
        )

    def _moves(
        self, context: FitContext, trained: Float[np.ndarray, "c p"], variances: Float[np.ndarray, " p"] | None = None
    ) -> Dynamics:
        """The settings of the chain's moves, for these rows and trained networks."""
        temperature = temperature_of(context, trained) if self.temperature == "auto" else self.temperature
        if variances is not None:  # lambda of each weight, see `data_prior`
            return self.chain(len(context.rows), temperature, temperature / (2 * len(context.rows) * variances))
        prior = prior_scale_at(context, temperature) if self.prior_scale == "auto" else self.prior_scale
        return self.chain(len(context.rows), temperature, prior)

    def legs(self, moves: Dynamics, draws: int) -> list[Leg]:
        """The way of a chain, for so many draws."""
        return [Leg(self.thinning + (0 if draw else self.burn_in), moves) for draw in range(draws)]

    def compared(self, draws: int) -> list[int]:
        """How many draws of a chain make each part that must agree with the others if chains have mixed."""
        return [draws]


def _trained(
    objective: PointWeights,
    context: FitContext,
    own: Sequence[Stream],
    ends: Int[np.ndarray, " c"],
    begin: Begin | None,
) -> Float[np.ndarray, "c p"]:
    """The networks that the chains begin with; each starts where the chain of `start` ended."""
    start = None if context.start is None else context.start[np.minimum(ends, len(context.start) - 1)]
    fresh = begin or (lambda given: Beginning(fresh_weights(context.autoencoder, given, context.rows.dtype)))
    return np.concatenate(list(fit_networks(objective, fresh, replace(context, start=start), own)))


def mixing_of(
    context: FitContext, draws: Draws, weights: Float[np.ndarray, "m p"], lengths: Sequence[int], what: What
) -> Mixing | None:
    """Whether chains of such lengths mixed, by some training rows and weights; of longer ones the last draws."""
    length = min(lengths)
    if length < FEWEST:
        return None
    rows = next(stretches(context.rows, 0, MOST_ROWS))
    scores = draws.nll(rows[:: -(-len(rows) // MOST_ROWS)])
    some = weights[:, :: -(-weights.shape[1] // MOST_WEIGHTS)]
    kept = np.stack([np.arange(stop - length, stop) for stop in np.cumsum(lengths)])
    return Mixing.of(scores[kept].astype(np.float64), some[kept].astype(np.float64), what)
