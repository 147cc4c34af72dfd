r"""Gamma scores: sums of squares are distributed so, and squared errors of many values are such sums.

CDF(nll) = P(shape, (nll - location) / scale), P the regularised incomplete gamma function
log shape - digamma(shape) = log mean - mean log of the excess over the location, scale = mean / shape

Where it begins is found as `shaped.py` says.
"""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from jaxtyping import Float
from scipy.special import gammainc, polygamma, psi

from indubio.judging.conversions.shaped import Shaped

LARGEST_SHAPE = 1e12  # scores that hardly vary beside their mean; their logarithms are rounding then
STEPS = 30  # of Newton's method at most; a handful are enough


@dataclass(frozen=True, kw_only=True)
class Gamma(Shaped):
    """Gamma distribution of the training scores, from a little below the smallest of them.

    Examples:
        >>> import numpy as np
        >>> training, new = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]), np.array([[2.0, 3.0, 4.0, 5.0, 9.0]])
        >>> Gamma().fit(training).probability(new).round(2)
        array([[0.  , 0.  , 0.52, 0.84, 1.  ]])
    """

    def scale_and_shape(self, excess: Float[np.ndarray, " examples"]) -> tuple[float, float]:
        """Newton's method on 1 / shape, from an approximation that is right to 1.5 % (Minka 2002)."""
        mean = float(excess.mean())
        off = max(log(mean) - float(np.log(excess).mean()), 0.5 / LARGEST_SHAPE)
        shape = (3 - off + sqrt((off - 3) ** 2 + 24 * off)) / (12 * off)
        for _ in range(STEPS):
            slope = shape**2 * (1 / shape - float(polygamma(1, shape)))
            before, shape = shape, 1 / (1 / shape + (log(shape) - float(psi(shape)) - off) / slope)
            if abs(shape - before) <= 1e-15 * shape:
                break
        return mean / shape, shape

    def standard_cdf(self, z: Float[np.ndarray, " examples"], shape: float) -> Float[np.ndarray, " examples"]:
        """P(shape, z), the regularised incomplete gamma function."""
        return np.asarray(gammainc(shape, z))
