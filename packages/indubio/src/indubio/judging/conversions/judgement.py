"""What the scores of examples say: the probability of each under every draw, and how well it is known."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from indubio.judging.conversions.agreement import agreeing
from indubio.judging.conversions.by_group import GroupConversions
from indubio.judging.conversions.conversion import FittedConversion


@dataclass(frozen=True, kw_only=True, eq=False)
class Rarity:
    """P-values that probabilities must agree with.

    Args:
        p_value: of each example; NaN where there is none.
        smallest: the smallest that it could be.
        rate: of false alarms.
    """

    p_value: Float[np.ndarray, " examples"]
    smallest: Float[np.ndarray, " examples"] | float
    rate: float


def judged(
    conversion: FittedConversion,
    by_group: GroupConversions | None,
    nll: Float[np.ndarray, "draws examples"],
    groups: Shaped[np.ndarray, " examples"] | None = None,
    rarity: Rarity | None = None,
) -> tuple[Float[np.ndarray, "draws examples"], Float[np.ndarray, "draws examples"] | None]:
    """Probabilities, and how unsure their log-odds are as variances; None where the conversion does not know.

    Args:
        conversion: of all examples.
        by_group: those of groups that have their own.
        nll: scores.
        groups: of the examples.
        rarity: what the probabilities must agree with.
    """
    p = conversion.probability(nll)
    if by_group is not None:
        p = by_group.put_into(p, nll, groups)
    if rarity is not None:
        p = agreeing(p, rarity.p_value, rarity.smallest, rarity.rate)
    scores = conversion.parameters.get("scores")
    if scores is None:
        return p, None
    unsure = conversion.conversion.log_odds_variance(p, scores.shape[1])
    if unsure is None or by_group is None or groups is None:
        return p, unsure
    names = groups.astype(str)
    for name, own in zip(by_group.names, by_group.conversions, strict=True):
        members = names == name
        theirs = own.conversion.log_odds_variance(p[:, members], own.parameters["scores"].shape[1])
        if theirs is not None:
            unsure[:, members] = theirs
    return p, unsure
