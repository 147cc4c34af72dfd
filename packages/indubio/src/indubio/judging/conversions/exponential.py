r"""Exponential scores with a free location: location = smallest score, scale = mean - smallest.

CDF(nll) = 1 - exp(-(nll - location) / scale)        paper, section 3.2 (i)

The location is free because a reconstruction error never comes near 0: anchored there, the fit would be far off.
With the paper's scaling the level is always 1 - 1/e.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from indubio.judging.conversions.location_scale import LocationScale


@dataclass(frozen=True, kw_only=True)
class Exponential(LocationScale):
    """Exponential distribution of the training scores, from the smallest of them.

    Examples:
        >>> import numpy as np
        >>> training, new = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]), np.array([[2.0, 3.0, 4.0, 5.0, 9.0]])
        >>> Exponential().fit(training).probability(new).round(2)
        array([[0.  , 0.  , 0.39, 0.63, 0.95]])
    """

    AT_THE_STEP: ClassVar[float] = 0.0  # the CDF is 0 at its location, whatever the scale

    def location_and_scale(self, nll: Float[np.ndarray, " examples"]) -> tuple[float, float]:
        """Smallest score, and mean excess over it."""
        smallest = float(nll.min())
        return smallest, max(0.0, float(nll.mean()) - smallest)  # a mean may round to below the smallest

    def standard_cdf(self, z: Float[np.ndarray, " examples"]) -> Float[np.ndarray, " examples"]:
        """1 - exp(-z) for z > 0, else 0."""
        return np.asarray(-np.expm1(-np.maximum(z, 0.0))) + 0.0  # + 0.0: no negative zero
