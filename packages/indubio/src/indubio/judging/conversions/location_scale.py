"""What the parametric conversions share: a location, a scale, and a step when the scores do not vary.

CDF(nll) = F((nll - location) / scale)

Scores that all tie leave no scale to estimate. It is then stored as exactly 0 and the CDF is its limit, a step at
the location; fitted to the rounding noise instead, it would give the same example 0 or 1 by chance.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from indubio.judging.conversions.conversion import CdfConversion
from indubio.judging.conversions.ties import upper_tie


@dataclass(frozen=True, kw_only=True)
class LocationScale(CdfConversion):
    """Base of the conversions that fit a parametric distribution by maximum likelihood."""

    PARAMETERS: ClassVar[Mapping[str, int]] = {"location": 1, "scale": 1}
    AT_THE_STEP: ClassVar[float]  # limit of the CDF at the location as the scale goes to 0

    @abstractmethod
    def location_and_scale(self, nll: Float[np.ndarray, " examples"]) -> tuple[float, float]:
        """Maximum likelihood estimates of one draw."""

    @abstractmethod
    def standard_cdf(self, z: Float[np.ndarray, " examples"]) -> Float[np.ndarray, " examples"]:
        """F: the CDF with location 0 and scale 1."""

    def fit_draw(self, nll: Float[np.ndarray, " examples"]) -> dict[str, np.ndarray]:
        """Location and scale; the scale is 0 if all scores tie."""
        scores = np.ascontiguousarray(nll, dtype=np.float64)
        location, scale = self.location_and_scale(scores)
        if scores.max() <= upper_tie(np.asarray(scores.min())):
            scale = 0.0
        return {"location": np.array(location), "scale": np.array(scale)}

    def cdf(
        self, nll: Float[np.ndarray, " examples"], parameters: Mapping[str, np.ndarray]
    ) -> Float[np.ndarray, " examples"]:
        """F((nll - location) / scale), or the step."""
        location, scale = parameters["location"], parameters["scale"]
        if scale == 0:
            return step_at(location, nll, self.AT_THE_STEP)
        with np.errstate(over="ignore"):  # so far out that only infinity describes it: the CDF is 0 or 1 there
            return self.standard_cdf((nll - location) / scale)


def step_at(
    location: Float[np.ndarray, ""], nll: Float[np.ndarray, " examples"], tied: float
) -> Float[np.ndarray, " examples"]:
    """0 below the location, 1 above it, and in between what is given for a score that ties with it."""
    below, above = upper_tie(nll) < location, nll > upper_tie(location)
    return np.where(below, 0.0, np.where(above, 1.0, tied))
