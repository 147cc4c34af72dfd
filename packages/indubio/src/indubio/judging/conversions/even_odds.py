r"""Odds: how rare such a score is among good examples, against a rate of false alarms.

s(x) = (#{i: nll_i >= nll} + h) / (N + 1),   p = 1 / (1 + (s / rate)^steepness)

A score that a good example reaches with the chosen rate has probability 1/2, so that about this share of good examples
is called an anomaly. The example itself counts h = 1/2, and up to 1 where N + 1 scores cannot tell so small a rate,
h = 1/2 + max(0, 1 - rate (N + 1)) / 2. Scores that tie count as reached: what good examples often have is never an
anomaly. Beyond the largest score s falls as a Pareto tail does, s(x) = h / (N + 1) / (1 + (nll - largest) / excess),
with the mean excess of the highest tenth: far outliers stay in order, and nothing has probability 0 or 1.

N scores tell s only so well: s ~ Beta((N + 1) s, (N + 1) (1 - s)), so that the log-odds have the variance
steepness^2 (1 - s) / (s (N + 2)), to first order. It is part of the epistemic uncertainty: see `uncertainty`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from indubio.errors import ConfigError
from indubio.judging.conversions.conversion import Conversion
from indubio.judging.conversions.ecdf import rounded_down
from indubio.judging.conversions.ranks import places
from indubio.judging.conversions.ties import lower_tie
from indubio.settings import Fraction, Positive

HALF = 0.5
TENTH = 0.1  # of the scores, the highest, that the tail is fitted on
SMALLEST_EXCESS = 1e-3  # of the size of the largest score: a tail that falls faster is not known from so few scores
SUREST_ODDS = 1 - 2.0**-40  # the largest probability of a finite score
FALSE_ALARMS = 0.1  # docs/verdicts.md: what was tried
LARGEST_VARIANCE = 4.9  # of the logarithm of s where no score is reached: that of Beta(1/2, N), whatever N


@dataclass(frozen=True, kw_only=True)
class Odds(Conversion):
    """The odds of a score's rarity against a rate of false alarms; keeps the scores, sorted.

    Args:
        false_alarms: the share of good examples that may be called anomalies: at this rarity the probability is 1/2.
            None is the detector's `false_alarms`, and 0.1 without a detector.
        steepness: how fast the probability changes with the rarity.

    Examples:
        Of nine scores one is at least 9: a rarity of (1 + 1/2) / 10, which has even odds at that rate.

        >>> import numpy as np
        >>> training, new = np.arange(1.0, 10.0)[None], np.array([[1.0, 5.0, 9.0, 99.0]])
        >>> Odds(false_alarms=0.15).fit(training).probability(new).round(2)
        array([[0.14, 0.21, 0.5 , 1.  ]])
    """

    PARAMETERS: ClassVar[Mapping[str, int]] = {"scores": 2, "excess": 1}

    false_alarms: Fraction | None = None
    steepness: Positive = 1.0

    @property
    def own_rate(self) -> float | None:
        """The rate of false alarms that the settings give; None leaves it to the detector."""
        return self.false_alarms

    def at_rate(self, false_alarms: float) -> "Odds":
        """These odds for a rate of false alarms; refused where the settings have another."""
        if self.false_alarms not in (None, false_alarms):
            raise ConfigError(
                "`false_alarms` is {false_alarms:g}, and {other_false_alarms:g} in the conversion: leave one of them "
                "out.",
                false_alarms=false_alarms,
                other_false_alarms=self.false_alarms,
            )
        return self.replaced(false_alarms=false_alarms)

    def log_odds_variance(
        self, p: Float[np.ndarray, "draws examples"], reference: int
    ) -> Float[np.ndarray, "draws examples"]:
        """What follows from the Beta distribution of s; no score beyond all others is less known than the first."""
        odds = (1 - p) / p
        if self.steepness != 1:
            odds = odds ** (1 / self.steepness)
        s = np.minimum((self.false_alarms or FALSE_ALARMS) * odds, 1.0)
        with np.errstate(divide="ignore"):
            variance = (1 - s) / (s * (reference + 2))
        return np.asarray(self.steepness**2 * np.minimum(variance, LARGEST_VARIANCE))

    def fit_draw(self, nll: Float[np.ndarray, " examples"]) -> dict[str, np.ndarray]:
        """The sorted scores, and the mean excess of the highest tenth."""
        scores = np.sort(nll)
        above = scores[len(scores) - max(1, int(TENTH * len(scores))) :].astype(np.float64)
        start = float(scores[max(0, len(scores) - len(above) - 1)])
        excess = float(np.cumsum(above - start)[-1]) / len(above)
        smallest = max(SMALLEST_EXCESS * abs(float(scores[-1])), float(np.finfo(np.float32).tiny))
        return {"scores": scores, "excess": np.array(max(excess, smallest))}

    def cdf(
        self, nll: Float[np.ndarray, " examples"], parameters: Mapping[str, np.ndarray]
    ) -> Float[np.ndarray, " examples"]:
        """The probability of one draw."""
        return np.asarray(self.cdfs(nll[None], [parameters])[0])

    def own_cdfs(
        self, nll: Float[np.ndarray, "draws examples"], parameters: Sequence[Mapping[str, np.ndarray]]
    ) -> Float[np.ndarray, "draws examples"]:
        """Of the scores that it was fitted on: each is compared with the others."""
        return self.cdfs(nll, parameters, own=min(1, len(parameters[0]["scores"]) - 1))

    def cdfs(
        self, nll: Float[np.ndarray, "draws examples"], parameters: Sequence[Mapping[str, np.ndarray]], own: int = 0
    ) -> Float[np.ndarray, "draws examples"]:
        """As `cdf`, for every draw; the ties are found once for all.

        Args:
            nll: scores.
            parameters: what was learned of each draw.
            own: how many of the scores that are kept are the one itself.
        """
        count, rate = len(parameters[0]["scores"]), self.false_alarms or FALSE_ALARMS
        itself = HALF * (1 + max(0.0, 1 - rate * (count - own + 1)))
        least = lower_tie(nll)
        below = -rounded_down(-least, parameters[0]["scores"].dtype)
        reached = np.empty(nll.shape)
        for draw, known in enumerate(parameters):
            reached[draw] = count - own - places(known["scores"], below[draw], "left")
        highest = np.array([known["scores"][-1 - own] for known in parameters])[:, None]
        excess = np.array([known["excess"] for known in parameters])[:, None]
        with np.errstate(over="ignore"):  # an infinite score is infinitely rare
            beyond = np.maximum(least - highest, 0.0) / excess
            odds = (reached + itself) / (count - own + 1) / (1 + beyond) / rate
        if self.steepness != 1:  # powers are not rounded the same on every processor
            odds **= self.steepness
        probability = np.minimum(1 / (1 + odds), SUREST_ODDS)
        probability[nll == np.inf] = 1.0
        return np.asarray(probability)
