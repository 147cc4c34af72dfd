"""Learning rates: fixed, or found by a range test (Smith 2017, "Cyclical learning rates for training neural networks").

The range test trains for some steps while the rate grows exponentially, and watches the smoothed loss: it begins to
fall at the low end of the useful rates and turns up beyond the high end. It runs on a network of its own, so it costs
some steps and leaves no trace in the networks that are trained.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from indubio.errors import ConfigError, TrainingError
from indubio.settings import AtLeastOne, Positive, Settings

Schedule = Callable[[int], float]  # step -> rate

SMOOTHING = 0.9  # weight of the past in the running mean of the loss
HOPELESS = 4.0  # the test ends when the smoothed loss is this many times its best
FALLEN = 0.02  # the low end is where this share of the whole fall is done
# of a loss that is 1 at first and 0 at its lowest: what is cut off, where the fall has begun, minima that are as low
MOST_SCALED, BEGUN, NEAR = 2.0, 0.9, 0.05


@dataclass(frozen=True, kw_only=True)
class RangeTest(Settings):
    """Find the learning rate by a range test.

    Args:
        lowest: rate at the start.
        highest: rate at the end.
        steps: optimiser steps of the test.
        epochs: take as many steps as so many epochs have, instead of `steps`; the last is one below `highest`.
        restart: Adam forgets the steps before at every step, so that each moves every weight by the rate.
        smoothing: of the losses, and what is read from them. "running_mean": the high end is the rate of the lowest
            loss, the low end where the fall begins. "gaussian_process", over the logarithm of the rate: the high end
            is its first minimum that is within a twentieth of the fall of the lowest one, the low end half of the rate
            at which a tenth of the fall is done.
        use: "fixed": train at the high end found. "triangular": swing between the two ends found, one cycle an epoch.
            "alternating": the same with whole steps up and down, half an epoch each: of three batches low, high, low,
            high.
        margin: the high end that is used is the one that was found divided by this. In a test that does not `restart`,
            steps that go on at the rate of the lowest loss saturate a network without layer norm.

    Examples:
        What the scripts of the paper's authors do.

        >>> RangeTest(epochs=10, restart=True, smoothing="gaussian_process", use="alternating", margin=1.0).steps_of(3)
        30
    """

    lowest: Positive = 1e-7
    highest: Positive = 10.0
    steps: AtLeastOne = 100
    epochs: AtLeastOne | None = None
    restart: bool = False
    smoothing: Literal["running_mean", "gaussian_process"] = "running_mean"
    use: Literal["fixed", "triangular", "alternating"] = "fixed"
    margin: Annotated[float, Field(ge=1)] = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lowest >= self.highest:
            raise ConfigError(
                "`lowest` must be below `highest`, got {lowest} and {highest}.",
                lowest=self.lowest,
                highest=self.highest,
            )

    def steps_of(self, batches: int) -> int:
        """Steps of the test, where an epoch has so many batches."""
        return self.steps if self.epochs is None else self.epochs * batches

    def rates(self, batches: int = 1) -> Float[np.ndarray, " steps"]:
        """The rates tried, evenly spaced on a log scale, to six digits: the last bit differs between processors."""
        tried = np.geomspace(self.lowest, self.highest, self.steps_of(batches), endpoint=self.epochs is None)
        return np.array([float(f"{rate:.6g}") for rate in tried])

    def hopeless(self, losses: Float[np.ndarray, " steps"]) -> bool:
        """Whether the test may end here; one that is smoothed as a whole goes on to its end."""
        if self.smoothing != "running_mean":
            return False
        smoothed = smoothed_losses(losses)
        return bool(smoothed[-1] > HOPELESS * abs(smoothed.min()))

    def found(self, rates: Float[np.ndarray, " steps"], losses: Float[np.ndarray, " steps"]) -> "FoundRates":
        """The two ends that these losses tell."""
        read = found_rates if self.smoothing == "running_mean" else smoothly_found_rates
        return read(rates, losses)

    def schedule(self, found: "FoundRates", batches: int) -> Schedule:
        """The rate of every step, where an epoch has so many batches."""
        high = found.high / self.margin
        if self.use == "fixed":
            return fixed(high)
        cycle = max(2, batches if self.use == "triangular" else 2 * (batches // 2))
        return triangular(min(found.low, high), high, cycle)


@dataclass(frozen=True)
class FoundRates:
    """The two rates a range test found: where the loss begins to fall, and where it is lowest."""

    low: float
    high: float


def found_rates(rates: Float[np.ndarray, " steps"], losses: Float[np.ndarray, " steps"]) -> FoundRates:
    """The rates at which the smoothed loss leaves its first plateau and at which it is lowest."""
    if len(losses) < 2:
        raise _nothing_found(rates)
    smoothed = smoothed_losses(losses)
    lowest = int(smoothed.argmin())
    plateau = float(np.median(smoothed[: max(1, len(smoothed) // 10)]))
    fall = plateau - smoothed[lowest]
    still_there = np.flatnonzero(smoothed[:lowest] >= plateau - FALLEN * fall)
    if not fall > 0 or not len(still_there):
        raise _nothing_found(rates)
    return FoundRates(float(rates[still_there[-1]]), float(rates[lowest]))


def smoothly_found_rates(rates: Float[np.ndarray, " steps"], losses: Float[np.ndarray, " steps"]) -> FoundRates:
    """The two ends of a curve that a Gaussian process smooths, to three digits; without a minimum, its lowest point."""
    if len(losses) < 2 or not losses[0] > losses.min():
        raise _nothing_found(rates)
    scaled = np.minimum((losses - losses.min()) / (losses[0] - losses.min()), MOST_SCALED)
    curve = _smooth(np.log10(rates), scaled)
    minima = [place for place in range(1, len(curve) - 1) if curve[place - 1] > curve[place] < curve[place + 1]]
    lowest = min((curve[place] for place in minima), default=0.0)
    high = rates[next((place for place in minima if curve[place] <= lowest + NEAR), int(curve.argmin()))]
    low = rates[next(iter(np.flatnonzero(curve <= BEGUN)), int(curve.argmin()))] / 2
    return FoundRates(float(f"{min(low, high):.3g}"), float(f"{max(low, high):.3g}"))


def _smooth(x: Float[np.ndarray, " steps"], y: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """What a Gaussian process makes of a curve, its length scale fitted between a half and ten."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the length scale may be at an end of its range
        process = GaussianProcessRegressor(RBF(10.0, (0.5, 10.0))).fit(x[:, None], y)
    return np.asarray(process.predict(x[:, None]))


def _nothing_found(rates: Float[np.ndarray, " steps"]) -> TrainingError:
    return TrainingError(
        "the learning-rate range test found no falling loss from {rate:.0e} on. "
        "Set `learning_rate` to a number, for example 0.001.",
        rate=rates[0],
    )


def smoothed_losses(losses: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """Exponential running mean, corrected for its start."""
    running, smoothed = 0.0, np.empty_like(losses)
    for step, loss in enumerate(losses):
        running = SMOOTHING * running + (1 - SMOOTHING) * float(loss)
        smoothed[step] = running / (1 - SMOOTHING ** (step + 1))
    return smoothed


def fixed(rate: float) -> Schedule:
    """A schedule with one rate for every step."""
    return lambda _: rate


def triangular(low: float, high: float, cycle: int) -> Schedule:
    """Up from `low` to `high` and down again in `cycle` steps, over and over."""

    def rate(step: int) -> float:
        phase = step % cycle / cycle
        return low + (high - low) * (1 - abs(2 * phase - 1))

    return rate
