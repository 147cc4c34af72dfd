"""Curves of several seeds as one: mean and standard error on common rejection rates.

Every seed has rejection rates of its own. Each curve is read as steps (`RejectionCurve.at`) at the same rates, and not
beyond its own last point. The mean is over the seeds that are defined at a rate, and there is none where fewer than
half of them are: with most anomalies rejected the few seeds left would make it jump.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from indubio.evaluation import RATE_TOLERANCE, RejectionCurve

RATES = np.linspace(0, 1, 51)


@dataclass(frozen=True, eq=False)
class MeanCurve:
    """A metric over the seeds at every rejection rate; NaN where too few seeds are defined.

    Args:
        rates: share rejected.
        mean: of the metric.
        error: standard error of the mean; NaN where there is one seed only.
    """

    rates: Float[np.ndarray, " rates"]
    mean: Float[np.ndarray, " rates"]
    error: Float[np.ndarray, " rates"]


def mean_curve(curves: Sequence[RejectionCurve], rates: Float[np.ndarray, " rates"] = RATES) -> MeanCurve:
    """The mean of the curves and its standard error."""
    values = np.stack([_read(curve, rates) for curve in curves])
    enough = 2 * np.count_nonzero(~np.isnan(values), axis=0) >= len(values)
    mean, error = (np.full(len(rates), np.nan) for _ in range(2))
    for place in np.flatnonzero(enough):
        mean[place], error[place] = mean_and_error(values[:, place])
    return MeanCurve(rates, mean, error)


def mean_and_error(values: Float[np.ndarray, " values"]) -> tuple[float, float]:
    """Mean and standard error of what is defined; the error of a single value is NaN."""
    defined = values[~np.isnan(values)]
    if defined.size == 0:
        return float("nan"), float("nan")
    error = defined.std(ddof=1) / np.sqrt(defined.size) if defined.size > 1 else float("nan")
    return float(defined.mean()), float(error)


def _read(curve: RejectionCurve, rates: Float[np.ndarray, " rates"]) -> Float[np.ndarray, " rates"]:
    reached = rates <= curve.rejection_rate[-1] + RATE_TOLERANCE
    return np.where(reached, curve.at(rates), np.nan)
