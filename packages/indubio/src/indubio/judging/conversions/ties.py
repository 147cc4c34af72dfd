"""Scores that count as equal.

The same example scored in another batch, on another number of threads or by the exported model comes out a few
float32 roundings (about 1e-7 of its size) apart. A rule that asks "is it above?" must not turn on that, so every
comparison of two scores in this package goes through `upper_tie`.
"""

import numpy as np
from jaxtyping import Float

TIE_TOLERANCE = 1e-5  # relative; about a hundred float32 roundings, and far below any difference that matters


def upper_tie(score: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The largest score that still counts as equal to x: x + 1e-5 |x|.

    So `y <= upper_tie(x)` reads "y is at most x, or ties with it", and infinities stay what they are.
    """
    with np.errstate(over="ignore"):  # beyond the largest float is infinity, which is what is meant
        return np.asarray(score * (1 + TIE_TOLERANCE * np.sign(score)))


def lower_tie(score: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The smallest score that still counts as equal to x: x - 1e-5 |x|."""
    with np.errstate(over="ignore"):
        return np.asarray(score * (1 - TIE_TOLERANCE * np.sign(score)))
