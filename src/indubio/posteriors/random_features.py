r"""Random features: an encoder of random cosines, and the decoder from its exact posterior.

    phi(x) = [cos(W x + b), 1],   x^ = B^T phi(x),   B | rows ~ N((A + lambda n I)^-1 R, s^2 (A + lambda n I)^-1)

W and b are drawn and never trained (Rahimi & Recht 2008). The decoder then is a Bayesian linear regression from noisy
copies of the rows to the rows themselves, whose posterior is a Gaussian in closed form: a draw is one W and b, and one
B. `NormalEquations` has the sums A and R, which rows can be added to at any time. docs/default.md has what was tried.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from indubio.engine import stream
from indubio.errors import ConfigError
from indubio.inputs import ZScore
from indubio.inputs.scaling import Scaling
from indubio.networks import Architecture, Autoencoder, Cosines
from indubio.networks.hidden_layer import DECODER, ENCODER
from indubio.networks.layers import Shape, Weights
from indubio.networks.likelihoods import LOG_VARIANCE
from indubio.posteriors.computed_draws import ClosedFormPosterior
from indubio.settings import AtLeastOne, NotNegative, Positive
from indubio.training.network_fits import FitContext
from indubio.training.normal_equations import (
    ENCODER_NUMBERS,
    ROWS,
    Cosine,
    NormalEquations,
    Solution,
    in_blocks,
    root_mean_square,
)
from indubio.training.rows import whole_blocks

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

    Example:
        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Cosines, StudentLikelihood
        >>> from indubio.posteriors import Training
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.highest_noise < self.lowest_noise or (self.lowest_noise == 0 < self.highest_noise):
            raise ConfigError(
                f"`highest_noise` must be at least `lowest_noise`, and both 0 or none, got {self.highest_noise} and "
                f"{self.lowest_noise}."
            )

    @property
    def count(self) -> int:
        """As many draws as the settings say."""
        return self.draws

    def architecture_for(self, input_shape: Shape, rows: int) -> Cosines:
        """As many units as the settings say."""
        del input_shape, rows
        return Cosines(units=self.units)

    def weights_of(self, context: FitContext, which: range) -> Iterator[Weights]:
        """Of each of these draws, from the sums over all rows."""
        for draw in which:
            sums, tried = self.sums(context, draw)
            solution = sums.solution(self.ridge)
            yield _weights(
                context.autoencoder, solution, solution.drawn(stream(context.seed, DECODER_NUMBERS, draw)), tried
            )

    def sums(self, context: FitContext, draw: int) -> tuple[NormalEquations, np.ndarray]:
        """The normal equations of a draw after one pass over the rows, and the first rows."""
        encoder = self.encoder(context, draw)
        sums = NormalEquations.none(encoder, self.copies_of(len(context.rows)))
        noise, number, first = (self.lowest_noise, self.highest_noise), 0, []
        for rows in whole_blocks(context.rows, ROWS):
            blocks = in_blocks(rows, number)
            sums = sums.with_rows(blocks, noise, context.seed, draw)
            if number < TRIED // ROWS:
                first.append(rows[: TRIED - number * ROWS])
            number += len(blocks)
        return sums, np.concatenate(first).astype(np.float64)

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
