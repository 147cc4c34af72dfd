"""Ten statistics of every sensor of a window: where it lies, how far it moves, and how.

Slow sensors of a plant are told apart by these and by their levels; on vibrations they see strength and spikes.
"""

import numpy as np
from jaxtyping import Float

from indubio.prepare.series import Series, folded_mean, folded_sum, log_of

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
    average, second, third, fourth, slope = folded_mean(
        np.stack([series, square, square * moved, square * square, moved * times])
    )
    steps = series[..., 1:] - series[..., :-1]
    steps = steps - folded_mean(steps)[..., None]
    variance = second + floor
    spikes = (fourth + 3 * (floor * floor)) / (variance * variance)
    logs = log_of(np.stack([variance, spikes, folded_mean(steps * steps) + floor]))
    return [
        average,
        0.5 * logs[0],
        series.min(axis=-1),
        series.max(axis=-1),
        np.median(series, axis=-1),
        slope,
        third / (variance * np.sqrt(variance)),
        logs[1],
        0.5 * logs[2],
        series[..., -1] - series[..., 0],
    ]


def slope_weights(length: int) -> Float[np.ndarray, " length"]:
    """What the slope, per window, weighs every sample with in a mean: least squares."""
    times = np.arange(length) - (length - 1) / 2
    return np.asarray(times * (length * length / float(folded_sum(times * times))))
