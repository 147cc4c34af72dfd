r"""Stochastic gradient Hamiltonian Monte Carlo: a chain of weights that wanders over the posterior (Chen et al. 2014).

v <- (1 - a) v - e grad L(theta) + N(0, 2 a e T / N),     theta <- theta + v

with friction a, step size e, N training rows, and L = mean NLL + lambda ||theta||^2, so that the chain settles to
exp(-N L / T). The paper names the method and gives no settings: these are ours.

T is the temperature. At T = 1 the posterior belongs to sigma = 1, ten to a hundred times the residuals of data scaled
to [0, 1], and to one value per example (the paper's 1/D): so wide that the draws reconstruct nothing. The default is
the order of residual variance / D, which is what the data say. The chain starts from a network trained by Adam like
all the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Annotated

import numpy as np
from jaxtyping import Float
from pydantic import Field

from indubio.engine import Chain, PointWeights, Stream, engine_for
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import TrainedPosterior
from indubio.settings import AtLeastOne, NotNegative, NotNegativeInt, Positive
from indubio.training.loop import Progress, diverged, endless_orders
from indubio.training.network_fits import FitContext, fit_network


@dataclass(frozen=True, kw_only=True)
class SGHMC(TrainedPosterior):
    """A chain of weights; each draw is where the chain is after some more steps.

    Args:
        draws: number of weights kept, M.
        step_size: e; about the learning rate of gradient descent with momentum, times the friction.
        friction: a, the share of the momentum lost at every step.
        burn_in: steps before the first draw, after training.
        thinning: steps from one draw to the next.
        temperature: T; 0 gives plain gradient descent with momentum.

    Example:
        The chain makes 10 moves, and 5 more before each draw.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.posteriors import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> draws = SGHMC(draws=6, burn_in=10, thinning=5).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> draws.nll(rows).shape
        (6, 40)
    """

    draws: AtLeastOne = 100
    step_size: Positive = 0.01
    friction: Annotated[float, Field(gt=0, le=1)] = 0.05
    burn_in: NotNegativeInt = 200
    thinning: AtLeastOne = 10
    temperature: NotNegative = 1e-4

    @property
    def count(self) -> int:
        """As many draws as places of the chain that are kept."""
        return self.draws

    def draws_of(self, context: FitContext) -> Draws:
        """Train one network, then let the chain run; it starts where the chain of `start` ended."""
        trained, stream = fit_network(
            PointWeights(prior_scale=self.prior_scale),
            context,
        )
        weights = np.empty((self.draws, trained.shape[1]), trained.dtype)
        for draw, values in enumerate(self._chain(context, trained, stream)):
            weights[draw] = values[0]
        return Draws(context.autoencoder, self.draws, context.autoencoder.named(weights))

    def chain(self, examples: int) -> Chain:
        """The settings of the chain's moves, for so many training rows."""
        return Chain(
            prior_scale=self.prior_scale,
            step_size=self.step_size,
            friction=self.friction,
            spread=sqrt(2 * self.friction * self.step_size * self.temperature / examples),
        )

    def _chain(
        self, context: FitContext, values: Float[np.ndarray, "1 p"], stream: Stream
    ) -> Iterator[Float[np.ndarray, "1 p"]]:
        rows, batch = context.rows, context.training.batch_rows(len(context.rows))
        denoising = context.training.denoising
        sampler = engine_for(context.autoencoder).sampler(
            self.chain(len(rows)),
            values,
            stream,
            batch=batch,
            corruption=None if denoising is None else denoising.corruption(rows, batch),
        )
        drawn, due = 0, self.burn_in + self.thinning  # moves until the next draw
        for stretch, order in endless_orders(rows, batch, stream):
            while order.shape[1]:
                now, order = order[:, : due * batch], order[:, due * batch :]
                loss = sampler.steps(stretch, now)
                due -= -(-now.shape[1] // batch)
                if due:
                    continue
                if not np.isfinite(loss):
                    moves = self.burn_in + (drawn + 1) * self.thinning
                    raise diverged(np.array([loss]), moves, self.step_size)
                drawn, due = drawn + 1, self.thinning
                context.report(Progress(drawn, self.draws, loss, stage="sampling"))
                yield sampler.values()
                if drawn == self.draws:
                    return
