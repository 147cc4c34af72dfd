r"""Parallel tempering: chains of weights at rising temperatures, which move by Metropolis' rule and swap places.

Chain i settles to exp(-c_i L(theta)), c_i = N / T_i its coldness. A move proposes

    theta' = theta - e grad L(theta) + sqrt(2 e / c_i) N(0, 1)      Langevin; taken back by its own density q
    theta' = theta                   + sqrt(2 e / c_i) N(0, 1)      random walk

and is accepted with min(1, exp(-c_i (L' - L)) q(theta | theta') / q(theta' | theta)). Neighbours swap their places with
min(1, exp((c_i - c_j) (L_i - L_j))). Both rules leave the product of all chains' distributions as it is, so that it is
exact however rough the gradient is: only L itself must be.

Step sizes are tuned while that is asked for, and stay what they are afterwards: a chain whose steps depend on its past
would settle elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite, prod, sqrt
from typing import Protocol

import numpy as np
from jaxtyping import Float

from indubio.numerics import Stream, exponential
from indubio.texts import english

LANGEVIN_RATE, WALK_RATE = 0.574, 0.234  # accepted of the best step sizes in many dimensions (Roberts & Rosenthal 2001)
TUNING_MOVES = 20  # after so many, a move changes its step size half as much as the first one
SMALLEST_LOG = -100.0  # of a probability that can happen: uniform numbers have 24 bits

Values = Float[np.ndarray, " p"]


class Target(Protocol):
    """What the chains go down on."""

    def loss(self, values: Values) -> float:
        """The loss L at these values."""

    def gradient(self, values: Values) -> Values:
        """The gradient of L, or what comes near it."""


class Place:
    """Where a chain is; what is known of the place is computed once.

    Args:
        target: whose loss it is.
        values: the weights.
    """

    def __init__(self, target: Target, values: Values) -> None:
        self._target, self.values = target, values

    @cached_property
    def loss(self) -> float:
        """L, infinite where it is not a number."""
        found = self._target.loss(self.values)
        return found if isfinite(found) else float("inf")

    @cached_property
    def gradient(self) -> Values:
        """The gradient of L where the chain is."""
        return self._target.gradient(self.values).astype(np.float64)

    def moved(self, by: Values) -> "Place":
        """The place that is so far away, in the precision of this one."""
        return Place(self._target, (self.values + by).astype(self.values.dtype))


@dataclass
class Moves:
    """Moves of one kind: their step size, and how many were accepted.

    Args:
        step: e.
        goal: share of accepted moves that the step size is tuned to.
    """

    step: float
    goal: float
    proposed: int = 0
    accepted: int = 0
    tuned: int = field(default=0, init=False)

    def count(self, accepted: bool, *, tuning: bool) -> None:
        """Note a move; moves that tune the step size are not counted."""
        if tuning:
            change = 1 / (1 + self.tuned / TUNING_MOVES)
            self.step *= 1 + change * (accepted - self.goal)
            self.tuned += 1
        else:
            self.proposed += 1
            self.accepted += accepted


class Rung:
    """The chain of one temperature.

    Args:
        place: where it begins.
        coldness: N / T.
        stream: its random numbers.
        langevin: its moves along the gradient.
        walk: its other moves.
        share: probability of a move along the gradient.
    """

    def __init__(
        self, place: Place, coldness: float, stream: Stream, langevin: Moves, walk: Moves, share: float
    ) -> None:
        self.place, self.coldness, self.langevin, self.walk = place, coldness, langevin, walk
        self._stream, self._share = stream, share

    def move(self, *, tuning: bool) -> None:
        """Propose another place, and go there if it is accepted."""
        which, chance = uniforms(self._stream, 2)
        kind = self.langevin if which < self._share else self.walk
        here, spread = self.place, sqrt(2 * kind.step / self.coldness)
        kick = spread * self._stream.normal(here.values.shape).astype(np.float64)
        if kind is self.langevin:
            there = here.moved(kick - kind.step * here.gradient)
            log_ratio = self._downhill(here, there)
            if isfinite(log_ratio):
                log_ratio += self._log_density(there, here) - self._log_density(here, there)
        else:
            there = here.moved(kick)
            log_ratio = self._downhill(here, there)
        accepted = happens(log_ratio, chance)
        if accepted:
            self.place = there
        kind.count(accepted, tuning=tuning)

    def _downhill(self, here: Place, there: Place) -> float:
        return self.coldness * (here.loss - there.loss)

    def _log_density(self, start: Place, end: Place) -> float:
        """Of the Langevin move from one place to another, but for a constant."""
        off = end.values.astype(np.float64) - start.values + self.langevin.step * start.gradient
        return -self.coldness / (4 * self.langevin.step) * sum_of_squares(off)


class Ladder:
    """Chains of rising temperature.

    Args:
        rungs: the chains, the coldest first.
        stream: the random numbers of swaps.
    """

    def __init__(self, rungs: Sequence[Rung], stream: Stream) -> None:
        self.rungs, self._stream = rungs, stream
        self.swaps, self._first = Moves(step=0.0, goal=0.0), 0

    def move(self, *, tuning: bool = False) -> None:
        """Move every chain once."""
        for rung in self.rungs:
            rung.move(tuning=tuning)

    def swap(self, *, tuning: bool = False) -> None:
        """Propose swaps of every second pair of neighbours, the other pairs at the next call."""
        pairs = [self.rungs[first : first + 2] for first in range(self._first, len(self.rungs) - 1, 2)]
        self._first = 1 - self._first
        if not pairs:
            return
        for (one, other), chance in zip(pairs, uniforms(self._stream, len(pairs)), strict=True):
            accepted = happens((one.coldness - other.coldness) * (one.place.loss - other.place.loss), chance)
            if accepted:
                one.place, other.place = other.place, one.place
            self.swaps.count(accepted, tuning=tuning)

    def facts(self) -> dict[str, float]:
        """Shares of accepted moves and swaps over all chains, without those that tuned step sizes; 0 of none."""
        kinds = {
            english("accepted Langevin moves"): [rung.langevin for rung in self.rungs],
            english("accepted random moves"): [rung.walk for rung in self.rungs],
            english("accepted swaps"): [self.swaps],
        }
        return {
            name: sum(one.accepted for one in moves) / max(1, sum(one.proposed for one in moves))
            for name, moves in kinds.items()
        }


def temperatures(chains: int, highest: float) -> list[float]:
    """From 1 to the highest, each the same multiple of the one before; by products alone, the same on every machine."""
    low, high = 1.0, highest
    for _ in range(60):
        middle = (low + high) / 2
        if prod([middle] * (chains - 1)) < highest:
            low = middle
        else:
            high = middle
    return [prod([high] * place) * 1.0 for place in range(chains)]


def uniforms(stream: Stream, count: int) -> list[float]:
    """Random numbers from [0, 1), as many as asked for."""
    return [0.5 + float(number) for number in stream.uniform((count,), 0.5)]


def happens(log_probability: float, chance: float) -> bool:
    """Whether what has this log probability, at least 0 being certain, happens by this uniform number; never by NaN."""
    if not log_probability > SMALLEST_LOG:
        return False
    return log_probability >= 0 or chance < float(exponential(np.array([log_probability]))[0])


def sum_of_squares(values: Values) -> float:
    """In order, in double precision: numpy's own sums depend on the processor."""
    wide = values.astype(np.float64)
    return float(np.cumsum(wide * wide)[-1])
