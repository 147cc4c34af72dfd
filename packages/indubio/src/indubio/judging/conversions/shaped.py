r"""What the conversions share that fit a shape too: where the distribution begins, and a step when scores do not vary.

CDF(nll) = F((nll - location) / scale; shape)

Given the location, scale and shape are those of maximum likelihood. The location itself has no such estimate: the
likelihood grows without bound as it nears the smallest score. It is where the CDF of the smallest score is what the
smallest of n has on average, 1 / (n + 1), or k / (n + 1) where k scores tie for it (Cohen & Whitten 1980, modified
maximum likelihood). So only the order and the spread of scores matter, and scores may be negative. Where no location
does that (a long tail below, many ties), it is far below, where such a distribution is normal.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from indubio.judging.conversions.conversion import CdfConversion
from indubio.judging.conversions.location_scale import step_at
from indubio.judging.conversions.ties import upper_tie

NEAREST = 1e-12  # of the range of the scores: the least distance from the location to the smallest score
FARTHEST = 20.0  # standard deviations below the smallest score: the distribution is all but normal there


@dataclass(frozen=True, kw_only=True)
class Shaped(CdfConversion):
    """Base of the conversions that fit a distribution with location, scale and shape."""

    PARAMETERS: ClassVar[Mapping[str, int]] = {"location": 1, "scale": 1, "shape": 1}
    AT_THE_STEP: ClassVar[float] = 0.0  # the CDF at its location, whatever scale and shape

    @abstractmethod
    def scale_and_shape(self, excess: Float[np.ndarray, " examples"]) -> tuple[float, float]:
        """Maximum likelihood estimates of scores that begin at 0; all of them are above it, and not all the same."""

    @abstractmethod
    def standard_cdf(self, z: Float[np.ndarray, " examples"], shape: float) -> Float[np.ndarray, " examples"]:
        """F: the CDF with location 0 and scale 1, 0 below its location."""

    def fit_draw(self, nll: Float[np.ndarray, " examples"]) -> dict[str, np.ndarray]:
        """Location, scale and shape; the scale is 0 if all scores tie."""
        scores = np.sort(np.asarray(nll, dtype=np.float64))  # sorted, so that their order changes no rounding
        smallest, extent = scores[0], scores[-1] - scores[0]
        if scores[-1] <= upper_tie(np.asarray(smallest)):
            return {"location": np.array(scores.mean()), "scale": np.array(0.0), "shape": np.array(1.0)}
        within = (scores - smallest) / extent
        gap = self._gap(within, int(np.count_nonzero(within == 0)))
        scale, shape = self.scale_and_shape(within + gap)
        return {
            "location": np.array(smallest - gap * extent),
            "scale": np.array(scale * extent),
            "shape": np.array(shape),
        }

    def cdf(
        self, nll: Float[np.ndarray, " examples"], parameters: Mapping[str, np.ndarray]
    ) -> Float[np.ndarray, " examples"]:
        """F((nll - location) / scale; shape), or the step."""
        location, scale = parameters["location"], parameters["scale"]
        if scale == 0:
            return step_at(location, nll, self.AT_THE_STEP)
        with np.errstate(over="ignore"):  # so far out that only infinity describes it: the CDF is 1 there
            z = np.maximum((nll - location) / scale, 0.0)
        return self.standard_cdf(z, float(parameters["shape"]))

    def _gap(self, within: Float[np.ndarray, " examples"], tied: int) -> float:
        """How far below the smallest of these scores, which go from 0 to 1, the distribution begins."""
        expected = tied / (len(within) + 1)

        def too_probable(log_gap: float) -> float:
            gap = exp(log_gap)
            scale, shape = self.scale_and_shape(within + gap)
            return float(self.standard_cdf(np.array([gap / scale]), shape)[0]) - expected

        nearest, farthest = log(NEAREST), log(FARTHEST * float(within.std()))
        if too_probable(nearest) >= 0:
            return NEAREST
        if too_probable(farthest) <= 0:
            return exp(farthest)
        return exp(brentq(too_probable, nearest, farthest))
