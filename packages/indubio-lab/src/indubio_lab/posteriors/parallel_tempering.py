r"""Langevin moves with Metropolis' correction under parallel tempering (Chandra et al. 2021).

Chains at temperatures from T to a multiple of it settle to exp(-N L / T_i), with L = mean NLL + lambda ||theta||^2 as
for SGHMC, whose header says what T is. Hot chains get over hills that the coldest would stay behind, and hand on what
they find by swaps of places; the draws are of the coldest. `training/tempering.py` has the formulas.

Unlike SGHMC it looks at all rows in every move, and is exact at any step size: what is too large is refused, and
`facts` of the draws tell how much was accepted. Chandra et al. begin with random weights; here all chains begin with
one network that is trained by Adam like all the others. On networks no chain of a bearable length gets to know more
than the neighbourhood of where it began, and `mixing` of the draws says so.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from indubio.networks import (
    Engine,
    FitContext,
    PointWeights,
    Progress,
    TrainingRows,
    engine_for,
    fit_network,
    prior_scale_at,
    stretches,
    temperature_of,
)
from indubio.numerics import stream, streams
from indubio.posteriors import Draws, TrainedPosterior, mixing_of
from indubio.settings import AtLeastOne, NotNegativeInt, Positive, Share
from indubio.texts import english
from indubio_lab.posteriors.tempering import (
    LANGEVIN_RATE,
    WALK_RATE,
    Ladder,
    Moves,
    Place,
    Rung,
    sum_of_squares,
    temperatures,
)

CHAIN_NUMBERS, SWAP_NUMBERS, ROW_NUMBERS = 13, 14, 15  # purposes of the random streams
BLOCK = 1024  # rows whose gradient is taken at once, to bound the memory


@dataclass(frozen=True, kw_only=True)
class ParallelTempering(TrainedPosterior):
    """Chains of weights at rising temperatures; the draws are where the coldest is after some more moves.

    Args:
        draws: number of weights kept, M.
        chains: steps of the ladder of temperatures; with 1 it is one chain without swaps.
        temperature: T of the coldest chain; "auto" the T of the residuals, see `data_prior`.
        highest: of the hottest chain, as a multiple of T; those between rise by equal factors.
        langevin_share: probability of a move along the gradient; the others are random walks.
        step_size: e of moves along the gradient, to begin with; about the learning rate of gradient descent.
        walk_step_size: e of random walks, to begin with.
        burn_in: moves before the first draw, after training. They tune the step sizes of every chain, to 57 and 23 %
            accepted moves; afterwards these are fixed.
        thinning: moves from one draw to the next.
        swap_every: moves from one round of swaps to the next.
        most_rows: that moves look at; of more, the chains settle to the posterior of as many chosen at random.

    Examples:
        All 3 chains make 20 moves, and 5 more before each draw.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> posterior = ParallelTempering(draws=6, chains=3, burn_in=20, thinning=5)
        >>> draws = posterior.fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> draws.nll(rows).shape
        (6, 40)
        >>> list(draws.facts)
        ['accepted Langevin moves', 'accepted random moves', 'accepted swaps']
    """

    CHAINS: ClassVar[bool] = True

    draws: AtLeastOne = 100
    chains: AtLeastOne = 8
    temperature: Positive | Literal["auto"] = 1e-4
    highest: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 2.0
    langevin_share: Share = 0.25
    step_size: Positive = 0.01
    walk_step_size: Positive = 0.001
    burn_in: NotNegativeInt = 400
    thinning: AtLeastOne = 10
    swap_every: AtLeastOne = 2
    most_rows: AtLeastOne = 4096

    @property
    def count(self) -> int:
        """As many draws as places of the coldest chain that are kept."""
        return self.draws

    def draws_of(self, context: FitContext) -> Draws:
        """Train one network, then let the chains run; they start where the coldest chain of `start` ended.

        Noise on what networks are given (`Training.denoising`) is for the training alone: chains see rows as they are.
        """
        scale = 0.0 if self.prior_scale == "auto" else self.prior_scale
        trained, _ = fit_network(PointWeights(prior_scale=scale), context)
        autoencoder, ladder = context.autoencoder, self._ladder(context, trained)
        weights = np.empty((self.draws, trained.shape[1]), trained.dtype)
        for move in range(self.burn_in + self.draws * self.thinning):
            tuning = move < self.burn_in
            ladder.move(tuning=tuning)
            if (move + 1) % self.swap_every == 0:
                ladder.swap(tuning=tuning)
            drawn, rest = divmod(move + 1 - self.burn_in, self.thinning)
            if not tuning and not rest:
                weights[drawn - 1] = ladder.rungs[0].place.values
                context.report(Progress(drawn, self.draws, ladder.rungs[0].place.loss, stage=english("sampling")))
        draws = Draws(autoencoder, self.draws, autoencoder.named(weights), facts=ladder.facts())
        return replace(draws, mixing=mixing_of(context, draws, weights, [self.draws], "chain"))

    def _ladder(self, context: FitContext, trained: Float[np.ndarray, "1 p"]) -> Ladder:
        """All chains at the trained network, for these rows."""
        temperature = temperature_of(context, trained) if self.temperature == "auto" else self.temperature
        prior = prior_scale_at(context, temperature) if self.prior_scale == "auto" else self.prior_scale
        rows = chosen_rows(context.rows, self.most_rows, context.seed)
        start = Place(_Loss(engine_for(context.autoencoder), rows, prior), trained[0])
        own = streams(context.seed, self.chains, CHAIN_NUMBERS)
        rungs = [
            Rung(
                start,
                len(rows) / (temperature * factor),
                numbers,
                Moves(self.step_size, LANGEVIN_RATE),
                Moves(self.walk_step_size, WALK_RATE),
                self.langevin_share,
            )
            for factor, numbers in zip(temperatures(self.chains, self.highest), own, strict=True)
        ]
        return Ladder(rungs, stream(context.seed, SWAP_NUMBERS, 0))


@dataclass(frozen=True, eq=False)
class _Loss:
    """Mean NLL + lambda ||theta||^2 of all rows."""

    engine: Engine
    rows: Float[np.ndarray, "n ..."]
    prior_scale: float

    def loss(self, values: Float[np.ndarray, " p"]) -> float:
        """The rows' NLL are added up in double precision: N / T of their mean decides on moves."""
        nll = self.engine.scorer(1, values[None], None, None).nll(self.rows)[0]
        return float(np.cumsum(nll, dtype=np.float64)[-1]) / len(nll) + self.prior_scale * sum_of_squares(values)

    def gradient(self, values: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        """Block after block of the rows."""
        total = 2 * self.prior_scale * values.astype(np.float64)
        for start in range(0, len(self.rows), BLOCK):
            block = self.rows[start : start + BLOCK]
            total += len(block) / len(self.rows) * self.engine.gradient(values[None], block)[0]
        return total


def chosen_rows(rows: TrainingRows, most: int, seed: int) -> Float[np.ndarray, "n ..."]:
    """All rows, or so many that are chosen at random; of streamed rows, from one time through them."""
    if len(rows) <= most:
        return np.concatenate(list(stretches(rows, 0, BLOCK)))
    chosen = np.zeros(len(rows), bool)
    chosen[stream(seed, ROW_NUMBERS, 0).permutation(len(rows))[:most]] = True
    found, start = [], 0
    for stretch in stretches(rows, 0, BLOCK):
        found.append(stretch[chosen[start : start + len(stretch)]])
        start += len(stretch)
    return np.concatenate(found)
