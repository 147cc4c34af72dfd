r"""A Bayesian linear autoencoder in closed form: the Gaussian of each view of an example, and all it may be.

    x ~ N(mean, S),    S ~ IW,  mean | S ~ N             the posterior is of the same kind (`GaussianSums`)
    x^ = x - noise P (x - mean),    P = S^-1             the autoencoder of a draw
    x^T P x = min_z |x - A z|^2 / noise + |z|^2          with S = A A^T + noise I: what it scores

The last line is probabilistic PCA with as many components as there are features: error of the reconstruction plus
the prior of the code. It is the paper's autoencoder in its simplest form, and the one whose posterior is exact: nothing
is trained, draws are independent, and their spread is what the rows leave open. The prior's strength is chosen by the
formula of Ledoit and Wolf.

Sensors of a machine move together, and a Gaussian says how; its score adds up over features, x_i (P x)_i. Tables, whose
columns do not, are better served by `Prototypes`. Views (levels, spectrum, statistics, shape) have a Gaussian each and
are joined by networks/engine/views_engine.py. docs/windows.md has what was tried.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Float
from pydantic import Field

from indubio.errors import ConfigError
from indubio.networks import (
    FACTOR,
    MEAN,
    MIDDLE,
    NOISE,
    ROWS,
    SPREAD,
    VOLUME,
    Architecture,
    FitContext,
    GaussianLikelihood,
    GaussianSums,
    KeptGaussianSums,
    Likelihood,
    LinearViews,
    LinearViewsNetwork,
    NormalWishartState,
    Weights,
    first_rows,
    in_blocks,
    name_of,
    spans,
    whole_blocks,
)
from indubio.numerics import Shape, stream
from indubio.posteriors.computed_draws import ClosedFormPosterior
from indubio.posteriors.draws import Draws
from indubio.prepare import Scaling, Spectra, ZScore, log_of
from indubio.settings import AtLeastOne

DRAW_NUMBERS = 10  # purpose of the random stream
MEASURED = 4 * ROWS  # rows that tell what a view usually says
STRETCHES = 5  # of these, held out one after the other
SMALLEST_DISTANCE = 1e-30  # a row at the mean has a logarithm too
SMALLEST_SPREAD = 0.05  # of a logarithm: what hardly varies is rounding


@dataclass(frozen=True, kw_only=True)
class NormalWishart(ClosedFormPosterior):
    """The exact posterior of a Gaussian with correlated features, for each view of windows.

    Args:
        draws: how many, M.
        shrinkage: weight of the prior, features that do not move together; None is that of Ledoit and Wolf, view by
            view.
        keep_sums: keep what the draws follow from, and the rows that calibrate, so that `Detector.update` needs no
            training data.

    Examples:
        Two values that move together: a row against that is far, though each of its values is usual.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, GaussianLikelihood, LinearViews
        >>> from indubio.networks import Training
        >>> one, noise = np.random.default_rng(0).normal(size=(2, 200, 1))
        >>> rows = np.float32(np.hstack([one, one + 0.1 * noise]))
        >>> autoencoder = Autoencoder(LinearViews().build((2,)), GaussianLikelihood())
        >>> draws = NormalWishart(draws=4).fit(autoencoder, rows, training=Training(), seed=0)
        >>> along, against = draws.nll(np.float32([[1, 1], [1, -1]])).mean(axis=0)
        >>> bool(along < 1 < 20 < against)
        True
    """

    NETWORK: ClassVar[type[Architecture]] = LinearViews
    SCALING: ClassVar[Scaling] = ZScore()  # the prior says the same of every feature
    LIKELIHOOD: ClassVar[Likelihood] = GaussianLikelihood()
    SPECTRA: ClassVar[Spectra] = Spectra()

    draws: AtLeastOne = 10
    shrinkage: Annotated[float, Field(gt=0, lt=1)] | None = None
    keep_sums: bool = False

    @property
    def count(self) -> int:
        """As many draws as the settings say."""
        return self.draws

    def architecture_for(self, input_shape: Shape, rows: int) -> LinearViews:
        """One view of all values; those of windows are put in where the features are known."""
        del input_shape, rows
        return LinearViews()

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Refuse any but its own: the noise of the features is part of what it finds."""
        if likelihood != self.LIKELIHOOD:
            raise ConfigError(
                "{method} has a likelihood of its own, a Gaussian whose features move together: leave `likelihood` "
                "out, got {likelihood}.",
                method=type(self).__name__,
                likelihood=likelihood,
            )

    def some_draws(self, context: FitContext, which: range) -> Draws:
        """Some of the draws, from one pass over the rows."""
        return self.draws_from(context, which, self.sums(context, which, self.spans(len(context.rows))))

    def draws_from(self, context: FitContext, which: range, parts: Iterable[Sequence[GaussianSums]]) -> Draws:
        """Some of the draws, which all follow from the same sums.

        Args:
            context: as for `some_draws`.
            which: of all draws.
            parts: sums over spans of rows, one span after the other.
        """
        whole = reduce(GaussianSums.joined, (one for one, *_ in parts))
        return self._drawn(context, which, whole, _first_rows(context))

    def extended(self, draws: Draws, context: FitContext, first: Float[np.ndarray, "n ..."]) -> Draws:
        """The draws with more rows: what fitting all rows at once would give.

        Args:
            draws: all of one fit, with their sums.
            context: the new rows alone, and the seed of that fit.
            first: the first rows of all, `measured_rows` of them.
        """
        assert isinstance(draws.sums, KeptGaussianSums)
        places = _network(context).places
        rows = np.asarray(context.rows)
        blocks = in_blocks(rows.reshape(len(rows), -1).astype(np.float64))
        known = draws.sums.of_fit(places)
        whole = reduce(GaussianSums.joined, (GaussianSums.of(block, places) for _, block in blocks), known)
        return self._drawn(context, range(draws.count), whole, first.reshape(len(first), -1).astype(np.float64))

    @property
    def measured_rows(self) -> int:
        """The first 4,096 rows tell what views usually say."""
        return MEASURED

    def spans(self, rows: int) -> list[range]:
        """At most eight spans of blocks of 1,024 rows."""
        return spans(rows)

    def sums(self, context: FitContext, which: range, chosen: Sequence[range]) -> Iterator[list[GaussianSums]]:
        """The sums over each of these spans of blocks, the same for all draws, in one pass over the rows."""
        places, number, waiting = _network(context).places, 0, list(chosen)
        found: list[GaussianSums] = []
        for rows in whole_blocks(context.rows, ROWS):
            for place, block in in_blocks(rows, number):
                if not waiting:
                    return
                if place not in waiting[0]:
                    continue
                found.append(GaussianSums.of(block.astype(np.float64), places))
                if place == waiting[0][-1]:
                    yield [reduce(GaussianSums.joined, found)] * len(which)
                    del waiting[0]
                    found = []
            number += -(-len(rows) // ROWS)

    def _drawn(
        self, context: FitContext, which: range, sums: GaussianSums, measured: Float[np.ndarray, "n values"]
    ) -> Draws:
        usual = self._usual(sums, measured, _network(context))
        states = [NormalWishartState.of(view, self.shrinkage) for view in sums.views]
        draws = self.stacked(context, (self._weights(context, states, usual, draw) for draw in which), len(which))
        return replace(draws, sums=KeptGaussianSums.of(sums, len(which))) if self.keep_sums else draws

    def _usual(
        self, sums: GaussianSums, measured: Float[np.ndarray, "n values"], network: LinearViewsNetwork
    ) -> list[tuple[float, float]]:
        """Mean and deviation of what each view says of the first rows, by the Gaussian of all others."""
        told: list[list[np.ndarray]] = [[] for _ in network.places]
        stretches = min(STRETCHES, len(measured))
        bounds = [place * len(measured) // stretches for place in range(stretches + 1)]
        for start, stop in pairwise(bounds):
            rows = measured[start:stop]
            others = sums.joined(GaussianSums.of(rows, network.places), -1) if sums.rows > len(rows) else sums
            for found, view, places in zip(told, others.views, network.places, strict=True):
                distances = NormalWishartState.of(view, self.shrinkage).distances(rows[:, places])
                found.append(log_of(distances + SMALLEST_DISTANCE))
        return [_middle_and_spread(np.concatenate(found)) for found in told]

    def _weights(
        self, context: FitContext, states: Sequence[NormalWishartState], usual: Sequence[tuple[float, float]], draw: int
    ) -> Weights:
        own = stream(context.seed, DRAW_NUMBERS, draw)
        weights: Weights = {}
        for view, (state, (middle, spread)) in enumerate(zip(states, usual, strict=True)):
            mean, factor, volume = state.drawn(own)
            single = {VOLUME: volume, NOISE: state.noise, MIDDLE: middle, SPREAD: spread}
            made = {MEAN: mean, FACTOR: factor} | {name: np.array([value]) for name, value in single.items()}
            weights |= {name_of(view, name): value for name, value in made.items()}
        return {name: weights[name] for name in context.autoencoder.shapes()}


def _network(context: FitContext) -> LinearViewsNetwork:
    network = context.autoencoder.network
    assert isinstance(network, LinearViewsNetwork)
    return network


def _first_rows(context: FitContext) -> Float[np.ndarray, "n values"]:
    return first_rows(context.rows, MEASURED).astype(np.float64)


def _middle_and_spread(told: Float[np.ndarray, " n"]) -> tuple[float, float]:
    middle = float(np.cumsum(told)[-1]) / len(told)
    apart = told - middle
    return middle, max(float(np.sqrt(np.cumsum(apart * apart)[-1] / len(told))), SMALLEST_SPREAD)
