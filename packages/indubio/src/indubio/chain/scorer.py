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
        """How many draws there are, M."""

    @property
    def typical(self) -> Float[np.ndarray, "draws ..."] | None:
        """Mean score of every value over the training examples, per draw; None where examples are scored as a whole."""

    def blocks(
        self, values: Float[np.ndarray, "examples ..."], *, apart: bool = False
    ) -> Iterator[tuple[Scores, ValueScores | None]]:
        """Scores of all examples, block by block.

        Args:
            values: of the examples.
            apart: whether to give every value's part of the scores too, where they have such parts.
        """


def scores_of(scorer: Scorer, values: Float[np.ndarray, "examples ..."]) -> Scores:
    """Scores of all examples as one array."""
    return np.concatenate([nll for nll, _ in scorer.blocks(values)], axis=1)
