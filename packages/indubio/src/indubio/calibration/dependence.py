r"""Dependence: whether training examples know each other, found without labels; what it means for the folds.

    likeness(lag) = mean over columns of 1 - mean_i (z_i - z_{i+lag})^2 / 2,    z: ranks of mean 0 and variance 1

It is 0 for rows in any order, with a standard deviation that is known, and the autocorrelation where rows follow each
other: in time, in batches, as copies. A promise about new examples is made from examples that were held out, and it
holds only if these are as far from what was trained on as new ones will be. So:

    neighbours are alike    stretches are held out, with a gap at both ends as long as the likeness lasts; whole runs
                            where there are several
    rows are copies         those that are equal stand on one side

Where nothing is found nothing is changed. docs/dependence.md has what was measured, and what else was tried.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from jaxtyping import Float, Int, Shaped

Bounds: TypeAlias = Callable[[int], list[tuple[int, int]]]
Held: TypeAlias = tuple[Int[np.ndarray, " held"], Int[np.ndarray, " near"]]

ENOUGH = 50  # examples; of fewer nothing is said
ALIKE = 0.1  # likeness of neighbours from which on they are held out together
SURE = 6.0  # standard deviations of the likeness of rows in any order
MOST_COLUMNS = 64  # that are looked at
LARGEST_GAP = 20  # one in so many examples at each end of a stretch
COPIED = 0.05  # share of the distinct rows that come more than once, from which on rows were copied
OWN = 0.5  # share of the distinct rows that have a value of their own in a column: else it has few
BY_CHANCE = 0.1  # of the copies may be equal because values are rounded
NEAR = 1e-6  # of the range: nearer rows are copies
BLOCK = 2**20  # values that are looked at together
RESTING = 20  # one in so many examples: rows that come more often than this are a state of rest, and no copies
SMALLEST_FOLD = 3  # one in so many of what an equal fold has; runs that do not allow it are not held out whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Dependence:
    """How training examples depend on each other.

    Args:
        likeness: of neighbours, from 0 to 1; 0 where it may be chance.
        gap: how many examples lie between what trains and a stretch that is held out.
        lasting: whether neighbours were still alike at the longest gap that is kept.
        run: number of the run that each example is of, in order; None where there is only one.
        copy: number of the distinct example that each is a copy of; None where rows were not copied.
    """

    likeness: float = 0.0
    gap: int = 0
    lasting: bool = False
    run: Int[np.ndarray, " examples"] | None = None
    copy: Int[np.ndarray, " examples"] | None = None

    @classmethod
    def of(
        cls,
        values: Float[np.ndarray, "examples ..."],
        runs: Shaped[np.ndarray, " examples"] | None = None,
        groups: Shaped[np.ndarray, " examples"] | None = None,
    ) -> Self:
        """What is found in examples in the order of the data.

        Args:
            values: rows (N, D), windows (N, L, K) or images (N, H, W, C), NaN where missing.
            runs: the name of the run (file, recording) of each; None where nothing names them.
            groups: the name of the group (machine) that each is divided with: that those of one are at a level of
                their own is no likeness; None where all are divided as one.

        Examples:
            >>> import numpy as np
            >>> rows = np.random.default_rng(0).normal(size=(500, 3))
            >>> Dependence.of(rows).likeness
            0.0
            >>> walk = Dependence.of(np.cumsum(rows, axis=0))
            >>> walk.likeness > 0.9, walk.gap
            (True, 25)
        """
        if len(values) < ENOUGH:
            return cls()
        with np.errstate(all="ignore"):  # what is not finite is refused elsewhere
            return cls._of_many(values, runs, groups)

    @classmethod
    def _of_many(
        cls,
        values: Float[np.ndarray, "examples ..."],
        runs: Shaped[np.ndarray, " examples"] | None,
        groups: Shaped[np.ndarray, " examples"] | None,
    ) -> Self:
        columns = _flat(values)
        ranks, noise = _ranks(columns if groups is None else _levelled(columns, groups))
        most = len(values) // LARGEST_GAP
        first = _likeness(ranks, 1)
        if not first >= max(ALIKE, SURE * noise):
            return cls(copy=_copies(values))
        gap = next((lag for lag in _lags(most) if _likeness(ranks, lag) < max(ALIKE, 2 * noise)), None)
        return cls(
            likeness=first,
            gap=most if gap is None else gap,
            lasting=gap is None,
            run=_numbered(runs),
            copy=_copies(values),
        )

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return 1 if self.run is None else int(self.run.max()) + 1

    @property
    def copied(self) -> float:
        """The share of the examples that are copies of others."""
        return 0.0 if self.copy is None else 1 - (int(self.copy.max()) + 1) / len(self.copy)

    @property
    def in_stretches(self) -> bool:
        """Whether neighbours are alike, so that stretches must be held out."""
        return self.likeness > 0

    def divided(
        self, members: Sequence[Int[np.ndarray, " members"]], ways: Sequence[Bounds], *, in_order: bool
    ) -> list[Held]:
        """The examples that are held out each time, each time with those that are too near to them to train.

        Args:
            members: examples of each group, in the order in which they are divided.
            ways: how many examples are divided into places from where to where; the first that whole runs allow,
                or the first of all.
            in_order: whether neighbours are held out together; else the order was shuffled.
        """
        if in_order and self.run is not None and len(members) == 1:
            for way in ways:
                whole = _whole(members[0], self.run[members[0]], way)
                if whole is not None:
                    return [(held, held[:0]) for held in whole]
        each = [self._of_group(rows, ways[0], in_order=in_order) for rows in members]
        return [
            (np.concatenate([held for held, _ in parts]), np.concatenate([near for _, near in parts]))
            for parts in zip(*each, strict=True)
        ]

    def without_copies(
        self, trained: Int[np.ndarray, " trained"], held: Int[np.ndarray, " held"]
    ) -> Int[np.ndarray, " kept"]:
        """Of the examples that train, those that are no copies of any that is held out."""
        return trained if self.copy is None else trained[~np.isin(self.copy[trained], self.copy[held])]

    def _of_group(self, rows: Int[np.ndarray, " members"], way: Bounds, *, in_order: bool) -> list[Held]:
        if self.copy is not None and not in_order:
            first = np.full(self.copy.max() + 1, len(rows))
            np.minimum.at(first, self.copy[rows], np.arange(len(rows)))
            whole = _whole(rows, first[self.copy[rows]], way)
            if whole is not None:
                return [(held, held[:0]) for held in whole]
        gap = self.gap if in_order else 0
        return [
            (rows[start:stop], np.concatenate([rows[max(0, start - gap) : start], rows[stop : stop + gap]]))
            for start, stop in way(len(rows))
        ]


INDEPENDENT = Dependence()


def _whole(
    rows: Int[np.ndarray, " members"], number: Int[np.ndarray, " members"], way: Bounds
) -> list[Int[np.ndarray, " held"]] | None:
    """The examples divided so that those with the same number stay together; None where that leaves one too small."""
    order, bounds = np.argsort(number, kind="stable"), way(len(rows))
    edges = np.concatenate([[0], np.flatnonzero(np.diff(number[order])) + 1, [len(rows)]])
    found = [tuple(int(edges[np.argmin(np.abs(edges - place))]) for place in bound) for bound in bounds]
    enough = all(
        stop - start >= (until - since) / SMALLEST_FOLD
        for (start, stop), (since, until) in zip(found, bounds, strict=True)
    )
    others = sum(stop - start for start, stop in found) < len(rows) or len(found) > 1
    return [np.sort(rows[order[start:stop]]) for start, stop in found] if enough and others else None


def _numbered(runs: Shaped[np.ndarray, " examples"] | None) -> Int[np.ndarray, " examples"] | None:
    """The number of each one's run, in order of the first example; None where there is only one."""
    if runs is None:
        return None
    _, first, number = np.unique(runs.astype(str), return_index=True, return_inverse=True)
    return None if len(first) < 2 else np.argsort(np.argsort(first))[number]


