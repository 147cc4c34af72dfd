r"""Sums over rows that a Gaussian follows from, and its normal-inverse-Wishart posterior.

    n,  sum x,  sum x x^T,  sum |x|^2 x,  sum |x|^4                             rows are added at any time
    a = shrinkage of Ledoit & Wolf (2004), tau = mean variance, k = a n / (1 - a)
    prior       S ~ IW(k tau I, k + D + 1),  the mean anywhere:  S has the mean tau I
    posterior   S ~ IW(k tau I + n C, k + D + n),  mean | S ~ N(x_mean, S / n)

so that the posterior mean of S is the shrunk covariance but for terms of 1 / n. The fourth powers are what the formula
of Ledoit and Wolf needs of the rows, besides their covariance C: prior strength by sums alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import sqrt

import numpy as np
from jaxtyping import Float, Float64, Int

from indubio.numerics import Stream, back, cholesky, forward, gram, product, sum_in_order
from indubio.prepare import log_of

LEAST, MOST = 1e-4, 0.99  # shrinkage: features that say the same, or two rows, have a covariance too
SMALLEST = 1e-30  # of a number with a logarithm
CANDIDATES = 8  # for a gamma number; that none of them is taken has a chance of 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class ViewSums:
    """The sums over the rows of one view.

    Args:
        rows: n.
        total: sum x.
        pairs: sum x x^T.
        cubes: sum |x|^2 x.
        fourths: sum |x|^4.
    """

    rows: int
    total: Float[np.ndarray, " features"]
    pairs: Float[np.ndarray, "features features"]
    cubes: Float[np.ndarray, " features"]
    fourths: float

    @classmethod
    def of(cls, rows: Float[np.ndarray, "n features"]) -> "ViewSums":
        """The sums over these rows."""
        squares = sum_in_order(np.ascontiguousarray((rows * rows).T))
        return cls(
            rows=len(rows),
            total=product(np.ones((1, len(rows))), rows)[0],
            pairs=gram(rows),
            cubes=product(squares[None], rows)[0],
            fourths=float(np.cumsum(squares * squares)[-1]) if len(rows) else 0.0,
        )

    def joined(self, other: "ViewSums", sign: int = 1) -> "ViewSums":
        """These and others; with sign -1, without others that are among them."""
        return ViewSums(
            rows=self.rows + sign * other.rows,
            total=self.total + sign * other.total,
            pairs=self.pairs + sign * other.pairs,
            cubes=self.cubes + sign * other.cubes,
            fourths=self.fourths + sign * other.fourths,
        )

    @cached_property
    def mean(self) -> Float[np.ndarray, " features"]:
        """Of the rows."""
        return np.asarray(self.total / self.rows)

    @cached_property
    def covariance(self) -> Float[np.ndarray, "features features"]:
        """C, around the mean."""
        return np.asarray(self.pairs / self.rows - self.mean[:, None] * self.mean)

    @cached_property
    def variance(self) -> float:
        """Tau, the mean variance of a feature; 1 where no row differs from another."""
        mean = _total(np.diag(self.covariance)) / len(self.mean)
        return mean if mean > LEAST * LEAST else 1.0

    @cached_property
    def shrinkage(self) -> float:
        """The weight of the prior, as Ledoit and Wolf choose it: where C is known badly, or is tau I, it is large."""
        size, mean = len(self.mean), self.mean
        trace = _total(np.diag(self.pairs))
        square = _total(mean * mean)
        moved = _total(mean * product(self.pairs, mean[:, None])[:, 0])
        fourths = self.fourths + 4 * moved + self.rows * square * square
        fourths += 2 * square * trace - 4 * _total(self.cubes * mean) - 4 * self.rows * square * square
        whole = _total(np.cumsum(self.covariance * self.covariance, axis=0)[-1])
        spread = _total(np.diag(self.covariance))
        apart = whole - spread * spread / size
        unsure = min(max(fourths / self.rows - whole, 0.0) / self.rows, apart)
        return min(max(unsure / apart if apart > 0 else 1.0, LEAST), MOST)


@dataclass(frozen=True, kw_only=True, eq=False)
class NormalWishartState:
    """The posterior of the mean and precision of one view.

    Args:
        sums: what it follows from.
        strength: k, rows that the prior counts for.
        factor: L of the scale k tau I + n C = L L^T.
    """

    sums: ViewSums
    strength: float
    factor: Float[np.ndarray, "features features"]

    @classmethod
    def of(cls, sums: ViewSums, shrinkage: float | None = None) -> "NormalWishartState":
        """The posterior after these rows.

        Args:
            sums: of the rows.
            shrinkage: weight of the prior; None is that of Ledoit and Wolf.
        """
        weight = sums.shrinkage if shrinkage is None else shrinkage
        strength = weight * sums.rows / (1 - weight)
        scale = sums.rows * sums.covariance
        scale[np.diag_indices_from(scale)] += strength * sums.variance
        return cls(sums=sums, strength=strength, factor=cholesky(scale))

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the Wishart distribution of the precision."""
        return self.strength + len(self.factor) + self.sums.rows

    @property
    def noise(self) -> float:
        """What the prior says of every feature, in the mean covariance: x - noise P (x - mean) is x without it."""
        return self.strength * self.sums.variance / self.freedom

    def distances(self, rows: Float[np.ndarray, "n features"]) -> Float[np.ndarray, " n"]:
        """(x - mean)^T E[P] (x - mean) / D of every row."""
        white = forward(self.factor, np.ascontiguousarray((rows - self.sums.mean).T))
        return np.asarray(sum_in_order(white * white) * (self.freedom / len(self.factor)))

    def drawn(self, own: Stream) -> tuple[np.ndarray, np.ndarray, float]:
        """A draw of the mean, of W with W W^T the precision, and log det W.

        W = L^-T A, with A lower triangular: roots of chi-squared numbers on the diagonal, normal ones below (Bartlett).
        """
        size = len(self.factor)
        below = np.tril(own.normal((size, size)).astype(np.float64), -1)
        roots = np.sqrt(chi_squared(self.freedom - np.arange(size), own))
        below[np.diag_indices_from(below)] = roots
        pulled = back(below, own.normal((size, 1)).astype(np.float64))
        mean = self.sums.mean + product(self.factor, pulled)[:, 0] / sqrt(self.sums.rows)
        volume = _total(log_of(roots)) - _total(log_of(np.diag(self.factor)))
        return mean, back(self.factor, below), volume


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianSums:
    """The sums of all views, of one fit.

    Args:
        views: of each.
        blocks: of rows that were added; the next has this number.
    """

    views: tuple[ViewSums, ...]
    blocks: int = 0

    @classmethod
    def of(cls, rows: Float[np.ndarray, "n values"], places: Sequence[Int[np.ndarray, " features"]]) -> "GaussianSums":
        """The sums over a block of rows."""
        return cls(views=tuple(ViewSums.of(np.ascontiguousarray(rows[:, own])) for own in places), blocks=1)

    def joined(self, other: "GaussianSums", sign: int = 1) -> "GaussianSums":
        """These and others; with sign -1, without others that are among them."""
        views = zip(self.views, other.views, strict=True)
        return GaussianSums(
            views=tuple(one.joined(two, sign) for one, two in views), blocks=self.blocks + sign * other.blocks
        )

    @property
    def rows(self) -> int:
        """How many rows were added."""
        return self.views[0].rows


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptGaussianSums:
    """The sums of all draws, kept so that rows can be added later; views lie side by side.

    Args:
        total: sum x of every draw.
        pairs: sum x x^T, of the views one after the other.
        cubes: sum |x|^2 x.
        fourths: sum |x|^4 of every view.
        rows: how many were added.
        blocks: how many blocks.
    """

    total: Float64[np.ndarray, "draws values"]
    pairs: Float64[np.ndarray, "draws squares"]
    cubes: Float64[np.ndarray, "draws values"]
    fourths: Float64[np.ndarray, "draws views"]
    rows: Int[np.ndarray, " draws"]
    blocks: Int[np.ndarray, " draws"]

    @classmethod
    def of(cls, sums: GaussianSums, draws: int) -> "KeptGaussianSums":
        """The sums of one fit, which all of its draws have."""
        views = sums.views
        one = {
            name: np.concatenate([getattr(view, name).ravel() for view in views])
            for name in ("total", "pairs", "cubes")
        }
        one["fourths"] = np.array([view.fourths for view in views])
        each = {name: np.repeat(values[None], draws, axis=0) for name, values in one.items()}
        return cls(**each, rows=np.repeat(sums.rows, draws), blocks=np.repeat(sums.blocks, draws))

    @classmethod
    def joined(cls, parts: Sequence["KeptGaussianSums"]) -> "KeptGaussianSums":
        """The sums of several groups of draws as one."""
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in KEPT})

    def some(self, which: slice) -> "KeptGaussianSums":
        """The sums of some of the draws."""
        return replace(self, **{name: getattr(self, name)[which] for name in KEPT})

    def of_fit(self, places: Sequence[Int[np.ndarray, " features"]]) -> GaussianSums:
        """The sums of the first draw, which are those of its fit, to add rows to."""
        views, start, square = [], 0, 0
        for number, own in enumerate(places):
            size = len(own)
            views.append(
                ViewSums(
                    rows=int(self.rows[0]),
                    total=self.total[0, start : start + size],
                    pairs=self.pairs[0, square : square + size * size].reshape(size, size),
                    cubes=self.cubes[0, start : start + size],
                    fourths=float(self.fourths[0, number]),
                )
            )
            start, square = start + size, square + size * size
        return GaussianSums(views=tuple(views), blocks=int(self.blocks[0]))


KEPT = tuple(field.name for field in fields(KeptGaussianSums))


def chi_squared(freedom: Float[np.ndarray, " n"], own: Stream) -> Float[np.ndarray, " n"]:
    """A chi-squared number of each of these degrees of freedom, at least 2 (Marsaglia & Tsang 2000)."""
    shape = (freedom / 2 - 1 / 3)[:, None]
    normal = own.normal((len(freedom), CANDIDATES)).astype(np.float64)
    chance = (own.uniform((len(freedom), CANDIDATES), 1.0).astype(np.float64) + 1) / 2
    root = 1 + normal / (3 * np.sqrt(shape))
    cube = np.maximum(root * root * root, SMALLEST)
    allowed = 0.5 * normal * normal + shape * (1 - cube + log_of(cube))
    taken = (root > 0) & (log_of(np.maximum(chance, SMALLEST)) < allowed)
    first = np.argmax(taken, axis=1)[:, None]
    return np.asarray(2 * np.take_along_axis(shape * cube, first, axis=1)[:, 0])


def _total(values: Float[np.ndarray, " n"]) -> float:
    return float(np.cumsum(values)[-1])
