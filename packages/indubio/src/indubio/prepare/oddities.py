"""Columns of training data that are odd: ids, labels, repeats of others, ranges that a few values have stretched.

What is named here must be so, and not by chance: from some rows on only, and nothing that ordinary data has too. Ranges
are those of all examples. All else is looked for in a sample of them, but for copies of rows, sensors that stand still,
and ids that the sample makes likely.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from jaxtyping import Float, Int

from indubio.data import Column, Schema
from indubio.prepare.quality import USUAL, QualityLimits, frozen
from indubio.prepare.scaling import alike

SAMPLE = 2048  # rows, or windows with as many samples
FEWEST_WINDOWS = 16
ENOUGH = 20  # values of a column; of fewer nothing is said
DENSE = 2  # numbers from the smallest to the largest id, per row
SHUFFLED = 100  # rows from which on so many distinct dense numbers are no chance: exp(-100 / 4)
OUTER = 200  # one in so many values, at least one, lies beyond the middle at either end
SLIVER = 0.01  # of the range: where the middle fills less, the ends have stretched it
SAME = 1 - 1e-8  # correlation: what is left is of the size of the fourth digit
FEWEST_CHANGES = 10  # rows, and one in a hundred, that differ from the commonest value; fewer may agree by chance
NEAR = 1e-3  # projections of columns that correlate so are no further apart, but with probability 1e-12
MOST_CLASSES = 20
MOVING = 0.5  # share of its steps in which a sensor that is alive changes
BLOCK = 2**20  # values
SMALL = 2.0**-64  # so that no sum of values overflows

# The last word of a label's name, the whole name of one with several classes, and what categories of labels say.
FAULT = re.compile(
    r"labels?|target|class|y|anomal(y|ies|ous)|abnormal|outliers?|faults?|faulty|defects?|defective|failure|failed|"
    r"fraud|attack|bad|nok|changepoint"
)
CLASS = re.compile(r"labels?|target|class")
GOOD = re.compile(r"good|ok|normal|pass(ed)?|inlier|healthy|benign")
BAD = re.compile(r"bad|nok|notok|anomal(y|ous)|abnormal|fail(ed)?|outlier|faulty?|defect(ive)?|attack")
COUNTER = re.compile(r"id|time|timestamp|date|datetime|index|serial|counter|hours|seq(uence)?")  # any word of the name


@dataclass(frozen=True, kw_only=True, eq=False)
class SeenExamples:
    """Training examples, to look for oddities in.

    Args:
        values: rows (N, D), windows (N, L, K) or images (N, H, W, C) in the order of the data, NaN where missing.
        schema: their columns, sensors or channels.
        quality: what the sensors of windows did; None for rows.
        examples: how many there are where the values are but a sample of them, and the schema is of all; else None.
    """

    values: Float[np.ndarray, "examples ..."]
    schema: Schema
    quality: QualityLimits | None = None
    examples: int | None = None

    @property
    def count(self) -> int:
        """How many examples there are."""
        return len(self.values) if self.examples is None else self.examples

    @property
    def windows(self) -> bool:
        """Whether they are windows."""
        return self.values.ndim == 3

    @property
    def images(self) -> bool:
        """Whether they are images, of which most pixels may well be dark or alike."""
        return self.values.ndim == 4

    @cached_property
    def enough(self) -> bool:
        """Whether there are enough values of each column to say anything of it."""
        return bool(self.values.size // self.values.shape[-1] >= ENOUGH)

    @cached_property
    def constant(self) -> list[str]:
        """Columns that never change."""
        same = alike(*self._ranges)
        return [
            column.name
            for column, at in self._columns
            if (same[at] if column.kind == "number" else len(column.categories) == 1)
        ]

    @cached_property
    def copies(self) -> tuple[int, int]:
        """How many examples are copies of others, and how often the commonest is there.

        Zeros unless most are, and either one of them makes most, or some column has a value of its own in most of the
        distinct ones: examples of a few whole numbers are often equal without having been copied.
        """
        rows = self.values.reshape(len(self.values), -1)
        weights = SMALL * np.random.default_rng(0).normal(size=rows.shape[1])
        step = max(1, BLOCK // rows.shape[1])
        blocks = (np.nan_to_num(rows[start : start + step]) for start in range(0, len(rows), step))
        sums = np.concatenate([(block * weights).sum(axis=1) for block in blocks])  # equal rows have equal sums
        _, first, times = np.unique(sums, return_index=True, return_counts=True)
        copies, commonest, most = len(rows) - len(first), int(times.max()), len(rows) / 2
        if len(rows) < ENOUGH or copies <= most:
            return 0, 0
        own = any(len(np.unique(rows[first, at])) > len(first) / 2 for at in range(rows.shape[1]))
        return (copies, commonest) if commonest > most or (own and len(first) >= ENOUGH) else (0, 0)

    @cached_property
    def ids(self) -> list[str]:
        """Columns that rise or fall from row to row by whole numbers or even steps, or number them in another order."""
        return [column.name for column, at in self._numbers if self._counts(at, words_of(column.name))]

    @cached_property
    def labels(self) -> list[str]:
        """Columns that are called as labels are, and have values as labels have."""
        return [column.name for column, at in self._columns if self._labels(column, at)]

    @cached_property
    def crowded(self) -> dict[str, int]:
        """Columns that have more categories than half of the rows, and how many."""
        return {
            column.name: len(column.categories)
            for column in self.schema.columns
            if column.kind == "category" and 2 * len(column.categories) > self.count
        }

    @cached_property
    def repeated(self) -> dict[str, str]:
        """Columns that are an earlier one, but for scale and shift, and which one.

        Columns z of mean 0 and length 1 that are alike have projections z.w near each other, whatever w is. So a column
        is compared with those only whose projections are near its own, however many there are.
        """
        names, places = [column.name for column, _ in self._numbers], [at for _, at in self._numbers]
        smallest, largest = (bound[places] for bound in self._ranges)
        unit = np.where(np.isnan(self._flat[:, places]), 0.5, (self._flat[:, places] - smallest) / (largest - smallest))
        apart = unit - unit.mean(axis=0)
        length = np.sqrt((apart * apart).sum(axis=0))
        z = apart / np.where(length > 0, length, 1.0)
        near = np.abs((z * np.random.default_rng(0).normal(size=(len(z), 1))).sum(axis=0))
        changes = np.count_nonzero(self._flat[:, places] != self._at(0.5)[places], axis=0)
        varied = changes >= max(FEWEST_CHANGES, len(z) / 100)
        groups: dict[int, list[int]] = {}
        compared: list[int] = []
        for place in np.flatnonzero(varied)[np.argsort(near[varied], kind="stable")].tolist():
            compared = [one for one in compared if near[place] - near[one] <= NEAR]
            like = next((one for one in compared if abs((z[:, one] * z[:, place]).sum()) >= SAME), None)
            if like is None:
                compared.append(place)
            groups.setdefault(place if like is None else like, []).append(place)
        pairs = sorted((place, min(group)) for group in groups.values() for place in group if place != min(group))
        return {names[place]: names[first] for place, first in pairs}

    @cached_property
    def stretched(self) -> list[str]:
        """Columns whose range is that of a few values."""
        smallest, largest = self._ranges
        low, high = self._at(0, 1), self._at(1, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            small = (high > low) & (high - low < SLIVER * (largest - smallest))
        return [column.name for column, at in self._numbers if small[at] and self._there[at] >= ENOUGH]

    @cached_property
    def stuck(self) -> dict[str, float]:
        """Sensors that stand still in some windows and move all the time in the others, and in what share they do."""
        if self.quality is None or self.values.shape[1] < ENOUGH:
            return {}
        share, still = self.quality.frozen_share, frozen(self._sample)
        moves = np.diff(self._sample, axis=1) != 0
        return {
            name: float(share[place])
            for place, name in enumerate(self.schema.names)
            if USUAL < share[place] < 1
            and not still[:, place].all()
            and moves[~still[:, place], :, place].mean() > MOVING
        }

    @cached_property
    def _columns(self) -> list[tuple[Column, int]]:
        """The columns, and the place of the first value of each."""
        widths = [len(column.encoded) for column in self.schema.columns]
        return list(zip(self.schema.columns, np.cumsum([0, *widths]).tolist(), strict=False))

    @cached_property
    def _numbers(self) -> list[tuple[Column, int]]:
        """Columns that hold numbers and change."""
        constant = set(self.constant)
        return [(one, at) for one, at in self._columns if one.kind == "number" and one.name not in constant]

    @cached_property
    def _ranges(self) -> tuple[Float[np.ndarray, " features"], Float[np.ndarray, " features"]]:
        if self.quality is not None:
            return self.quality.smallest, self.quality.largest
        values = self.values.reshape(-1, self.values.shape[-1])
        smallest, largest = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
        if self.examples is not None:
            for column, at in self._columns:
                if column.smallest is not None and column.largest is not None:
                    smallest[at], largest[at] = column.smallest, column.largest
        return smallest, largest

    @cached_property
    def _sample(self) -> Float[np.ndarray, "sampled ..."]:
        each = prod(self.values.shape[1:-1])
        most = SAMPLE if each == 1 else max(FEWEST_WINDOWS, SAMPLE // each)
        if len(self.values) <= most:
            return self.values
        return self.values[np.sort(np.random.default_rng(0).choice(len(self.values), most, replace=False))]

    @property
    def _flat(self) -> Float[np.ndarray, "samples features"]:
        return self._sample.reshape(-1, self.values.shape[-1])

    @cached_property
    def _ordered(self) -> Float[np.ndarray, "samples features"]:
        return np.sort(self._flat, axis=0)  # missing values come last

    @cached_property
    def _there(self) -> Int[np.ndarray, " features"]:
        return np.asarray(np.count_nonzero(~np.isnan(self._flat), axis=0))

    def _at(self, share: float, inwards: int = 0) -> Float[np.ndarray, " features"]:
        """The value of each feature at a share of those there, some from the end where asked."""
        place = (share * (self._there - 1)).astype(int) + inwards * np.maximum(1, self._there // OUTER)
        place = np.clip(place, 0, len(self._flat) - 1)
        return np.asarray(np.take_along_axis(self._ordered, place[None], axis=0)[0])

    def _counts(self, at: int, words: list[str]) -> bool:
        sampled, every = self._sample[..., at], self.values[..., at]
        if _rises(sampled):  # as a measurement does that the rows are sorted by: so there must be something more
            return _rises(every) and (any(map(COUNTER.fullmatch, words)) or _whole(sampled) or _even(every))
        if self.windows:
            return False
        smallest, largest = self._ranges
        if self.count < SHUFFLED or largest[at] - smallest[at] >= DENSE * self.count or not _whole(sampled):
            return False
        return all(len(np.unique(values)) == len(values) for values in (sampled, every))

    def _labels(self, column: Column, at: int) -> bool:
        words = words_of(column.name)
        several = CLASS.fullmatch(" ".join(words)) is not None
        if column.kind == "category":
            said = ["".join(words_of(category)) for category in column.categories]
            bad = [BAD.fullmatch(word) is not None for word in said]
            judged = all(is_bad or GOOD.fullmatch(word) for is_bad, word in zip(bad, said, strict=True))
            return (several and len(said) <= MOST_CLASSES) or (any(bad) and judged)
        if not words or not FAULT.fullmatch(words[-1]):
            return False
        values = np.unique(self._flat[:, at])
        two = np.isin(values, (0, 1)).all() or np.isin(values, (-1, 1)).all()
        return bool(two) or (several and len(values) <= MOST_CLASSES and _whole(values))


def _rises(values: Float[np.ndarray, "examples ..."]) -> bool:
    """Whether values rise, or fall, from one example to the next, and within windows."""
    steps = np.diff(values, axis=0).ravel()
    sign = np.sign(steps[0]) if len(steps) else 0.0
    return sign != 0 and bool((sign * steps > 0).all() and (sign * np.diff(values) > 0).all())


def _even(values: Float[np.ndarray, "examples ..."]) -> bool:
    """Whether nearly all steps are about as long."""
    shortest, longest = np.quantile(np.abs(np.diff(values)), (0.05, 0.95))
    return bool(longest <= 2 * shortest)


def _whole(values: Float[np.ndarray, "..."]) -> bool:
    """Whether all are whole numbers, and none is missing."""
    return bool((values % 1 == 0).all())


def words_of(name: str) -> list[str]:
    """The words of a name: "isFaulty" is "is", "faulty"."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
