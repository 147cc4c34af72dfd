r"""What people say of examples, learned: a correction of the log-odds of an anomaly that is linear in the values.

    logit p'_m(x) = logit p_m(x) + g(x),    g(x) = 4 w . (x - 1/2) / sqrt(D) + c,    w, c ~ Normal(0, spread^2)

with x scaled to the training range, so that g begins at 0, the detector's own opinion, and moves as far as the labels
carry it: (w, c) is the most probable correction given the labels, a ridge-regularised logistic regression whose offset
is the unsupervised log-odds. Both kinds of labels count, the good and the anomalous, each kind half of the whole: the
probability goes on to mean what it did, an anomaly's against a good example's, and 1/2 goes on to be the threshold,
however rare anomalies are.

Examples that are reviewed for their uncertainty need no reweighting: they were chosen by what the detector knew of x,
and g is learned given x. The labels themselves are not kept, and D + 1 numbers are.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
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
    """

    weights: Float[np.ndarray, " values"]
    constant: float
    reviewed: int
    anomalies: int

    def __post_init__(self) -> None:
        if self.weights.ndim != 1 or not len(self.weights):
            raise ShapeError(f"`weights` must have one number per value, got the shape {self.weights.shape}.")
        if not (np.isfinite(self.weights).all() and np.isfinite(self.constant)):
            raise DataError("`weights` and `constant` must be finite.")
        if not 0 < self.anomalies < self.reviewed:
            raise DataError("there must be labels of good examples and of anomalies.")

    @classmethod
    def fit(
        cls,
        scaled: Float[np.ndarray, "examples ..."],
        probability: Float[np.ndarray, " examples"],
        anomaly: Bool[np.ndarray, " examples"],
        spread: float,
    ) -> "Correction":
        """The most probable correction, given the labels.

        Args:
            scaled: values, in units of the training range.
            probability: mean probability of each example, not corrected.
            anomaly: what people say.
            spread: how far the log-odds may move, as a standard deviation, before the labels are seen.
        """
        if not 0 < spread < np.inf:
            raise ConfigError(f"`spread` must be above 0, got {spread}.")
        if anomaly.all() or not anomaly.any():
            raise DataError(
                f"labels of both kinds are needed, and all {len(anomaly)} are "
                f"{'anomalies' if anomaly.any() else 'good'}. Review more, or use `update` for good examples alone."
            )
        values = _values(scaled)
        design = np.concatenate([values, np.ones((len(values), 1))], axis=1)
        share = anomaly.mean()
        weight = np.where(anomaly, 0.5 / share, 0.5 / (1 - share))
        offset = logit(np.clip(probability, 1 - SUREST, SUREST))
        found = _most_probable(design, anomaly.astype(np.float64), offset, weight, 1 / spread**2)
        return cls(
            weights=found[:-1],
            constant=float(found[-1]),
            reviewed=len(anomaly),
            anomalies=int(anomaly.sum()),
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


def _most_probable(
    design: Float[np.ndarray, "examples terms"],
    y: Float[np.ndarray, " examples"],
    offset: Float[np.ndarray, " examples"],
    weight: Float[np.ndarray, " examples"],
    ridge: float,
) -> Float[np.ndarray, " terms"]:
    """Newton's method on the penalised logistic loss, within the space that the examples span: fast for few examples.

    The loss is convex; a step is halved until it goes down, so it cannot be overshot.
    """
    u, s, vt = np.linalg.svd(design, full_matrices=False)
    within = u * s
    b = np.zeros(within.shape[1])

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
    return np.asarray(vt.T @ b)
