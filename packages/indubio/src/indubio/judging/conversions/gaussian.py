r"""Gaussian scores: location = mean, scale = population standard deviation.

CDF(nll) = Phi((nll - mean) / std)        paper, section 3.2 (i)

With the paper's scaling the level is exactly 1/2, so a score one std above the mean always has 0.68.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from indubio.judging.conversions.location_scale import LocationScale


@dataclass(frozen=True, kw_only=True)
class Gaussian(LocationScale):
    """Normal distribution of the training scores.

    Examples:
        Scores up to the training mean of 3 have probability 0.

        >>> import numpy as np
        >>> training, new = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]), np.array([[2.0, 3.0, 4.0, 5.0, 9.0]])
        >>> Gaussian().fit(training).probability(new).round(2)
        array([[0.  , 0.  , 0.52, 0.84, 1.  ]])
        >>> Gaussian(scaled=False).fit(training).probability(new).round(2)
        array([[0.24, 0.5 , 0.76, 0.92, 1.  ]])
    """

    AT_THE_STEP: ClassVar[float] = 0.5  # Phi(0), whatever the scale

    def location_and_scale(self, nll: Float[np.ndarray, " examples"]) -> tuple[float, float]:
        """Mean and population standard deviation: the maximum likelihood estimate divides by N, not N - 1."""
        return float(nll.mean()), float(nll.std())

    def standard_cdf(self, z: Float[np.ndarray, " examples"]) -> Float[np.ndarray, " examples"]:
        """Phi(z), the CDF of the standard normal."""
        return np.asarray(ndtr(z))
