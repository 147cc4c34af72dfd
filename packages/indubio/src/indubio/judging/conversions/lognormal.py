r"""Lognormal scores: their logarithms, above a location, are normal; a heavier tail than the gamma distribution's.

CDF(nll) = Phi(log((nll - location) / scale) / shape), scale = exp(mean of the logs), shape = their standard deviation

Where it begins is found as `shaped.py` says.
"""

from dataclasses import dataclass
from math import exp

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, xlogy

from indubio.judging.conversions.shaped import Shaped


@dataclass(frozen=True, kw_only=True)
class LogNormal(Shaped):
    """Lognormal distribution of the training scores, from a little below the smallest of them.

    Examples:
        >>> import numpy as np
        >>> training, new = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]), np.array([[2.0, 3.0, 4.0, 5.0, 9.0]])
        >>> LogNormal().fit(training).probability(new).round(2)
        array([[0.  , 0.  , 0.52, 0.83, 1.  ]])
    """

    def scale_and_shape(self, excess: Float[np.ndarray, " examples"]) -> tuple[float, float]:
        """The geometric mean, and the standard deviation of the logarithms."""
        logs = np.log(excess)
        return exp(float(logs.mean())), float(logs.std())

    def standard_cdf(self, z: Float[np.ndarray, " examples"], shape: float) -> Float[np.ndarray, " examples"]:
        """Phi(log z / shape); xlogy is log z, one value at a time and without a warning at 0."""
        return np.asarray(ndtr(xlogy(1.0, z) / shape))
