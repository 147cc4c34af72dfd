r"""Empirical CDF: the share of training scores that the example reaches or exceeds.

ECDF(nll) = 1/N sum_i 1[nll_i <= nll]        paper, section 3.2 (ii)

It assumes no shape, but cannot tell apart what lies beyond the largest training score. Scores within a relative 1e-5
count as equal (`ties.py`): `<=` is decided on the last bit for an example that is also in the training set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from indubio.judging.conversions.conversion import CdfConversion
from indubio.judging.conversions.ranks import places
from indubio.judging.conversions.ties import upper_tie


@dataclass(frozen=True, kw_only=True)
class Ecdf(CdfConversion):
    """Empirical distribution of the training scores, which it keeps, sorted.

    Examples:
        Three of the five training scores are at most 3.

        >>> import numpy as np
        >>> training, new = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]), np.array([[2.0, 3.0, 4.0, 5.0, 9.0]])
        >>> Ecdf(scaled=False).fit(training).probability(new)
        array([[0.4, 0.6, 0.8, 1. , 1. ]])
    """

    PARAMETERS: ClassVar[Mapping[str, int]] = {"scores": 2}

    def fit_draw(self, nll: Float[np.ndarray, " examples"]) -> dict[str, np.ndarray]:
        """The sorted scores, in the precision they came in: float32 halves the stored model."""
        return {"scores": np.sort(nll)}

    def cdf(
        self, nll: Float[np.ndarray, " examples"], parameters: Mapping[str, np.ndarray]
    ) -> Float[np.ndarray, " examples"]:
        """Share of the training scores that are at most this one, or tie with it."""
        return np.asarray(self.cdfs(nll[None], [parameters])[0])

    def cdfs(
        self, nll: Float[np.ndarray, "draws examples"], parameters: Sequence[Mapping[str, np.ndarray]]
    ) -> Float[np.ndarray, "draws examples"]:
        """As `cdf`, for every draw; the ties are found once for all."""
        known = [draw["scores"] for draw in parameters]
        reached = rounded_down(upper_tie(nll), known[0].dtype)
        shares = np.empty(nll.shape)
        for draw, scores in enumerate(known):
            shares[draw] = places(scores, reached[draw], "right")
        return np.divide(shares, len(known[0]), out=shares)


def rounded_down(values: Float[np.ndarray, "*shape"], dtype: np.dtype[Any]) -> Float[np.ndarray, "*shape"]:
    """The largest numbers of this precision that are at most the values.

    A score of this precision is at most the one if it is at most the other. Asked in another precision, numpy would
    convert all training scores at every call, which for one example costs more than all the rest.
    """
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore"):  # beyond the largest float is infinity, and the largest float below it
        rounded = values.astype(dtype)
    above = rounded > values
    return np.where(above, np.nextafter(rounded, rounded.dtype.type(-np.inf)), rounded)