def _lags(most: int) -> list[int]:
    """Distances at which the likeness is looked at: each a quarter more than the one before."""
    lags = np.unique(np.geomspace(1, max(most, 1), 40).round().astype(int))
    return [int(lag) for lag in lags if lag > 1]


def _flat(values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples columns"]:
    """Rows as they are; of windows and images the mean and deviation of each sensor or channel."""
    if values.ndim == 2:
        return values
    inner = tuple(range(1, values.ndim - 1))
    there = ~np.isnan(values)
    count = np.maximum(there.sum(axis=inner), 1)
    whole = np.where(there, values, 0.0)
    mean = whole.sum(axis=inner) / count
    square = np.where(there, np.square(whole - np.expand_dims(mean, inner)), 0.0).sum(axis=inner) / count
    return np.concatenate([mean, np.sqrt(square)], axis=1)


def _places(column: Float[np.ndarray, " distinct"]) -> float:
    """How many values a column could have within its range, on the grid that it is rounded to; 1 where it has few."""
    known = np.unique(column)
    few = len(known) <= OWN * len(column)
    return 1.0 if few or len(known) < 2 else float((known[-1] - known[0]) / np.diff(known).min())


def _sorted(column: Float[np.ndarray, " examples"], steps: Float[np.ndarray, " steps"]) -> bool:
    """Whether a column that rises or falls is what the rows were sorted by, and neither clock nor counter."""
    shortest, longest = np.quantile(steps, (0.05, 0.95))
    return not (column % 1 == 0).all() and longest > 2 * shortest and len(np.unique(column)) > OWN * len(column)


def _levelled(
    columns: Float[np.ndarray, "examples columns"], groups: Shaped[np.ndarray, " examples"]
) -> Float[np.ndarray, "examples columns"]:
    """Group after group, each without its mean."""
    names = groups.astype(str)
    own = [columns[names == name] for name in np.unique(names)]
    counts = [np.maximum(np.count_nonzero(~np.isnan(rows), axis=0), 1) for rows in own]
    return np.concatenate([rows - np.nansum(rows, axis=0) / count for rows, count in zip(own, counts, strict=True)])


def _ranks(columns: Float[np.ndarray, "examples columns"]) -> tuple[Float[np.ndarray, "examples changing"], float]:
    """Standardised ranks, and the deviation of their likeness if the order were random.

    A column that rises or falls throughout is left out. It is a clock or a counter, of whole numbers or even steps;
    else the rows were sorted by it, and their order tells nothing of any column.
    """
    none = np.zeros((len(columns), 0)), np.inf
    chosen = np.unique(np.linspace(0, columns.shape[1] - 1, min(columns.shape[1], MOST_COLUMNS)).round().astype(int))
    found = []
    for column in columns[:, chosen].T:
        known = np.where(np.isnan(column), np.nanmedian(column) if not np.isnan(column).all() else 0.0, column)
        steps = np.diff(known)
        if (steps >= 0).all() or (steps <= 0).all():
            if _sorted(known, np.abs(steps)):
                return none
            continue
        _, place, times = np.unique(known, return_inverse=True, return_counts=True)
        rank = (np.cumsum(times) - (times + 1) / 2)[place]
        found.append((rank - rank.mean()) / rank.std())
    if not found:
        return none
    ranks = np.stack(found, axis=1)
    alike = np.corrcoef(ranks, rowvar=False).reshape(len(found), len(found))
    return ranks, float(np.sqrt(np.square(alike).mean() / len(ranks)))


def _likeness(ranks: Float[np.ndarray, "examples columns"], lag: int) -> float:
    """How alike examples are that lie so far apart: 0 for rows in any order."""
    return float(1 - np.square(ranks[lag:] - ranks[:-lag]).mean() / 2) if ranks.size else 0.0


def _copies(values: Float[np.ndarray, "examples ..."]) -> Int[np.ndarray, " examples"] | None:
    """The number of the distinct example that each one is; None where hardly any was copied.

    Rows of a few whole numbers are often equal without having been copied, and a machine at rest says the same again
    and again: that is how the process is, and no reason to hold it out as a whole.
    """
    rows = values.reshape(len(values), -1)
    low, high = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
    scale = 1 / np.where(high > low, high - low, 1.0)
    weights = np.random.default_rng(0).normal(size=rows.shape[1]) / np.sqrt(rows.shape[1])
    step = max(1, BLOCK // rows.shape[1])
    blocks = (rows[start : start + step] for start in range(0, len(rows), step))
    sums = np.concatenate([(np.nan_to_num((block - low) * scale) * weights).sum(axis=1) for block in blocks])
    order = np.argsort(sums, kind="stable")
    near = np.diff(sums[order]) <= NEAR * np.abs(weights).sum()
    pairs = np.flatnonzero(near)
    for start in range(0, len(pairs), step):
        some = pairs[start : start + step]
        apart = np.nan_to_num(np.abs(rows[order[some + 1]] - rows[order[some]]) * scale)
        near[some] = (apart <= NEAR).all(axis=1)
    number = np.empty(len(rows), dtype=np.int64)
    number[order] = np.cumsum(np.concatenate([[0], ~near]))
    times, first = np.bincount(number), np.unique(number, return_index=True)[1]
    resting = times > max(2, len(rows) // RESTING)
    copied = np.count_nonzero((times > 1) & ~resting)
    if copied < max(2, COPIED * len(first)):
        return None
    values_there = np.sort([_places(column[first]) for column in rows.T])[-2:]
    if len(first) ** 2 / 2 / values_there.prod() > BY_CHANCE * copied:
        return None
    alone = resting[number]
    number[alone] = len(first) + np.arange(np.count_nonzero(alone))
    return np.asarray(np.unique(number, return_inverse=True)[1])
