r"""Has a chain mixed? R-hat and effective sample size of its draws (Vehtari et al. 2021).

    R-hat^2 = var+ / W,     var+ = (n - 1)/n W + variance of the chains' means

Every chain is cut into halves, so that one that still wanders disagrees with itself; W is the variance within halves of
n draws. R-hat is 1 where all halves tell the same, and grows with what the chain has not forgotten. The effective size
is how many independent draws would tell as much:

    S / tau,     tau = 1 + 2 sum of rho_t,    rho_t = 1 - (W - autocovariance at lag t) / var+

summed while pairs of neighbouring lags are positive and do not grow (Geyer 1992). Values are first replaced by the
normal scores of their ranks, which works for any distribution; then variances are averaged over quantities before the
ratio is taken. With few draws the largest R-hat of many quantities is large by chance alone; this one is not.

Quantities are scores of training rows, and weights. Weights of several chains cannot agree, since networks with
permuted units are the same function: they are compared within chains. What decides is the scores: some directions of
the weights change no score, and no chain gets to the end of them.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import rankdata

from indubio.errors import MixingWarning
from indubio.message import Message
from indubio.texts import english

What = Literal["chain", "cycle"]

MIXED = 1.1  # R-hat below which halves tell the same, for most purposes (Gelman & Rubin 1992)
FEWEST = 4  # draws of a chain; fewer have no halves
MOST_ROWS, MOST_WEIGHTS = 256, 1024  # whose R-hat is taken


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """How well chains have mixed.

    Args:
        chains: how many.
        draws: of all of them.
        score_r_hat: of scores of training rows.
        weight_r_hat: of weights, within chains.
        score_size: independent draws that would tell as much of scores.
        weight_size: the same of weights.
        what: what `chains` are: chains, or cycles of chains that begin anew in each.
    """

    chains: int
    draws: int
    score_r_hat: float
    weight_r_hat: float
    score_size: float
    weight_size: float
    what: What = "chain"

    @classmethod
    def of(
        cls,
        scores: Float[np.ndarray, "chains draws rows"],
        weights: Float[np.ndarray, "chains draws weights"],
        what: What = "chain",
    ) -> "Mixing | None":
        """What these draws of chains say; None where they are too few."""
        chains, draws = scores.shape[:2]
        if draws < FEWEST:
            return None
        within = np.concatenate(list(weights), axis=1)[None]
        return cls(
            chains=chains,
            draws=chains * draws,
            score_r_hat=round(split_r_hat(scores), 2),  # digits that no processor changes
            weight_r_hat=round(split_r_hat(within), 2),
            score_size=round(effective_size(scores), 1),
            weight_size=round(chains * effective_size(within), 1),
            what=what,
        )

    @classmethod
    def joined(cls, parts: "Sequence[Mixing]") -> "Mixing":
        """The mixing of several fits: the worst R-hat, and all draws together."""
        return cls(
            chains=sum(part.chains for part in parts),
            draws=sum(part.draws for part in parts),
            score_r_hat=max(part.score_r_hat for part in parts),
            weight_r_hat=max(part.weight_r_hat for part in parts),
            score_size=round(sum(part.score_size for part in parts), 1),
            weight_size=round(sum(part.weight_size for part in parts), 1),
            what=parts[0].what,
        )

    @property
    def mixed(self) -> bool:
        """Whether the chains have forgotten where they began, as far as scores can tell."""
        return self.score_r_hat <= MIXED

    def __str__(self) -> str:
        one, cycles = self.chains == 1, self.what == "cycle"
        several = english("the {number:d} cycles") if cycles else english("the {number:d} chains")
        single = english("the cycle") if cycles else english("the chain")
        chain, cycle = (english("chain"), english("chains")), (english("cycle"), english("cycles"))
        kind, kinds = cycle if cycles else chain
        told = {
            "what": single if one else english(several, number=self.chains),
            "numbers": english(
                "R-hat is {scores:.2f} of scores and {weights:.2f} of weights",
                scores=self.score_r_hat,
                weights=self.weight_r_hat,
            ),
            "worth": english(
                "{draws:d} draws are worth about {size:.0f} independent ones",
                draws=self.draws,
                size=max(self.score_size, 1),
            ),
        }
        if self.mixed:
            return english("{what} mixed: {numbers}; {worth}", **told)
        each = english("each {kind} stays near the network it began with, and all of them say more than one")
        neighbours = english("its draws are neighbours, and their disagreement is too small")
        return english(
            "{what} did not mix: {numbers}, where 1 is a {kind} that has forgotten its beginning; {so}. "
            "{worth}. More steps between draws help (`thinning`, `burn_in`), or more {kinds} with networks of "
            "their own",
            **told,
            kind=kind,
            kinds=kinds,
            so=neighbours if one else english(each, kind=kind),
        )

    def warn(self) -> None:
        """Warn where the chains did not mix."""
        if not self.mixed:
            warnings.warn(Message("{mixing}.", mixing=str(self)), MixingWarning, stacklevel=2)


def split_r_hat(values: Float[np.ndarray, "chains draws quantities"]) -> float:
    """R-hat of halves of chains, over all quantities; 1 where nothing moves."""
    _, within, total = _variances(normal_scores(_halves(values)))
    if not within:
        return inf if total else 1.0
    return sqrt(total / within)


def effective_size(values: Float[np.ndarray, "chains draws quantities"]) -> float:
    """Independent draws that would tell as much as these, at most as many as they are."""
    scores = normal_scores(_halves(values))
    count, draws = scores.shape[0] * scores.shape[1], scores.shape[1]
    apart, within, total = _variances(scores)
    if not total:
        return 1.0
    lags = [float((apart[:, : draws - lag] * apart[:, lag:]).sum(axis=1).mean()) / draws for lag in range(draws)]
    rho = 1 - (within - np.array(lags)) / total
    rho[0] = 1.0
    pairs = rho[: draws // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = len(pairs) if (pairs > 0).all() else int(np.argmin(pairs > 0))
    tau = 2 * float(np.minimum.accumulate(pairs[:positive]).sum()) - 1
    return float(count / max(tau, 1.0))


def normal_scores(values: Float[np.ndarray, "chains draws quantities"]) -> Float[np.ndarray, "chains draws quantities"]:
    """Each value as the normal quantile of its rank among all draws of all chains."""
    flat = values.reshape(-1, values.shape[2])
    return np.asarray(ndtri((rankdata(flat, axis=0) - 0.375) / (len(flat) + 0.25))).reshape(values.shape)


def _halves(values: Float[np.ndarray, "chains draws quantities"]) -> Float[np.ndarray, "halves n quantities"]:
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def _variances(
    values: Float[np.ndarray, "chains draws quantities"],
) -> tuple[Float[np.ndarray, "chains draws quantities"], float, float]:
    """Distances from the chains' means; variance within chains, and var+, as means over quantities."""
    draws, means = values.shape[1], values.mean(axis=1, keepdims=True)
    within = float(values.var(axis=1, ddof=1).mean())
    between = float(means[:, 0].var(axis=0, ddof=1).mean())
    return values - means, within, (draws - 1) / draws * within + between
