"""Scorer: prepared values -> scores under every draw, a block of examples after the other."""

from collections.abc import Iterator
from typing import Protocol, TypeAlias

import numpy as np
from jaxtyping import Float

Scores: TypeAlias = Float[np.ndarray, "draws examples"]
ValueScores: TypeAlias = Float[np.ndarray, "draws examples ..."]

SCORES_AT_ONCE = 2**22  # draws x rows held in memory at a time


class Scorer(Protocol):
    """Anything that scores: M fixed functions from an example to a number that is high for anomalies."""

    @property
    def count(self) -> int:
        """How many draws, M."""

    def blocks(self, values: Float[np.ndarray, "examples ..."]) -> Iterator[Scores]:
        """Scores of all examples, in blocks that fit into memory."""

    def blocks_apart(self, values: Float[np.ndarray, "examples ..."]) -> Iterator[tuple[Scores, ValueScores]]:
        """The scores and every value's part of them, in blocks that stay in the cache.

        A `ConfigError` where examples are scored as a whole.
        """
