r"""The engine of linear views: scores by products of the core, in double precision. Nothing is trained here.

    q_v = (x_v - mean)^T P (x_v - mean) / D_v         P = W W^T, of view v
    one view:       nll = (q + log 2 pi) / 2 - log det W / D
    several:        t_v = (log q_v - middle) / spread,     nll = log mean_v exp t_v

With one view the score is the Gaussian's. Views of the same window are no independent witnesses, whose densities could
be multiplied: each is made comparable by what good rows score that were held out, and the mean is over exponentials, so
that the strangest view counts for most.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from indubio.errors import EngineError
from indubio.networks.autoencoder import Autoencoder
from indubio.networks.layers import Weights
from indubio.networks.linear_views import FACTOR, MEAN, MIDDLE, NOISE, SPREAD, VOLUME, LinearViewsNetwork, name_of
from indubio.numerics import exponential, product
from indubio.prepare import log_of

LOG_2_PI = 1.8378770664093453
SMALLEST = 1e-30  # of q: a row at the mean has a logarithm too
VALUES_AT_ONCE = 2**19  # bounds the memory


class ViewsEngine:
    """Runs linear views.

    Args:
        autoencoder: of such a network.
    """

    name, by_network = "linear views", False

    def __init__(self, autoencoder: Autoencoder) -> None:
        assert isinstance(autoencoder.network, LinearViewsNetwork)
        self._autoencoder, self._network = autoencoder, autoencoder.network

    def scorer(
        self,
        count: int,
        values: Float[np.ndarray, "w p"],
        masks: tuple[Float[np.ndarray, "m _"], ...] | None,
        noise: Float[np.ndarray, "m ..."] | None,
    ) -> "ViewsScorer":
        """What scores rows under draws with these weights; arguments as in `Engine.scorer`."""
        assert masks is None
        assert noise is None
        return ViewsScorer(self._network, self._autoencoder.named(values), count, values.dtype)

    def trainer(self, *_: Any, **__: Any) -> Any:
        """Linear views are not trained by steps."""
        raise EngineError("linear views are computed, not trained.")

    def sampler(self, *_: Any, **__: Any) -> Any:
        """Nor are they places of a chain."""
        raise EngineError("linear views are computed, not sampled by a chain.")

    def gradient(self, *_: Any, **__: Any) -> Any:
        """Nor has anybody asked for their gradient."""
        raise EngineError("linear views are computed, without a gradient.")


@dataclass(frozen=True, eq=False)
class View:
    """One view under all draws; products are of all of them at once.

    Args:
        places: of its features.
        mean: (M, D).
        factor: W (M, D, D).
        volume: log det W.
        noise: of the reconstruction.
        middle: of log q among good rows.
        spread: likewise.
    """

    places: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    volume: np.ndarray
    noise: np.ndarray
    middle: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, network: LinearViewsNetwork, weights: Weights, draws: int) -> "list[View]":
        """All views of so many draws, which may share their weights."""
        kinds, found = (MEAN, FACTOR, VOLUME, NOISE, MIDDLE, SPREAD), []
        for number, places in enumerate(network.places):
            given = (weights[name_of(number, kind)].astype(np.float64) for kind in kinds)
            mean, factor, *single = (np.broadcast_to(one, (draws, *one.shape[1:])) for one in given)
            found.append(cls(places, mean, factor, *(one[:, 0] for one in single)))
        return found

    @cached_property
    def side_by_side(self) -> Float[np.ndarray, "features white"]:
        """The factors of all draws side by side."""
        return np.ascontiguousarray(self.factor.transpose(1, 0, 2).reshape(self.factor.shape[1], -1))

    @cached_property
    def at_mean(self) -> Float[np.ndarray, "draws features"]:
        """What the mean becomes."""
        return np.stack([product(mean[None], factor)[0] for mean, factor in zip(self.mean, self.factor, strict=True)])

    def white(self, rows: Float[np.ndarray, "n values"]) -> Float[np.ndarray, "n draws features"]:
        """(x - mean)^T W of every row, under every draw."""
        own = np.ascontiguousarray(rows[:, self.places])
        return np.asarray(product(own, self.side_by_side).reshape(len(rows), *self.at_mean.shape) - self.at_mean)

    def pulled(self, white: Float[np.ndarray, "n features"], draw: int) -> Float[np.ndarray, "n features"]:
        """P (x - mean), under one draw."""
        return product(np.ascontiguousarray(white), np.ascontiguousarray(self.factor[draw].T))


class ViewsScorer:
    """Draws of linear views as functions of rows.

    Args:
        network: the views.
        weights: of every draw, or of all.
        draws: how many, M.
        dtype: of the scores.
    """

    def __init__(self, network: LinearViewsNetwork, weights: Weights, draws: int, dtype: np.dtype[Any]) -> None:
        self._dtype, self._shape = dtype, network.input_shape
        self._views, self._draws = View.of(network, weights, draws), draws
        self._middle = np.stack([view.middle for view in self._views])
        self._spread = np.stack([view.spread for view in self._views])
        self._at_once = max(1, VALUES_AT_ONCE // (self._draws * max(len(view.places) for view in self._views)))

    def nll(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "m n"]:
        """The score of every row under every draw."""
        blocks = [self._scores(self._distances(block)).T for block in self._blocks(rows)]
        return np.concatenate(blocks, axis=1).astype(self._dtype) if blocks else self._none()

    def nll_apart(
        self, rows: Float[np.ndarray, "n ..."]
    ) -> tuple[Float[np.ndarray, "m n"], Float[np.ndarray, "m n ..."]]:
        """The scores of `nll`, to the bit, and the score of every value: x (P x) of it, as a share of the whole."""
        whole = self.nll(rows)
        apart = np.empty((self._draws, *rows.shape), self._dtype)
        flat, start = apart.reshape(self._draws, len(rows), -1), 0
        for block in self._blocks(rows):
            flat[:, start : start + len(block)] = self._apart(block)
            start += len(block)
        return whole, apart

    def reconstruction(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "m n ..."]:
        """What every draw takes every row for: what it would be without the noise that the prior expects."""
        found = np.empty((self._draws, *rows.shape), self._dtype)
        flat, start = found.reshape(self._draws, len(rows), -1), 0
        for block in self._blocks(rows):
            for view in self._views:
                white, own = view.white(block), block[:, view.places]
                for draw in range(self._draws):
                    pulled = view.noise[draw] * view.pulled(white[:, draw], draw)
                    flat[draw, start : start + len(block), view.places] = (own - pulled).T
            start += len(block)
        return found

    def variance(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "m n ..."]:
        """The noise is one number: no decoder gives it."""
        del rows
        raise EngineError("linear views give no variance of single values.")

    def _none(self) -> Float[np.ndarray, "m 0"]:
        return np.empty((self._draws, 0), self._dtype)

    def _blocks(self, rows: Float[np.ndarray, "n ..."]) -> list[Float[np.ndarray, "block values"]]:
        flat = rows.reshape(len(rows), -1)
        starts = range(0, len(flat), self._at_once)
        return [flat[start : start + self._at_once].astype(np.float64) for start in starts]

    def _distances(self, block: Float[np.ndarray, "n values"]) -> Float[np.ndarray, "views n draws"]:
        """The mean of q over a view's features, of every view."""
        return np.stack([_squares(view.white(block)) / len(view.places) for view in self._views])

    def _scores(self, distances: Float[np.ndarray, "views n draws"]) -> Float[np.ndarray, "n draws"]:
        if len(self._views) == 1:
            (view,) = self._views
            return np.asarray(0.5 * (distances[0] + LOG_2_PI) - view.volume / len(view.places))
        return self._joined(distances)[0]

    def _joined(
        self, distances: Float[np.ndarray, "views n draws"]
    ) -> tuple[Float[np.ndarray, "n draws"], Float[np.ndarray, "views n draws"]]:
        """Log mean exp of what the views say, and the share of each in it."""
        told = (log_of(distances + SMALLEST) - self._middle[:, None]) / self._spread[:, None]
        largest = told.max(axis=0)
        counts = exponential(np.ascontiguousarray(told - largest))
        whole = np.add.accumulate(counts, axis=0)[-1]
        return largest + log_of(whole / len(self._views)), counts / whole

    def _apart(self, block: Float[np.ndarray, "n values"]) -> Float[np.ndarray, "draws n values"]:
        whites = [view.white(block) for view in self._views]
        squares = [_squares(white) for white in whites]
        sizes = [len(view.places) for view in self._views]
        score, shares = None, None
        if len(self._views) > 1:
            score, shares = self._joined(np.stack([own / size for own, size in zip(squares, sizes, strict=True)]))
        out = np.empty((self._draws, *block.shape))
        for place, (view, white) in enumerate(zip(self._views, whites, strict=True)):
            for draw in range(self._draws):
                parts = (block[:, view.places] - view.mean[draw]) * view.pulled(white[:, draw], draw)
                if score is None or shares is None:
                    parts = 0.5 * (parts + LOG_2_PI) - view.volume[draw] / sizes[place]
                else:
                    counts = score[:, draw] * shares[place, :, draw] * block.shape[1]
                    parts *= (counts / (squares[place][:, draw] + SMALLEST))[:, None]
                out[draw][:, view.places] = parts
        return out


def _squares(white: Float[np.ndarray, "n draws features"]) -> Float[np.ndarray, "n draws"]:
    """Squared lengths, added up in order."""
    return np.asarray(np.add.accumulate(white * white, axis=-1)[..., -1])
