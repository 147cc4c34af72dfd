"""Where many values belong among sorted scores: what `searchsorted` gives, several times faster.

A search by halves guesses every branch wrong half of the time, and that is most of what it costs. Here a grid over the
scores says where a value can be at the earliest, and the few scores that share a cell of the grid are gone through by
halves, for all values at once and without a branch. That never needs more halves than the plain search does.
"""

from typing import Literal

import numpy as np
from jaxtyping import Float, Int

MANY = 1024  # values; for fewer, the plain search is done before the grid is made
CELLS_PER_SCORE, MOST_CELLS = 16, 2**14  # the grid stays in the cache
BLOCK = 2**14  # values; what is in between stays in the cache


def places(
    scores: Float[np.ndarray, " scores"], values: Float[np.ndarray, " values"], side: Literal["left", "right"]
) -> Int[np.ndarray, " values"]:
    """`scores.searchsorted(values, side)`: how many scores are below ("left"), or at most ("right")."""
    if len(values) < max(MANY, len(scores)) or not np.isfinite(scores[[0, -1]]).all() or np.isnan(values).any():
        return np.asarray(scores.searchsorted(values, side=side))
    grid = _Grid(scores)
    before = np.less if side == "left" else np.less_equal
    found = np.empty(len(values), dtype=np.intp)
    for start in range(0, len(values), BLOCK):
        found[start : start + BLOCK] = grid.places(values[start : start + BLOCK], before)
    return found


class _Grid:
    """Cells of equal width from the smallest to the largest score.

    Rounding does not matter: whatever cell a number comes to, a larger one never comes to an earlier cell, so scores of
    earlier cells are smaller than a value, and those of later cells larger.
    """

    def __init__(self, scores: Float[np.ndarray, " scores"]) -> None:
        known = scores.astype(np.float64)
        self.cells = min(MOST_CELLS, CELLS_PER_SCORE * len(known))
        self.first = known[0]
        with np.errstate(over="ignore", divide="ignore"):
            per_unit = self.cells / (known[-1] - known[0])
        self.per_unit = per_unit if 0 < per_unit < np.inf else 1.0
        inside = np.bincount(self._cell(known), minlength=self.cells + 1)
        self.earlier = np.cumsum(inside) - inside
        self.halves = int(inside.max()).bit_length()
        # Nothing is above NaN: the search can look past the end.
        self.known = np.concatenate([known, np.full(2**self.halves, np.nan)])

    def places(self, values: Float[np.ndarray, " block"], before: np.ufunc) -> Int[np.ndarray, " block"]:
        found: np.ndarray = self.earlier[self._cell(values)]
        for half in reversed(range(self.halves)):
            found += before(self.known[found + (2**half - 1)], values).astype(np.intp) << half
        return found

    def _cell(self, values: Float[np.ndarray, " values"]) -> Int[np.ndarray, " values"]:
        with np.errstate(over="ignore"):
            cell = (values - self.first) * self.per_unit
        return np.asarray(np.clip(cell, 0, self.cells, out=cell), dtype=np.intp)
