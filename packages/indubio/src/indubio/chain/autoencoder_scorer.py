"""AutoencoderScorer: the draws of a Bayesian autoencoder score; the score of an example is a mean over its values."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from jaxtyping import Float

from indubio.chain.kept_rows import KeptRows
from indubio.chain.scorer import SCORES_AT_ONCE, Scores, ValueScores
from indubio.judging import DrawScore
from indubio.posteriors import Draws

VALUES_WATCHED = 2**18  # draws x rows x values shown at a time: they stay in the cache
FEWEST_WATCHED, MOST_VALUES_WATCHED = 112, 2**24  # rows, though they do not stay there; but no more values than this


@dataclass(frozen=True, kw_only=True, eq=False)
class AutoencoderScorer:
    """Scores by an autoencoder.

    Args:
        scores: what scores: the draws of its posterior by their NLL, or what makes another score of them.
        typical: mean score of every value over the training examples, per draw: what contributions are counted from;
            None before it is known.
        kept: rows to calibrate again with, where the draws keep their sums; None where they do not.
    """

    scores: Draws | DrawScore
    typical: Float[np.ndarray, "draws ..."] | None
    kept: KeptRows | None = None

    @property
    def count(self) -> int:
        """How many scores an example has: one for each draw, or for each fold of the draws."""
        return self.scores.count

    @property
    def draws(self) -> Draws:
        """The draws of the posterior."""
        return self.scores if isinstance(self.scores, Draws) else self.scores.draws

    def blocks(
        self, values: Float[np.ndarray, "examples ..."], *, apart: bool = False
    ) -> Iterator[tuple[Scores, ValueScores | None]]:
        """Scores of all examples, in blocks that fit into memory; with their parts, in such that stay in the cache."""
        size = SCORES_AT_ONCE // self.scores.count
        if apart:
            values_of_row = self.scores.count * prod(values.shape[1:])
            size = max(VALUES_WATCHED // values_of_row, min(FEWEST_WATCHED, MOST_VALUES_WATCHED // values_of_row))
        for start in range(0, len(values), max(1, size)):
            block = values[start : start + max(1, size)]
            yield self.scores.nll_apart(block) if apart else (self.scores.nll(block), None)

    def with_typical(self, values: Float[np.ndarray, "examples ..."]) -> tuple["AutoencoderScorer", Scores]:
        """This scorer, knowing what these training examples usually score; and their scores."""
        blocks, added = [], np.zeros((self.scores.count, *values.shape[1:]))
        for nll, apart in self.blocks(values, apart=True):
            assert apart is not None
            blocks.append(nll)
            added += apart.sum(axis=1, dtype=np.float64)
        typical = (added / len(values)).astype(np.float32)
        return replace(self, typical=typical), np.concatenate(blocks, axis=1)
