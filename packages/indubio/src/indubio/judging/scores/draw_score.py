"""DrawScore: a score of examples that is made of what M draws say of them, as `Draws` themselves give the NLL."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from indubio.errors import ConfigError
from indubio.networks import Likelihood
from indubio.posteriors import Draws

VALUES_AT_ONCE = 2**22  # draws x rows x values held in memory at a time

Scores = Float[np.ndarray, "scores n"]
ValueScores = Float[np.ndarray, "scores n ..."]


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawScore(ABC):
    """A score, high for anomalies, and every value's part of it: the score is their mean.

    It depends on the row alone, to the bit: sums go in order, in double precision.

    Args:
        draws: all draws.
        parts: how many of them each fold has, in order: those that were trained on the same rows.
    """

    TOGETHER: ClassVar[bool] = True  # one score for all draws of a fold; else one for each draw
    FEWEST: ClassVar[int] = 2  # draws of a fold

    draws: Draws
    parts: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many scores an example has."""
        return len(self.parts) if self.TOGETHER else self.draws.count

    def nll(self, rows: Float[np.ndarray, "n ..."]) -> Scores:
        """The score of every row, by every fold of the draws."""
        return np.concatenate([scores for scores, _ in self._blocks(rows)], axis=1)

    def nll_apart(self, rows: Float[np.ndarray, "n ..."]) -> tuple[Scores, ValueScores]:
        """The scores of `nll`, to the bit, and every value's part of them."""
        scores, apart = zip(*self._blocks(rows), strict=True)
        return np.concatenate(scores, axis=1), np.concatenate(apart, axis=1)

    @classmethod
    def check(cls, name: str, draws: int, likelihood: Likelihood) -> None:
        """Refuse what has no such score.

        Args:
            name: of the score, for the message.
            draws: of the fold with the fewest.
            likelihood: of the draws.
        """
        del likelihood
        if draws < cls.FEWEST:
            raise ConfigError(
                "`anomaly_score` {name!r} is of a variance over draws and needs at least {fewest} of them in "
                "every fold, got {draws}. Take more draws or fewer folds, or a posterior that has draws, such as "
                'AnchoredEnsemble(); or `anomaly_score="nll"`.',
                name=name,
                fewest=cls.FEWEST,
                draws=draws,
            )

    @abstractmethod
    def scored(self, rows: Float[np.ndarray, "n ..."]) -> tuple[Scores, ValueScores]:
        """The scores of some rows, all at once, and every value's part of them."""

    def _blocks(self, rows: Float[np.ndarray, "n ..."]) -> Iterator[tuple[Scores, ValueScores]]:
        size = max(1, VALUES_AT_ONCE // (self.draws.count * prod(rows.shape[1:])))
        for start in range(0, len(rows), size):
            yield self.scored(rows[start : start + size])

    def _slices(self) -> list[slice]:
        """Which draws belong to each fold."""
        ends = np.cumsum(self.parts).tolist()
        return [slice(end - draws, end) for end, draws in zip(ends, self.parts, strict=True)]


def mean_of_values(values: ValueScores) -> Scores:
    """The mean over an example's values, added up in order: numpy's own sums depend on the processor."""
    flat = values.reshape(*values.shape[:2], prod(values.shape[2:]))
    return np.asarray(np.cumsum(flat, axis=2, dtype=np.float64)[:, :, -1] / flat.shape[2])
