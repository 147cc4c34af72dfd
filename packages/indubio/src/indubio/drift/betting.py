"""A block of bets, example by example: by the compiled core where there is one, to the same bits.

wealth_t = min((wealth_{t-1} + weight_t) * bet_t, most),   bet_t = (1 + stake * off_t) / unit

Every bet that was started is made again, and one more starts. The order is part of it: a sum is rounded before it is
multiplied, so no product over several examples gives the same number.
"""

import numpy as np
from jaxtyping import Bool, Float

from indubio.numerics import core

MOST_WEALTH = 1e100  # past an alarm more wealth says no more
UNCAPPED = 256  # examples; so many cannot win more than the most, unless much was won before


def wealth_over_time(
    wealth: Float[np.ndarray, "stakes series"],
    off: Float[np.ndarray, "examples series"],
    stakes: Float[np.ndarray, "stakes series"],
    unit: Float[np.ndarray, "stakes series"],
    weights: Float[np.ndarray, " examples"],
) -> tuple[Float[np.ndarray, "examples series"], Float[np.ndarray, "stakes series"]]:
    """The wealth after every example, averaged over the stakes, and that of every stake after the last.

    Args:
        wealth: before the first.
        off: how far each rank is from 1/2; NaN where it is missing, and nothing is bet.
        stakes: of each bet.
        unit: what a bet is divided by, so that it is fair.
        weights: what each example starts with.
    """
    library = core()
    if library is None:
        return plain_wealth_over_time(wealth, off, stakes, unit, weights)
    mixed, after = np.empty_like(off), wealth.copy()
    together = np.ascontiguousarray
    library.bets(together(off), together(stakes), together(unit), together(weights), MOST_WEALTH, after, mixed)
    return mixed, after


def plain_wealth_over_time(
    wealth: Float[np.ndarray, "stakes series"],
    off: Float[np.ndarray, "examples series"],
    stakes: Float[np.ndarray, "stakes series"],
    unit: Float[np.ndarray, "stakes series"],
    weights: Float[np.ndarray, " examples"],
) -> tuple[Float[np.ndarray, "examples series"], Float[np.ndarray, "stakes series"]]:
    """What `wealth_over_time` gives, computed by numpy where there is no core."""
    missing: Bool[np.ndarray, "examples series"] = np.isnan(off)
    bets = stakes * np.where(missing, 0.0, off)[:, None, :]
    bets += 1
    bets /= unit
    if missing.any():
        np.copyto(bets, 1.0, where=missing[:, None, :])
    _make(bets.reshape(len(bets), -1), wealth.ravel(), weights)
    return bets.mean(axis=1), bets[-1].copy()


def _make(
    bets: Float[np.ndarray, "examples bets"],
    wealth: Float[np.ndarray, " bets"],
    weights: Float[np.ndarray, " examples"],
) -> None:
    """Puts the wealth after every example in the place of its bets."""
    started = np.empty_like(wealth)
    for start in range(0, len(bets), UNCAPPED):
        part = bets[start : start + UNCAPPED]
        most = np.log1p(wealth.max()) + len(part) * np.log(max(part.max(), 1.0))
        capped = most > np.log(MOST_WEALTH) - 1  # less what rounding can add
        for one, weight in zip(part, weights[start : start + UNCAPPED].tolist(), strict=True):
            np.add(wealth, weight, out=started)
            np.multiply(started, one, out=one)
            if capped:
                np.minimum(one, MOST_WEALTH, out=one)
            wealth = one
