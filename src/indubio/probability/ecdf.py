r"""Empirical CDF: the share of training scores that the example reaches or exceeds.

ECDF(nll) = 1/N sum_i 1[nll_i <= nll]        paper, section 3.2 (ii)

It assumes no shape, but cannot tell apart what lies beyond the largest training score. Scores within a relative 1e-5
count as equal (`ties.py`): `<=` is decided on the last bit for an example that is also in the training set.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from indubio.probability.conversion import Conversion
from indubio.probability.ranks import places
from indubio.probability.ties import upper_tie


@dataclass(frozen=True, kw_only=True)
class Ecdf(Conversion):
    """Empirical distribution of the training scores, which it keeps, sorted."""

    PARAMETERS: ClassVar[Mapping[str, int]] = {"scores": 2}

    def fit_draw(self, nll: Float[np.ndarray, " examples"]) -> dict[str, np.ndarray]:
        """The sorted scores, in the precision they came in: float32 halves the stored model."""
        return {"scores": np.sort(nll)}

    def cdf(
        self, nll: Float[np.ndarray, " examples"], parameters: Mapping[str, np.ndarray]
    ) -> Float[np.ndarray, " examples"]:
        """Share of the training scores that are at most this one, or tie with it."""
        scores = parameters["scores"]
        return places(scores, upper_tie(nll), "right") / len(scores)
