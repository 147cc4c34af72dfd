r"""Prototypes: a draw remembers a random part of the good rows, and takes a row for the mean of those nearest to it.

    a_j(x) = softmax_j(-||x - c_j||^2_w / (2 h^2)),    x^ = sum_j a_j(x) c_j

With rows c_j seen under Gaussian noise of variance h^2 this is E[clean row | x]: for the remembered rows the best
denoising autoencoder there can be, in closed form (Alain & Bengio 2014). Its encoder is the attention a, its decoder
the rows c_j; as h goes to 0, it becomes the nearest neighbour. Which rows a draw remembers is random, as in the
bootstrap, so that draws agree where rows are dense and differ where they are few.

No epochs and no rate: h^2 is a share of the usual squared distance to the fifth neighbour. Features that the others
tell (whose error stays small when a row is taken for the mean of a wide neighbourhood without itself) count for more,
by one over that error. docs/default.md has what was tried.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Float
from pydantic import Field

from indubio.errors import ConfigError
from indubio.networks import (
    DECODER,
    ENCODER,
    LOG_VARIANCE,
    Architecture,
    Attention,
    Autoencoder,
    FitContext,
    TrainingRows,
    Weights,
    whole_blocks,
)
from indubio.numerics import GROUP, Shape, Stream, exponential, product, stream
from indubio.posteriors.computed_draws import ClosedFormPosterior
from indubio.posteriors.draws import Draws
from indubio.settings import AtLeastOne, Positive

CHOICE_NUMBERS = 5  # purpose of the random stream
NEIGHBOUR = 5  # whose squared distance is the unit of h^2
WIDE = 1.0  # h^2 of the neighbourhood that weighs features, in this unit
SMALLEST_ERROR = 1e-2  # of a feature, in scaled units: what is told by the others to within this is told
SMALLEST_DISTANCE = 1e-4  # squared, per value: rows that repeat have no distance


@dataclass(frozen=True, kw_only=True)
class Prototypes(ClosedFormPosterior):
    """Attention to remembered rows; each draw remembers others.

    Args:
        draws: how many, M.
        share: of the rows that a draw remembers.
        most: rows that a draw remembers at most.
        bandwidth: h^2, in units of the usual squared distance to the fifth neighbour.

    Examples:
        A row is taken for the mean of the remembered rows that are nearest to it.

        >>> import numpy as np
        >>> from indubio.networks import Attention, Autoencoder, StudentLikelihood
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
        >>> autoencoder = Autoencoder(Attention(units=30).build((3,)), StudentLikelihood(noise="per_feature"))
        >>> draws = Prototypes(draws=4).fit(autoencoder, rows, training=Training(), seed=0)
        >>> near, far = draws.nll(np.float32([[0, 0, 0], [9, -9, 9]])).mean(axis=0)
        >>> bool(near < far)
        True
    """

    NETWORK: ClassVar[type[Architecture]] = Attention

    draws: AtLeastOne = 5
    share: Annotated[float, Field(gt=0, le=1)] = 0.9
    most: AtLeastOne = 1100
    bandwidth: Positive = 0.05

    @property
    def count(self) -> int:
        """As many draws as the settings say."""
        return self.draws

    def architecture_for(self, input_shape: Shape, rows: int) -> Attention:
        """A unit for each row that is remembered."""
        del input_shape
        return Attention(units=min(self.most, max(1, int(self.share * rows))))

    def some_draws(self, context: FitContext, which: range) -> Draws:
        """Some of the draws, each from the rows that it remembers."""
        return self.stacked(context, self._weights_of(context, which), len(which))

    def _weights_of(self, context: FitContext, which: range) -> Iterator[Weights]:
        units = context.autoencoder.network.latent_shape[0]
        choices = [stream(context.seed, CHOICE_NUMBERS, draw) for draw in which]
        for rows in _remembered(context.rows, units, choices):
            yield _weights(context.autoencoder, rows.astype(np.float64), self.bandwidth)


def _remembered(rows: TrainingRows, units: int, choices: list[Stream]) -> list[Float[np.ndarray, "units values"]]:
    """For each stream, the rows with the smallest random numbers, in one pass over all rows."""
    if len(rows) < units:
        raise ConfigError(
            "{units} rows to remember need at least as many rows, got {count}: fewer `units`.",
            units=units,
            count=len(rows),
        )
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    for block in whole_blocks(rows, GROUP):
        for place, choice in enumerate(choices):
            numbers, own = choice.uniform((len(block),), 1.0), block
            if place < len(kept):
                numbers, own = np.concatenate([kept[place][0], numbers]), np.concatenate([kept[place][1], block])
            first = np.sort(np.argsort(numbers, kind="stable")[:units])
            kept[place : place + 1] = [(numbers[first], own[first])]
    return [own for _, own in kept]


def _weights(autoencoder: Autoencoder, rows: Float[np.ndarray, "units values"], bandwidth: float) -> Weights:
    units, values = rows.shape
    importance, square, noise = np.ones(values), float(values), 1.0
    if units > 2:
        importance = _importance(rows)
        weighted = rows * np.sqrt(importance)
        distances = _distances(weighted)
        square = bandwidth * _usual(distances, values)
        error = weighted - product(_attention(distances, square), weighted)
        noise = max(float(np.cumsum(error * error)[-1]) / error.size, SMALLEST_DISTANCE)
    scaled = rows * importance
    weights = {
        f"{ENCODER}.weight": (scaled / square).T,
        f"{ENCODER}.bias": -np.cumsum(rows * scaled, axis=1)[:, -1] / (2 * square),
        f"{DECODER}.weight": rows,
        f"{DECODER}.bias": np.zeros(values),
        LOG_VARIANCE: np.log(noise / importance).reshape(autoencoder.network.input_shape),
    }
    return {name: weights[name] for name in autoencoder.shapes()}


def _importance(rows: Float[np.ndarray, "units values"]) -> Float[np.ndarray, " values"]:
    """What a squared distance of each value counts for: one over its error, 1 on the mean; 1 where it is constant."""
    distances = _distances(rows)
    error = rows - product(_attention(distances, WIDE * _usual(distances, rows.shape[1])), rows)
    size = np.sqrt(np.cumsum(error * error, axis=0)[-1] / len(rows))
    varies = rows.min(axis=0) < rows.max(axis=0)
    if not varies.any():
        return np.ones(rows.shape[1])
    counts = 1 / np.maximum(size, SMALLEST_ERROR)
    return np.asarray(np.where(varies, counts / (np.cumsum(counts[varies])[-1] / varies.sum()), 1.0))


def _distances(rows: Float[np.ndarray, "units values"]) -> Float[np.ndarray, "units units"]:
    """Squared, of every pair; of a row to itself infinite, so that it is not its own neighbour."""
    squares = np.cumsum(rows * rows, axis=1)[:, -1]
    distances: np.ndarray = np.maximum(squares[:, None] + squares - 2 * product(rows, rows.T), 0.0)
    np.fill_diagonal(distances, np.inf)
    return distances


def _usual(distances: Float[np.ndarray, "units units"], values: int) -> float:
    """The median over the rows of the squared distance to the fifth neighbour."""
    place = min(NEIGHBOUR, len(distances) - 1) - 1
    return max(float(np.median(np.partition(distances, place, axis=1)[:, place])), SMALLEST_DISTANCE * values)


def _attention(distances: Float[np.ndarray, "units units"], square: float) -> Float[np.ndarray, "units units"]:
    """How much every row attends to all others."""
    nearest = distances.min(axis=1, keepdims=True)
    share = exponential((nearest - distances) / (2 * square))
    np.fill_diagonal(share, 0.0)
    return np.asarray(share / product(share, np.ones((len(share), 1))))
