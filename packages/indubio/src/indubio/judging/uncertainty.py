r"""Stage 5, how unsure and why: probability (draws, examples) -> five uncertainties (examples).

Var[y] = E_m[p_m (1 - p_m)] + Var_m[p_m]        paper, eq. utotal: total = aleatoric + epistemic

The sum is mean(p) (1 - mean(p)) exactly: the total depends on the mean probability alone, and is largest where that
is 1/2. The parts are what tells a user the reason: the draws disagree on the verdict, or each of them is torn.

A draw's own probability is known from a limited number of reference scores only. Where a conversion says how unsure its
log-odds are, c, the probability of a draw is itself a random variable phi of variance

    v_m = q x / (1 + x),   q = p_m (1 - p_m),   x = q c        q^2 c for small c; never above q

which is epistemic, and the coin toss that is left is smaller by as much: the expectation over the parameters phi of the
conversion, paper, section 3.3. The total stays what it is.

A sixth, `disagreement`, is computed where it is asked for, from the scores alone: how few of the draws explain an
example.

Draws are added one after the other. numpy's own sum orders its additions by the memory layout, so the last bit of an
example's result would depend on how many others were assessed with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from indubio.errors import ConfigError, DataError, ShapeError
from indubio.judging.conversions.ties import upper_tie
from indubio.numerics import exponential, sum_in_order

UncertaintyName = Literal["epistemic", "aleatoric", "total", "exceed", "var_nll", "disagreement"]
UNCERTAINTIES: tuple[UncertaintyName, ...] = ("epistemic", "aleatoric", "total", "exceed", "var_nll")
ON_DEMAND: tuple[UncertaintyName, ...] = ("disagreement",)  # that an example has only where it is asked for

LARGEST_TOTAL = 0.25  # variance of a fair coin
BLOCK = 4096  # examples; a few arrays of so many, in tens of draws, stay in the cache
DISPLAY_FACTOR = 4  # paper, note on interpretability: the total then ranges over [0, 1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Uncertainty:
    """Everything the draws say of each example; one array of N values per name.

    Args:
        probability: mean anomaly probability.
        epistemic: disagreement of the draws, within [0, 1/4].
        aleatoric: ambiguity that is left when every draw is believed, within [0, 1/4].
        total: the sum of the two, within [0, 1/4].
        exceed: U_exceed of Perini et al. 2020, within [0, 1].
        var_nll: variance of the scores, in squared units of the score.
        disagreement: share of the draws that do not explain the example, within [0, 1); None where nobody asked.
    """

    probability: Float[np.ndarray, " examples"]
    epistemic: Float[np.ndarray, " examples"]
    aleatoric: Float[np.ndarray, " examples"]
    total: Float[np.ndarray, " examples"]
    exceed: Float[np.ndarray, " examples"]
    var_nll: Float[np.ndarray, " examples"]
    disagreement: Float[np.ndarray, " examples"] | None = None


def quantify(
    p: Float[np.ndarray, "draws examples"],
    nll: Float[np.ndarray, "draws examples"],
    largest_reference_nll: float,
    reference_examples: int,
    log_odds_variance: Float[np.ndarray, "draws examples"] | None = None,
) -> Uncertainty:
    """Mean probability and all five uncertainties.

    Args:
        p: anomaly probabilities.
        nll: scores that the probabilities were made from.
        largest_reference_nll: largest score of a reference example, each averaged over the draws. The paper's are the
            training examples.
        reference_examples: how many reference examples there were, N.
        log_odds_variance: how unsure each probability is for so few reference scores, as a variance of its log-odds;
            None takes the probabilities as known.

    Examples:
        Two draws. They agree that the first example is an inlier and are both torn over the second: aleatoric. Over the
        third they contradict each other: epistemic.

        >>> import numpy as np
        >>> p = np.array([[0.1, 0.5, 0.0], [0.1, 0.5, 1.0]])
        >>> found = quantify(p, nll=p, largest_reference_nll=1.0, reference_examples=100)
        >>> found.aleatoric.round(2), found.epistemic.round(2)
        (array([0.09, 0.25, 0.  ]), array([0.  , 0.  , 0.25]))
    """
    if p.ndim != 2 or p.shape != nll.shape or len(p) == 0:
        raise ShapeError(f"`p` and `nll` must both be (draws, examples), got {p.shape} and {nll.shape}.")
    if not ((p >= 0) & (p <= 1)).all():
        raise DataError("`p` must hold probabilities within [0, 1].")
    probability, coin = _mean(p), p * (1 - p)
    epistemic_part, aleatoric_part = _variance(p), _mean(coin)
    if log_odds_variance is not None:
        spread = coin * log_odds_variance
        unsure = _mean(coin * (spread / (1 + spread)))
        epistemic_part, aleatoric_part = epistemic_part + unsure, aleatoric_part - unsure
    return Uncertainty(
        probability=probability,
        epistemic=epistemic_part,
        aleatoric=aleatoric_part,
        # Rounding of the two parts can carry their sum past the bound by one bit, and what is displayed past 1.
        total=np.minimum(aleatoric_part + epistemic_part, LARGEST_TOTAL),
        exceed=exceed(probability, mean_nll(nll), largest_reference_nll, reference_examples),
        var_nll=var_nll(nll),
    )


def anomaly_probability(p: Float[np.ndarray, "draws examples"]) -> Float[np.ndarray, " examples"]:
    """E_m[p]: the probability of an anomaly when every draw has one vote."""
    return _mean(p)


def epistemic(p: Float[np.ndarray, "draws examples"]) -> Float[np.ndarray, " examples"]:
    """Var_m[p]: how far the draws disagree; 0 for a single draw."""
    return _variance(p)


def aleatoric(p: Float[np.ndarray, "draws examples"]) -> Float[np.ndarray, " examples"]:
    """E_m[p (1 - p)]: the coin toss that is left when every draw is believed."""
    return _in_blocks(lambda part: sum_in_order(part * (1 - part)) / len(part), p)


def total(p: Float[np.ndarray, "draws examples"]) -> Float[np.ndarray, " examples"]:
    """Aleatoric + epistemic = E_m[p] (1 - E_m[p])."""
    return np.asarray(np.minimum(aleatoric(p) + epistemic(p), LARGEST_TOTAL))


def exceed(
    p_mean: Float[np.ndarray, " examples"],
    mean_nll: Float[np.ndarray, " examples"],
    largest_reference_nll: float,
    reference_examples: int,
) -> Float[np.ndarray, " examples"]:
    """p^N below the largest reference score, else 1 - p^N        paper, eq. exceed.

    A score that ties with the largest counts as "else". The power is taken through the logarithm: with N in the
    millions 1 - p^N would lose every digit for p near 1.
    """
    if reference_examples < 1:
        raise ConfigError(f"`reference_examples` must be at least 1, got {reference_examples}.")
    if not np.isfinite(largest_reference_nll):
        raise DataError(f"`largest_reference_nll` must be finite, got {largest_reference_nll}.")
    probability = np.asarray(p_mean, dtype=np.float64)
    log_p = np.full(probability.shape, -np.inf)
    np.log(probability, out=log_p, where=probability > 0)
    exponent = reference_examples * log_p
    below_largest = upper_tie(mean_nll) < largest_reference_nll
    return np.asarray(np.where(below_largest, np.exp(exponent), np.abs(np.expm1(exponent))))


def mean_nll(nll: Float[np.ndarray, "draws examples ..."]) -> Float[np.ndarray, "examples ..."]:
    """E_m[nll]: the score of an example when every draw has one vote."""
    with np.errstate(over="ignore"):  # the mean of scores at the end of the float range may be infinite
        return _mean(nll)


def var_nll(nll: Float[np.ndarray, "draws examples ..."]) -> Float[np.ndarray, "examples ..."]:
    """Var_m[nll]: how far the scores disagree; infinite where a score is, since no variance describes that."""
    with np.errstate(over="ignore", invalid="ignore"):
        variance = _variance(nll)
    return np.where(np.isinf(nll).any(axis=0), np.inf, variance)


def disagreement(nll: Float[np.ndarray, "draws examples"], temperature: float = 1.0) -> Float[np.ndarray, " examples"]:
    r"""1 - ESS / M,  ESS = 1 / sum_m w_m^2,  w_m = p(x | theta_m) / sum of p(x | theta) over the draws.

    By Daxberger & Hernandez-Lobato 2019, whose score is ESS itself: low where draws disagree. The effective number of
    draws is M where all of them explain an example alike, and 1 where one does alone: so this is 0 where they agree and
    1 - 1/M where one dominates. It does not change when all scores of an example move by the same amount.

    A likelihood of D values is a product, and of many values one draw always dominates: likelihoods are tempered,
    p(x | theta)^(1 / D), which is what a score, the mean NLL of a value, stands for already. Where scores differ by
    little, this is their variance.

    Args:
        nll: scores.
        temperature: T, for p^(1 / (D T)); smaller than 1 for scores in units of a noise that is too large. A likelihood
            of unit noise on data within [0, 1] is one: take the variance of its residuals.

    Examples:
        Three draws: they agree, one dominates.

        >>> import numpy as np
        >>> disagreement(np.array([[1.0, 0.0], [1.0, 50.0], [1.0, 60.0]])).round(3)
        array([0.   , 0.667])
    """
    if not 0 < temperature < np.inf:
        raise ConfigError(f"`temperature` must be positive, got {temperature}.")

    def of_block(part: Float[np.ndarray, "draws block"]) -> Float[np.ndarray, " block"]:
        lowest = part.min(axis=0)
        known = np.isfinite(lowest)
        apart = np.where(known, part - np.where(known, lowest, 0.0), 0.0)  # no draw explains it: they agree
        likely = exponential(-apart / temperature)
        summed = sum_in_order(likely)
        return np.asarray(np.maximum(1 - summed * summed / (sum_in_order(likely * likely) * len(part)), 0.0))

    return _in_blocks(of_block, nll)


def _mean(values: Float[np.ndarray, "draws examples ..."]) -> Float[np.ndarray, "examples ..."]:
    return _in_blocks(lambda part: sum_in_order(part) / len(part), values)


def _variance(values: Float[np.ndarray, "draws examples ..."]) -> Float[np.ndarray, "examples ..."]:
    return _in_blocks(_block_variance, values)


def _block_variance(values: Float[np.ndarray, "draws examples ..."]) -> Float[np.ndarray, "examples ..."]:
    # Deviations from the first draw: draws that agree then have exactly 0, and a large common part cancels early.
    apart = values - values[0]
    squares: np.ndarray = (apart - sum_in_order(apart) / len(apart)) ** 2
    return sum_in_order(squares) / len(apart)


def _in_blocks(
    function: Callable[[Float[np.ndarray, "draws block ..."]], Float[np.ndarray, "block ..."]],
    values: Float[np.ndarray, "draws examples ..."],
) -> Float[np.ndarray, "examples ..."]:
    """The function of some examples at a time, in double precision: what is in between stays in the cache."""
    examples = values.shape[1]
    if examples <= BLOCK:
        return function(values.astype(np.float64, copy=False))
    found = np.empty(examples)
    for start in range(0, examples, BLOCK):
        part = values[:, start : start + BLOCK]
        found[start : start + BLOCK] = function(part.astype(np.float64))
    return found
