"""Learning rates: fixed, or found by a range test (Smith 2017, "Cyclical learning rates for training neural networks").

The range test trains for some steps while the rate grows exponentially, and watches the smoothed loss: it begins to
fall at the low end of the useful rates and turns up beyond the high end. It runs on a network of its own, so it costs
some steps and leaves no trace in the networks that are trained.
"""

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


@dataclass(frozen=True, kw_only=True)
class RangeTest(Settings):
    """Find the learning rate by a range test.

    Args:
        lowest: rate at the start.
        highest: rate at the end.
        steps: optimiser steps of the test.
        use: "fixed": train at the high end found. "triangular": swing between the two ends found, one cycle an epoch,
            as the authors' scripts did.
        margin: the high end is the rate of the lowest loss divided by this. That rate itself (a margin of 1, as in the
            scripts) is the last at which a single step helped; steps that go on at it saturate a network without
            layer norm.
    """

    lowest: Positive = 1e-7
    highest: Positive = 10.0
    steps: AtLeastOne = 100
    use: Literal["fixed", "triangular"] = "fixed"
    margin: Annotated[float, Field(ge=1)] = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lowest >= self.highest:
            raise ConfigError(f"`lowest` must be below `highest`, got {self.lowest} and {self.highest}.")

    def rates(self) -> Float[np.ndarray, " steps"]:
        """The rates tried, evenly spaced on a log scale, to six digits: the last bit differs between processors."""
        return np.array([float(f"{rate:.6g}") for rate in np.geomspace(self.lowest, self.highest, self.steps)])


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


def _nothing_found(rates: Float[np.ndarray, " steps"]) -> TrainingError:
    return TrainingError(
        f"the learning-rate range test found no falling loss from {rates[0]:.0e} on. "
        "Set `learning_rate` to a number, for example 0.001."
    )


def smoothed_losses(losses: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """Exponential running mean, corrected for its start."""
    running, smoothed = 0.0, np.empty_like(losses)
    for step, loss in enumerate(losses):
        running = SMOOTHING * running + (1 - SMOOTHING) * float(loss)
        smoothed[step] = running / (1 - SMOOTHING ** (step + 1))
    return smoothed


def fixed(rate: float) -> Schedule:
    """The same rate at every step."""
    return lambda _: rate


def triangular(low: float, high: float, cycle: int) -> Schedule:
    """Up from `low` to `high` and down again in `cycle` steps, over and over."""

    def rate(step: int) -> float:
        phase = step % cycle / cycle
        return low + (high - low) * (1 - abs(2 * phase - 1))

    return rate
