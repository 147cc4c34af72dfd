"""MemberScorer: the refitted members of an ensemble score, each as one draw."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from indubio.chain import SCORES_AT_ONCE, Scores
from indubio.detector.contained_randomness import own_randomness
from indubio.detector.member_scores import Score, score_of, scores

SMALLEST_SPREAD = 1e-4  # of the training scores, relative to their size; below, they hardly differ at all


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberScorer:
    """Scores by the members of an ensemble.

    Args:
        members: the fitted members.
        seeds: what their randomness is seeded with.
        scored_by: a function of a member and the rows, high for anomalous; None takes a member's own score.
        one_by_one: whether every row is scored alone.
        count: how many draws there are: one per member, unless a function gives several.
    """

    members: list[Any]
    seeds: list[int]
    scored_by: Score | None
    one_by_one: bool
    count: int

    @property
    def typical(self) -> None:
        """A member scores an example as a whole."""
        return

    def blocks(
        self,
        values: Float[np.ndarray, "examples ..."],
        *,
        apart: bool = False,  # noqa: ARG002 - every scorer is called alike
    ) -> Iterator[tuple[Scores, None]]:
        """Scores of all examples, in blocks that fit into memory."""
        rows = values.reshape(len(values), -1)
        size = max(1, SCORES_AT_ONCE // self.count)
        for start in range(0, len(rows), size):
            yield self.scores(rows[start : start + size]), None

    def scores(self, rows: Float[np.ndarray, "examples features"]) -> Scores:
        """Scores of the rows under every member."""
        members = zip(self.members, self.seeds, strict=True)
        return np.concatenate([self._scores_of(model, seed, rows) for model, seed in members])

    def _scores_of(self, model: Any, seed: int, rows: Float[np.ndarray, "examples features"]) -> Scores:
        score = score_of(model) if self.scored_by is None else self.scored_by
        parts = [rows[place : place + 1] for place in range(len(rows))] if self.one_by_one else [rows]
        found = []
        for part in parts:
            with own_randomness(seed):
                found.append(scores(score, model, part))
        return np.concatenate(found, axis=1)


def spread_of_scores(found: Scores) -> Float[np.ndarray, " draws"]:
    """Range of the middle half of each draw's scores; where these are nearly equal, a small part of their size."""
    low, high = np.quantile(found, [0.25, 0.75], axis=1)
    return np.asarray(np.maximum(high - low, SMALLEST_SPREAD * np.abs(found).max(axis=1)))
