"""Sums, means and logarithms of series, with the same bits on every machine: every sum has one order."""

import numpy as np
from jaxtyping import Float

LOG_2_HIGH, LOG_2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # log 2 in two parts: the first times n is exact
LOG_TERMS = 11  # of the series; the next is below 2^-56

Series = Float[np.ndarray, "... length"]


def log_of(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The natural logarithm of numbers above 0: n log 2 + 2 atanh(s), s = (m - 1) / (m + 1), for x = m 2^n.

    numpy's own may differ in its last digit from one processor to another; this one does not.
    """
    m, n = np.frexp(x)
    low = m < np.sqrt(0.5)
    m, n = np.where(low, 2 * m, m), np.where(low, n - 1, n)
    s = (m - 1) / (m + 1)
    square = s * s
    series = np.full_like(s, 1 / (2 * LOG_TERMS + 1))
    for term in range(LOG_TERMS - 1, -1, -1):
        series = series * square + 1 / (2 * term + 1)
    return np.asarray(n * LOG_2_HIGH + (2 * s * series + n * LOG_2_LOW))


def centred(series: Series) -> tuple[Series, Float[np.ndarray, "..."]]:
    """The series less its mean, and the mean; exactly 0 for one that stands still."""
    first = series[..., :1]
    moved = series - first
    mean = mean_of(moved)[..., None]
    return moved - mean, (first + mean)[..., 0]


def mean_of(series: Series) -> Float[np.ndarray, "..."]:
    """Means along the last axis."""
    return np.asarray(sum_of(series) / series.shape[-1])


def sum_of(series: Series) -> Float[np.ndarray, "..."]:
    """Sums along the last axis, added one after the other."""
    return np.asarray(np.add.accumulate(series, axis=-1)[..., -1])


def folded_sum(series: Series) -> Float[np.ndarray, "..."]:
    """Sums along the last axis, one half added to the other until one value is left: quicker than one by one."""
    while series.shape[-1] > 1:
        half, odd = divmod(series.shape[-1], 2)
        added = series[..., :half] + series[..., half : 2 * half]
        if odd:
            added[..., 0] += series[..., -1]
        series = added
    return np.asarray(series[..., 0])


def folded_mean(series: Series) -> Float[np.ndarray, "..."]:
    """Means along the last axis, by `folded_sum`."""
    return np.asarray(folded_sum(series) / series.shape[-1])
