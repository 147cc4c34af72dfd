r"""Novelty, how far an example is from all that was seen: told apart from how far the draws disagree.

novelty(x) = min_k |x - c_k| / usual        c_k: centres of the training examples, in units of the training range

`usual` is the distance that one good example in a hundred exceeds, by centres that were made without it. So above 1 an
example is unfamiliar. Of n < 100 examples it is the largest of their distances, which about one in n + 1 exceeds.
Uncertainties do not say this: far from the data all draws agree that an example is an anomaly, and the variance of
their probabilities is 0 there. Nothing is promised by it, and no verdict follows from it by itself.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Shaped

from indubio.calibration import strata
from indubio.errors import ShapeError
from indubio.numerics import product

UNFAMILIAR = 1.0
CENTRES, ROWS_PER_CENTRE = 64, 5
STEPS = 5  # of Lloyd's algorithm
FOLDS = 5
MOST = 5000  # rows that centres are made of
LEVEL = 0.99
SMALLEST = 1e-3  # of the range, per value: examples that are all alike have no distance of their own


@dataclass(frozen=True, kw_only=True, eq=False)
class Familiarity:
    """What was seen, as a few centres.

    Args:
        centres: of the training examples, in units of their range.
        usual: the distance from the nearest of them that one good example in a hundred exceeds.

    Examples:
        >>> import numpy as np
        >>> seen = np.random.default_rng(0).normal(size=(500, 2))
        >>> known = Familiarity.fit(seen, in_order=False, seed=0)
        >>> [bool(one > 1) for one in known.novelty(np.array([[0.0, 0.5], [9.0, 9.0]]))]
        [False, True]
    """

    centres: Float[np.ndarray, "centres values"]
    usual: float

    def __post_init__(self) -> None:
        if self.centres.ndim != 2 or 0 in self.centres.shape or not self.usual > 0:
            raise ShapeError(f"there must be centres and a distance above 0, got {self.centres.shape}, {self.usual}.")

    @classmethod
    def fit(
        cls,
        values: Float[np.ndarray, "examples ..."],
        *,
        in_order: bool,
        seed: int,
        groups: Shaped[np.ndarray, " examples"] | None = None,
    ) -> "Familiarity":
        """Learn what is familiar.

        Args:
            values: of good examples, in units of their range.
            in_order: whether neighbours are alike, as windows are: they are then left out together.
            seed: of the rows that are taken.
            groups: the group of each example where a part of each is to be left out at a time; None takes them as one.
        """
        random = np.random.default_rng([seed, CENTRES])
        rows = np.ascontiguousarray(values.reshape(len(values), -1), dtype=np.float64)
        taken = np.sort(random.permutation(len(rows))[:MOST]) if len(rows) > MOST else np.arange(len(rows))
        rows, count, smallest = rows[taken], len(taken), SMALLEST * rows.shape[1] ** 0.5
        fold = np.arange(count) * FOLDS // count if in_order else random.permutation(count) % FOLDS
        if in_order and groups is not None:
            for members in strata(np.arange(count), groups[taken]):
                fold[members] = np.arange(len(members)) * FOLDS // len(members)
        apart = np.zeros(count)
        for one in np.unique(fold) if count > 1 else []:
            others = cls(centres=_centres(rows[fold != one], random), usual=1.0)
            apart[fold == one] = others.novelty(rows[fold == one])
        place = min(int(np.ceil(LEVEL * (count + 1))), count) - 1
        usual = max(float(np.sort(apart)[place]), smallest)
        return cls(centres=_centres(rows, random).astype(np.float32), usual=usual)

    def novelty(self, values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, " examples"]:
        """The novelty of examples, in units of the training range."""
        rows = values.reshape(len(values), -1).astype(np.float64)
        columns, theirs = self._centres_as_columns
        own = np.cumsum(rows * rows, axis=1)[:, -1]
        squares = own + (theirs - 2 * product(rows, columns)).min(axis=1)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)) / self.usual)

    @cached_property
    def _centres_as_columns(self) -> tuple[Float[np.ndarray, "values centres"], Float[np.ndarray, " centres"]]:
        """The centres and their squares, which every batch of examples needs, however small."""
        centres = self.centres.astype(np.float64)
        return np.ascontiguousarray(centres.T), np.cumsum(centres * centres, axis=1)[:, -1]


def _centres(
    rows: Float[np.ndarray, "examples values"], random: np.random.Generator
) -> Float[np.ndarray, "centres values"]:
    """Means of rows that belong together; a centre that no row is near to stays where it is."""
    count = min(CENTRES, max(1, len(rows) // ROWS_PER_CENTRE))
    centres = rows[np.sort(random.permutation(len(rows))[:count])]
    for _ in range(STEPS):
        squares = np.cumsum(centres * centres, axis=1)[:, -1]
        nearest = (squares - 2 * product(rows, np.ascontiguousarray(centres.T))).argmin(axis=1)
        mine = nearest[:, None] == np.arange(count)
        sums, sizes = product(mine.T.astype(np.float64), rows), np.count_nonzero(mine, axis=0)[:, None]
        centres = np.where(sizes > 0, sums / np.maximum(sizes, 1), centres)
    return centres
