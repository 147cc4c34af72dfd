r"""What people say of examples, learned: a correction of the log-odds of an anomaly that is linear in the values.

    logit p'_m(x) = logit p_m(x) + g(x),    g(x) = 4 w . (x - 1/2) / sqrt(D) + c,    w, c ~ Normal(0, spread^2)

with x scaled to the training range, so that g begins at 0, the detector's own opinion, and moves as far as the labels
carry it: (w, c) is the most probable correction given the labels, a ridge-regularised logistic regression whose offset
is the unsupervised log-odds.

A probability is an anomaly's against a good example's, as if both were equally common. So each kind of label counts as
it would if both were: by one over how common the kind is among the examples that come, and not among the labelled. With
pi the share of anomalies,

    weight = 1 / pi of an anomaly, 1 / (1 - pi) of a good example, the mean of all 1
    pi = mean of P(anomaly | x) over recent examples,    logit P(anomaly | x) = logit p'(x) + logit pi

and the pi is found, with (w, c), for which this agrees with itself. It then does not matter by what the labelled
examples were chosen, by their uncertainty, their score or at random, as long as it was by what was known of x and not
by the label; and 1/2 goes on to be the threshold, however rare anomalies are. The labels themselves are not kept, and
D + 2 numbers are.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import brentq
from scipy.special import expit, logit

from indubio.errors import ConfigError, DataError, ShapeError

SUREST = 0.98  # no draw is believed further than this: else no label could ever correct a 0 or a 1
FARTHEST = 5.0  # values count as at most this far from the middle of the range, in quarters of it
STEPS, TOLERANCE = 100, 1e-10  # of Newton's method; it ends long before


@dataclass(frozen=True, kw_only=True, eq=False)
class Correction:
    """What was learned from labels.

    Args:
        weights: of each value of an example, flat.
        constant: of every example.
        reviewed: how many labels it was learned from.
        anomalies: how many of these are anomalies.
        prevalence: how common anomalies are among recent examples, by what was learned.
    """

    weights: Float[np.ndarray, " values"]
    constant: float
    reviewed: int
    anomalies: int
    prevalence: float

    def __post_init__(self) -> None:
        if self.weights.ndim != 1 or not len(self.weights):
            raise ShapeError(f"`weights` must have one number per value, got the shape {self.weights.shape}.")
        if not (np.isfinite(self.weights).all() and np.isfinite(self.constant)):
            raise DataError("`weights` and `constant` must be finite.")
        if not 0 < self.anomalies < self.reviewed:
            raise DataError("there must be labels of good examples and of anomalies.")
        if not 0 < self.prevalence < 1:
            raise DataError(f"`prevalence` must be between 0 and 1, got {self.prevalence}.")

    @classmethod
    def fit(
        cls,
        scaled: Float[np.ndarray, "examples ..."],
        probability: Float[np.ndarray, " examples"],
        anomaly: Bool[np.ndarray, " examples"],
        spread: float,
        *,
        recent: Float[np.ndarray, "recent ..."],
        recent_probability: Float[np.ndarray, " recent"],
    ) -> "Correction":
        """The most probable correction, given the labels.

        Args:
            scaled: values, in units of the training range.
            probability: mean probability of each example, not corrected.
            anomaly: what people say.
            spread: how far the log-odds may move, as a standard deviation, before the labels are seen.
            recent: values of examples as they come, likewise.
            recent_probability: theirs.
        """
        if not 0 < spread < np.inf:
            raise ConfigError(f"`spread` must be above 0, got {spread}.")
        if anomaly.all() or not anomaly.any():
            raise DataError(
                f"labels of both kinds are needed, and all {len(anomaly)} are "
                f"{'anomalies' if anomaly.any() else 'good'}. Review more, or use `update` for good examples alone."
            )
        labels = _Labels(_design(scaled), anomaly, _log_odds(probability), 1 / spread**2)
        values, offset = _design(recent), _log_odds(recent_probability)

        def rarer(common: float) -> float:
            """How much rarer anomalies are thought to be than they then are among recent examples, in log-odds."""
            expected = expit(offset + values @ labels.most_probable(common) + common)
            return float(logit(expected.mean()) - common)

        rarest = float(logit(0.5 / (len(values) + 1)))  # so many examples cannot tell more
        if rarer(rarest) <= 0:
            common = rarest
        elif rarer(-rarest) >= 0:
            common = -rarest
        else:
            common = float(brentq(rarer, rarest, -rarest, xtol=TOLERANCE))
        found = labels.most_probable(common)
        return cls(
            weights=found[:-1],
            constant=float(found[-1]),
            reviewed=len(anomaly),
            anomalies=int(anomaly.sum()),
            prevalence=float(expit(common)),
        )

    def log_odds(self, scaled: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, " examples"]:
        """g(x): how far each example's log-odds are moved. Rows are added up one by one, whatever their company."""
        values = _values(scaled)
        if values.shape[1] != len(self.weights):
            raise ShapeError(f"this correction is of {len(self.weights)} values, got {values.shape[1]}.")
        return np.asarray((values * self.weights).sum(axis=1) + self.constant)

    def corrected(
        self, p: Float[np.ndarray, "draws examples"], log_odds: Float[np.ndarray, " examples"]
    ) -> Float[np.ndarray, "draws examples"]:
        """The draws' probabilities, with the log-odds moved: they disagree as they did."""
        return np.asarray(expit(logit(np.clip(p, 1 - SUREST, SUREST)) + log_odds))


