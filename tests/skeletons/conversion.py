r"""Logistic scores: location = mean, scale = standard deviation * sqrt(3) / pi.

CDF(nll) = 1 / (1 + exp(-(nll - location) / scale))

Its tails are heavier than the Gaussian's, so a score far out is a little less of an anomaly. This is a distribution
with a location and a scale; one of another kind derives from `Conversion` and has two methods, `fit_draw` and `cdf`:
see `judging/conversions/ecdf.py`.
"""

from dataclasses import dataclass
from math import pi, sqrt
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from indubio.judging import LocationScale


@dataclass(frozen=True, kw_only=True)
class Logistic(LocationScale):
    """Logistic distribution of the training scores."""

    AT_THE_STEP: ClassVar[float] = 0.5  # the CDF at its location, whatever the scale

    def location_and_scale(self, nll: Float[np.ndarray, " examples"]) -> tuple[float, float]:
        """From mean and standard deviation, for one draw: draws never see each other."""
        return float(nll.mean()), float(nll.std()) * sqrt(3) / pi

    def standard_cdf(self, z: Float[np.ndarray, " examples"]) -> Float[np.ndarray, " examples"]:
        """1 / (1 + exp(-z)), which never falls as z grows."""
        return np.asarray(expit(z))
