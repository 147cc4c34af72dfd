r"""Random features: an encoder of random cosines, and the decoder from its exact posterior.

    phi(x) = [cos(W x + b), 1],   x^ = B^T phi(x),   B | rows ~ N((A + lambda n I)^-1 R, s^2 (A + lambda n I)^-1)

W and b are drawn and never trained (Rahimi & Recht 2008). The decoder then is a Bayesian linear regression from noisy
copies of the rows to the rows themselves, whose posterior is a Gaussian in closed form: a draw is one W and b, and one
B. `NormalEquations` has the sums A and R, which rows can be added to at any time. docs/default.md has what was tried.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from indubio.errors import ConfigError
from indubio.networks import (
    DECODER,
    ENCODER,
    ENCODER_NUMBERS,
    LOG_VARIANCE,
    ROWS,
    Architecture,
    Autoencoder,
    Cosine,
    Cosines,
    FitContext,
    KeptSums,
    NormalEquations,
    Solution,
    Weights,
    first_rows,
    in_blocks,
    root_mean_square,
    spans,
    whole_blocks,
)
from indubio.numerics import Shape, stream
from indubio.posteriors.computed_draws import ClosedFormPosterior
from indubio.posteriors.draws import Draws
from indubio.prepare import Scaling, ZScore
from indubio.settings import AtLeastOne, NotNegative, Positive

DECODER_NUMBERS = 6  # purpose of the random stream of the decoder's draw
NOISY_ROWS, MOST_COPIES = 5000, 20  # few rows are copied until there are so many, but not more often than this
TRIED = 4 * ROWS  # rows that the errors are measured on


@dataclass(frozen=True, kw_only=True)
class RandomFeatures(ClosedFormPosterior):
    """Random cosines, and a linear decoder from its exact posterior.

    Args:
        draws: how many, M.
        units: cosines of a draw.
        lowest_noise: smallest standard deviation of the noise of a copy, in scaled units; 0 for no noise.
        highest_noise: the largest; it is log-uniform in between.
        copies: noisy copies of every row; None is as many as make 5,000 noisy rows, at most 20.
        ridge: lambda, the decoder's prior, per row; None is the one with the largest evidence, for every draw.
        keep_sums: keep what the decoders follow from, and the rows that calibrate, so that `Detector.update` needs no
            training data. A model is then larger by 8 units^2 bytes a draw (51 MB by default) and these rows.

    Examples:
        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Cosines, StudentLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
        >>> autoencoder = Autoencoder(Cosines(units=50).build((3,)), StudentLikelihood(noise="per_feature"))
        >>> draws = RandomFeatures(draws=4, units=50).fit(autoencoder, rows, training=Training(), seed=0)
        >>> near, far = draws.nll(np.float32([[0, 0, 0], [9, -9, 9]])).mean(axis=0)
        >>> bool(near < far)
        True
    """

    NETWORK: ClassVar[type[Architecture]] = Cosines
    SCALING: ClassVar[Scaling] = ZScore()  # the cosines are drawn for values of unit variance

    draws: AtLeastOne = 10
    units: AtLeastOne = 800
    lowest_noise: NotNegative = 0.1
    highest_noise: NotNegative = 1.0
    copies: AtLeastOne | None = None
    ridge: Positive | None = None
    keep_sums: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.highest_noise < self.lowest_noise or (self.lowest_noise == 0 < self.highest_noise):
            raise ConfigError(
                "`highest_noise` must be at least `lowest_noise`, and both 0 or none, got {highest_noise} and "
                "{lowest_noise}.",
                highest_noise=self.highest_noise,
                lowest_noise=self.lowest_noise,
            )

    @property
    def count(self) -> int:
        """As many draws as the settings say."""
        return self.draws

    def architecture_for(self, input_shape: Shape, rows: int) -> Cosines:
        """An architecture with as many units as the settings say."""
        del input_shape, rows
        return Cosines(units=self.units)

    def some_draws(self, context: FitContext, which: range) -> Draws:
        """Some of the draws, from one pass over the rows."""
        self.check_likelihood(context.autoencoder.likelihood)
        return self.draws_from(context, which, self.sums(context, which, spans(len(context.rows))))

    def draws_from(self, context: FitContext, which: range, parts: Iterable[Sequence[NormalEquations]]) -> Draws:
        """Some of the draws.

        Args:
            context: as for `some_draws`.
            which: of all draws.
            parts: sums of each of them over spans of rows, one span after the other.
        """
        sums = [self.no_sums(context, draw) for draw in which]
        for part in parts:
            sums = [whole.joined([one]) for whole, one in zip(sums, part, strict=True)]
        return self._drawn(context, which, sums, first_rows(context.rows, TRIED))

    def extended(self, draws: Draws, context: FitContext, first: Float[np.ndarray, "n ..."]) -> Draws:
        """The draws with more rows: what fitting all rows at once would give, the new ones in blocks of their own.

        Args:
            draws: all of one fit, with their sums.
            context: the new rows alone, and the seed of that fit.
            first: the first rows of all, `measured_rows` of them.
        """
        assert isinstance(draws.sums, KeptSums)
        weight, bias = (draws.weights[f"{ENCODER}.{name}"].astype(np.float64) for name in ("weight", "bias"))
        rows, sums = context.rows, []
        assert isinstance(rows, np.ndarray)
        for draw in range(draws.count):
            known = draws.sums.of_draw(draw, Cosine(weight[draw], bias[draw]))
            blocks = in_blocks(rows.reshape(len(rows), -1), known.blocks)
            sums.append(known.with_rows(blocks, self._noise, context.seed, draw))
        return self._drawn(context, range(draws.count), sums, first.reshape(len(first), -1))

    @property
    def measured_rows(self) -> int:
        """The first 4,096 rows tell the errors."""
        return TRIED

    def spans(self, rows: int) -> list[range]:
        """At most eight spans of blocks of 1,024 rows."""
        return spans(rows)

    def sums(self, context: FitContext, which: range, chosen: Sequence[range]) -> Iterator[list[NormalEquations]]:
        """The sums of each of these draws over each of these spans of blocks, in one pass over the rows."""
        none = [self.no_sums(context, draw) for draw in which]
        waiting, number = list(chosen), 0
        sums = none
        for rows in whole_blocks(context.rows, ROWS):
            for place, block in in_blocks(rows, number):
                if not waiting:
                    return
                if place not in waiting[0]:
                    continue
                sums = [
                    one.with_rows([(place, block)], self._noise, context.seed, draw)
                    for one, draw in zip(sums, which, strict=True)
                ]
                if place == waiting[0][-1]:
                    yield sums
                    del waiting[0]
                    sums = none
            number += -(-len(rows) // ROWS)

    def no_sums(self, context: FitContext, draw: int) -> NormalEquations:
        """The sums of a draw before the first row."""
        return NormalEquations.none(self.encoder(context, draw), self.copies_of(len(context.rows)))

    def _drawn(
        self, context: FitContext, which: range, sums: Sequence[NormalEquations], tried: Float[np.ndarray, "n values"]
    ) -> Draws:
        draws = self.stacked(context, self._solved(context, which, sums, tried.astype(np.float64)), len(which))
        return replace(draws, sums=KeptSums.of(sums)) if self.keep_sums else draws

    def _solved(
        self, context: FitContext, which: range, sums: Sequence[NormalEquations], tried: Float[np.ndarray, "n values"]
    ) -> Iterator[Weights]:
        for draw, one in zip(which, sums, strict=True):
            solution = one.solution(self.ridge)
            drawn = solution.drawn(stream(context.seed, DECODER_NUMBERS, draw))
            yield _weights(context.autoencoder, solution, drawn, tried)

    @property
    def _noise(self) -> tuple[float, float]:
        return self.lowest_noise, self.highest_noise

    def encoder(self, context: FitContext, draw: int) -> Cosine:
        """The random encoder of a draw."""
        first = context.autoencoder.network.shapes()[f"{ENCODER}.weight"]
        return Cosine.drawn(stream(context.seed, ENCODER_NUMBERS, draw), *first)

    def copies_of(self, rows: int) -> int:
        """Noisy copies of each of so many rows."""
        if self.copies is not None or self.highest_noise == 0:
            return self.copies or 1
        return max(1, min(MOST_COPIES, NOISY_ROWS // rows))


def _weights(autoencoder: Autoencoder, solution: Solution, decoder: np.ndarray, tried: np.ndarray) -> Weights:
    encoder, error = solution.sums.encoder, np.maximum(root_mean_square(solution.residuals(tried, decoder)), 1e-3)
    # Half-way between one scale for all values and one for each, which measured best; the mean score stays the same.
    variance = error * (np.cumsum(error)[-1] / len(error))
    weights = {
        f"{ENCODER}.weight": encoder.weight,
        f"{ENCODER}.bias": encoder.bias,
        f"{DECODER}.weight": decoder[:-1],
        f"{DECODER}.bias": decoder[-1],
        LOG_VARIANCE: np.log(variance).reshape(autoencoder.network.input_shape),
    }
    return {name: weights[name] for name in autoencoder.shapes()}
