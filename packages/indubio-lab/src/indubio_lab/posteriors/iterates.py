"""The places that gradient descent comes to: their Gaussian, and the largest rate at which they are not too far."""

from collections.abc import Callable, Sequence
from math import prod, sqrt

import numpy as np
from jaxtyping import Float

from indubio.errors import TrainingError
from indubio.networks import FitContext, Leg, engine_for, stretches, temperature_of, walk
from indubio.numerics import Stream, product

TRIES = 7  # rates, each a tenth of the one before
SAMPLES = 10  # of a Gaussian, whose scores are looked at
MOST_ROWS = 256  # whose scores are looked at


class Iterates:
    """What is remembered of the places that weights came to.

    Args:
        rank: how many of the last ones are kept apart.
    """

    def __init__(self, rank: int) -> None:
        self.count, self._rank = 0, rank
        self._sum: np.ndarray = np.zeros(1)
        self._squares: np.ndarray = np.zeros(1)
        self._last: list[np.ndarray] = []

    def add(self, weights: Float[np.ndarray, " p"]) -> None:
        """Take one more iterate into the average."""
        exact = weights.astype(np.float64)
        self._sum, self._squares, self.count = self._sum + exact, self._squares + exact * exact, self.count + 1
        self._last = [*self._last, (exact - self.mean).astype(weights.dtype)][-self._rank :]

    @property
    def mean(self) -> Float[np.ndarray, " p"]:
        """The mean of the iterates so far."""
        return np.asarray(self._sum / self.count)

    @property
    def variances(self) -> Float[np.ndarray, " p"]:
        """The variance of every weight; rounding makes none negative."""
        return np.asarray(np.maximum(self._squares / self.count - self.mean * self.mean, 0.0))

    @property
    def deviations(self) -> Float[np.ndarray, "k p"]:
        """How far each of the last ones was from the mean of all up to it, a row each."""
        return np.stack(self._last)

    def drawn(self, own: Stream, draws: int) -> Float[np.ndarray, "draws p"]:
        """Samples of the Gaussian whose covariance is half that of each weight, and half that of the last ones."""
        deviations = self.deviations
        each = own.normal((draws, deviations.shape[1]))
        together = own.normal((draws, len(deviations))).astype(deviations.dtype)
        off = np.sqrt(self.variances / 2) * each
        off += product(together, deviations) / sqrt(2 * max(1, len(deviations) - 1))
        return np.asarray(self.mean + off)


def steady(
    context: FitContext,
    values: Float[np.ndarray, "1 p"],
    own: Stream,
    rates: Sequence[float],
    legs_at: Callable[[float], Sequence[Leg]],
    *,
    rank: int | None = None,
) -> tuple[float, Iterates]:
    """The first rate that does not lead too far, else the last one; and the places that were kept at it.

    It leads too far where rows score worse than where the way began by more than half a nat a value, which is what a
    posterior costs that has as many free weights as there are values.

    Args:
        context: rows, batches and noise on them.
        values: where to begin.
        own: random numbers of the way.
        rates: that are tried, from large to small.
        legs_at: the way at a rate.
        rank: of the `Iterates`, whose Gaussian is judged; None judges the places themselves.
    """
    noise = temperature_of(context, values) * prod(context.autoencoder.network.input_shape)
    bound = mean_score(context, values) + noise / 2
    for rate in rates:
        found, scores = Iterates(rank or 1), []
        try:
            for place in walk(context, values, own, legs_at(rate)):
                found.add(place.weights[0])
                if rank is None:
                    scores.append(mean_score(context, place.weights))
        except TrainingError:
            if rate == rates[-1]:
                raise
            continue
        if rank is not None:
            scores = [mean_score(context, found.drawn(own, SAMPLES).astype(values.dtype))]
        if sum(scores) / len(scores) <= bound:
            break
    return rate, found


def falling(rate: float) -> list[float]:
    """A rate and those below it that are tried."""
    return [rate / 10**power for power in range(TRIES)]


def mean_score(context: FitContext, weights: Float[np.ndarray, "c p"]) -> float:
    """Mean NLL of some training rows under these networks."""
    rows = next(stretches(context.rows, 0, MOST_ROWS))[:MOST_ROWS]
    nll = engine_for(context.autoencoder).scorer(len(weights), weights, None, None).nll(rows)
    return float(np.cumsum(nll, dtype=np.float64)[-1] / nll.size)
