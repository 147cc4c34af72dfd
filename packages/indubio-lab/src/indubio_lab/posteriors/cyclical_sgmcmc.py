r"""Cyclical stochastic gradient MCMC: a chain that leaves a mode, finds another, and looks around (Zhang et al. 2020).

e_k = e_0 / 2 (1 + cos(pi k / K)),    k = 0 .. K - 1 in every cycle of K moves

Each cycle is a chain of SGHMC whose steps shrink from e_0 to nothing. Its first moves, large ones without noise, are
gradient descent that takes it away from where the last cycle ended. Its draws come from the later moves, with the noise
of their step size, which look around the mode that was found.

One training serves several modes: cycles take the place of the networks that SGHMC's chains begin with. Whether they
are modes of their own is what `mixing` tells: it compares the cycles with each other.
"""

from dataclasses import dataclass, replace
from math import cos, pi, sqrt
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from indubio.networks import Dynamics, FitContext, Leg, What
from indubio.numerics import stream
from indubio.posteriors import SGHMC
from indubio.settings import AtLeastOne, NotNegativeInt, Positive
from indubio_lab.posteriors.iterates import falling, steady

LARGEST = 5.0  # step size that is tried: twice as much got lost, two fifths left held-out scores higher
TRIED_NUMBERS = 17  # purpose of the random stream of that


@dataclass(frozen=True, kw_only=True)
class CyclicalSGMCMC(SGHMC):
    """A chain whose steps shrink in cycles; each draw is a place late in a cycle.

    Args:
        cycles: of each chain, which share its draws.
        step_size: e_0, that of the first move of a cycle. "auto" is 5, or a tenth of it, a hundredth and so on: the
            first with which a chain keeps to weights that explain the rows, see `steady`. It costs a chain more.
        burn_in: moves of a cycle before the first draw is due: they explore, without noise.
        thinning: moves of a cycle for each of its draws, with noise.
        chains: that share the draws, each from a network of its own.

    Examples:
        Two cycles of 10 moves, and 5 more for each of three draws.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> posterior = CyclicalSGMCMC(draws=6, cycles=2, burn_in=10, thinning=5)
        >>> draws = posterior.fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> draws.nll(rows).shape
        (6, 40)
    """

    COMPARED: ClassVar[What] = "cycle"

    cycles: AtLeastOne = 4
    step_size: Positive | Literal["auto"] = "auto"  # type: ignore[assignment]
    burn_in: NotNegativeInt = 500
    chains: AtLeastOne = 1

    def legs(self, moves: Dynamics, draws: int) -> list[Leg]:
        """Cycle after cycle, move by move; a place is kept at the end of every `thinning` moves with noise."""
        return [leg for share in self.compared(draws) for leg in self._cycle(moves, share)]

    def compared(self, draws: int) -> list[int]:
        """How many draws each cycle of a chain has."""
        return [len(part) for part in np.array_split(np.arange(draws), min(self.cycles, draws))]

    def _moves(
        self, context: FitContext, trained: Float[np.ndarray, "c p"], variances: Float[np.ndarray, " p"] | None = None
    ) -> Dynamics:
        """The settings of a cycle's first move, for these rows and trained networks."""
        if self.step_size != "auto":
            return super()._moves(context, trained, variances)

        def chain(rate: float) -> list[Leg]:
            moves = self.replaced(step_size=rate)._moves(context, trained, variances)
            return self.legs(moves, -(-self.draws // len(trained)))

        rate, _ = steady(context, trained[:1], stream(context.seed, TRIED_NUMBERS, 0), falling(LARGEST), chain)
        return self.replaced(step_size=rate)._moves(context, trained, variances)

    def _cycle(self, moves: Dynamics, draws: int) -> list[Leg]:
        """One cycle; the kicks shrink as the root of the step size, so that the temperature stays what it is."""
        length = self.burn_in + draws * self.thinning
        legs = []
        for move, share in enumerate(shares(length)):
            spread = 0.0 if move < self.burn_in else moves.spread * sqrt(share)
            chain = replace(moves, step_size=moves.step_size * share, spread=spread)
            sampled = move + 1 - self.burn_in
            legs.append(Leg(1, chain, kept=sampled > 0 and sampled % self.thinning == 0))
        return legs


def shares(length: int) -> list[float]:
    """The step sizes of a cycle relative to the first, to six digits: the last bit differs between processors."""
    return [float(f"{(1 + cos(pi * move / length)) / 2:.6g}") for move in range(length)]
