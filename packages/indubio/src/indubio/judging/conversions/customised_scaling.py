r"""Customised scaling: no anomaly probability up to the level of an average training score.

p = max(0, (CDF(nll) - level) / (1 - level))        paper, eq. after the ECDF; Kriegel et al. 2011

The level is CDF(mean training score) in the paper and mean(CDF(training scores)) in its authors' scripts. They are
far apart on skewed scores: 0.63 and 0.50 for scores that are exponentially distributed.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from jaxtyping import Float

from indubio.judging.conversions.ties import upper_tie

Level = Literal["cdf_of_mean", "mean_of_cdf"]
Cdf = Callable[[Float[np.ndarray, " examples"]], Float[np.ndarray, " examples"]]

FULL_LEVEL = 1 - 1e-14  # nearer to 1 than this, what is left of 1 - level is rounding and not data


def scaling_level(level: Level, cdf: Cdf, nll: Float[np.ndarray, " examples"], mean: float) -> float:
    """What the CDF of one draw says of an average training score, in the chosen sense of average."""
    if level == "cdf_of_mean":
        return float(cdf(np.array([mean]))[0])
    return float(cdf(nll).mean())


def scaled_probability(
    cdf: Float[np.ndarray, "draws examples"],
    nll: Float[np.ndarray, "draws examples"],
    *,
    level: Float[np.ndarray, "draws 1"],
    mean: Float[np.ndarray, "draws 1"],
) -> Float[np.ndarray, "draws examples"]:
    """max(0, (cdf - level) / (1 - level)), with a level of its own for every draw.

    At level 1 the formula is 0/0. It arises when the training scores tie with their mean, and then the limit is a
    step: 1 for what scores above that mean, 0 for what ties with it or is below.
    """
    full = level >= FULL_LEVEL
    if not full.any():
        return np.asarray(np.maximum(0.0, (cdf - level) / (1 - level)))
    scaled = np.maximum(0.0, (cdf - level) / np.where(full, 1.0, 1 - level))
    return np.where(full, nll > upper_tie(mean), scaled)