def _values(scaled: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples values"]:
    """Quarters of the training range from its middle, so that a usual value is of size 1, and so is their norm."""
    flat = np.ascontiguousarray(scaled, dtype=np.float64).reshape(len(scaled), -1)
    return np.asarray(np.clip(4 * (flat - 0.5), -FARTHEST, FARTHEST) / np.sqrt(flat.shape[1]))


def _design(scaled: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples terms"]:
    values = _values(scaled)
    return np.concatenate([values, np.ones((len(values), 1))], axis=1)


def _log_odds(probability: Float[np.ndarray, " examples"]) -> Float[np.ndarray, " examples"]:
    return np.asarray(logit(np.clip(probability, 1 - SUREST, SUREST)))


class _Labels:
    """Labelled examples to learn from, by Newton's method within the space that they span: fast for few examples.

    Args:
        design: values and a constant.
        anomaly: what people say.
        offset: log-odds to start from.
        ridge: of the penalty.
    """

    def __init__(
        self,
        design: Float[np.ndarray, "examples terms"],
        anomaly: Bool[np.ndarray, " examples"],
        offset: Float[np.ndarray, " examples"],
        ridge: float,
    ) -> None:
        u, s, self._vt = np.linalg.svd(design, full_matrices=False)
        self._within, self._anomaly, self._offset, self._ridge = u * s, anomaly, offset, ridge
        self._last = np.zeros(len(s))  # what was found before, to start from

    def most_probable(self, common: float) -> Float[np.ndarray, " terms"]:
        """The correction, if these are the log-odds of an anomaly among all examples.

        The loss is convex; a step is halved until it goes down, so it cannot be overshot.
        """
        within, offset, ridge, b = self._within, self._offset, self._ridge, self._last
        y = self._anomaly.astype(np.float64)
        weight = np.where(self._anomaly, 1 / expit(common), 1 / expit(-common))
        weight = weight / weight.mean()

        def loss(b: Float[np.ndarray, " rank"]) -> float:
            moved = offset + within @ b
            return float(weight @ (np.logaddexp(0, moved) - y * moved) + ridge / 2 * b @ b)

        now = loss(b)
        for _ in range(STEPS):
            p = expit(offset + within @ b)
            gradient = within.T @ (weight * (p - y)) + ridge * b
            curvature = within.T @ ((weight * p * (1 - p))[:, None] * within) + ridge * np.eye(len(b))
            step = np.linalg.solve(curvature, gradient)
            while loss(b - step) > now and np.abs(step).max() > TOLERANCE:
                step = step / 2
            b, before, now = b - step, now, loss(b - step)
            if before - now <= TOLERANCE * max(1.0, abs(now)):
                break
        self._last = b
        return np.asarray(self._vt.T @ b)
