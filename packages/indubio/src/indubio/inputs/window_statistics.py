"""Ten statistics of every sensor of a window: where it lies, how far it moves, and how.

Slow sensors of a plant are told apart by these and by their levels; on vibrations they see strength and spikes.
"""

import numpy as np
from jaxtyping import Float

from indubio.inputs.series import Series, folded_mean, folded_sum, log_of

STATISTICS = (
    "average",
    "spread",
    "minimum",
    "maximum",
    "median",
    "slope",
    "skewness",
    "spikiness",
    "roughness",
    "last minus first",
)


def statistics(
    series: Series, moved: Series, floor: Float[np.ndarray, " sensors"]
) -> list[Float[np.ndarray, "block sensors"]]:
    """The statistics of series (block, sensors, length), in the order of `STATISTICS`.

    Spread, spikiness (kurtosis) and roughness (spread of the steps) are logarithms; the slope is per window.

    Args:
        series: the windows.
        moved: less their means.
        floor: of each sensor, added to its variances.
    """
    times = slope_weights(series.shape[-1])
    square = moved * moved
    variance = folded_mean(square) + floor
    steps = series[..., 1:] - series[..., :-1]
    steps = steps - folded_mean(steps)[..., None]
    return [
        folded_mean(series),
        0.5 * log_of(variance),
        series.min(axis=-1),
        series.max(axis=-1),
        np.median(series, axis=-1),
        folded_sum(moved * times),
        folded_mean(square * moved) / (variance * np.sqrt(variance)),
        log_of((folded_mean(square * square) + 3 * (floor * floor)) / (variance * variance)),
        0.5 * log_of(folded_mean(steps * steps) + floor),
        series[..., -1] - series[..., 0],
    ]


def slope_weights(length: int) -> Float[np.ndarray, " length"]:
    """What the slope weighs every sample with: least squares, times the length."""
    times = np.arange(length) - (length - 1) / 2
    return np.asarray(times * (length / float(folded_sum(times * times))))
