r"""Uniform scores on [smallest, largest]: min-max scaling of the score, clipped.

CDF(nll) = (nll - min) / (max - min), within [0, 1]        paper, section 3.2 (i)

Everything above the largest training score has probability 1: one bad training example sets the scale of all.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from indubio.judging.conversions.location_scale import LocationScale


@dataclass(frozen=True, kw_only=True)
class Uniform(LocationScale):
    """Uniform distribution between the smallest and the largest training score.

    Examples:
        >>> import numpy as np
        >>> training, new = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]), np.array([[2.0, 3.0, 4.0, 5.0, 9.0]])
        >>> Uniform().fit(training).probability(new).round(2)
        array([[0. , 0. , 0.5, 1. , 1. ]])
    """

    AT_THE_STEP: ClassVar[float] = 0.0  # the CDF is 0 at its location, whatever the scale

    def location_and_scale(self, nll: Float[np.ndarray, " examples"]) -> tuple[float, float]:
        """Smallest score, and range."""
        return float(nll.min()), float(nll.max() - nll.min())

    def standard_cdf(self, z: Float[np.ndarray, " examples"]) -> Float[np.ndarray, " examples"]:
        """The part of [0, 1] up to z."""
        return np.asarray(np.clip(z, 0.0, 1.0))
