"""Reference: scores of good examples that p-values are made from, part by part of the draws and group by group."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from indubio.errors import DataError, ShapeError
from indubio.judging.conversions.ranks import places
from indubio.judging.conversions.ties import upper_tie
from indubio.message import Message
from indubio.numerics import sum_in_order
from indubio.texts import english

NOT_CALIBRATED = english("no p-value: nothing was calibrated for group {group}")
LEVEL = 0.05  # for which the bound is told in numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """Mean scores of the calibration examples, sorted, part by part of the draws.

    Args:
        scores: of each part's calibration examples, by the draws of that part, ascending.
        part: which part each draw belongs to.
        unseen: whether no draw was trained on the examples it scored here.
        groups: names of the groups; None without groups.
        group: which group each of `scores` belongs to; None without groups.
        dropped: how many examples were left out for their high scores, as likely anomalies.

    Examples:
        Of 9 good examples 2 score at least 8: the p-value is (1 + 2) / (9 + 1).

        >>> import numpy as np
        >>> reference = Reference.of(np.arange(1.0, 10.0)[None], part=np.array([0]), unseen=True)
        >>> p_value, smallest = reference.p_values(reference.part_means(np.array([[2.5, 8.0, 30.0]])))
        >>> p_value
        array([0.8, 0.3, 0.1])
    """

    scores: Float[np.ndarray, "parts examples"]
    part: Int[np.ndarray, " draws"]
    unseen: bool
    groups: tuple[str, ...] | None = None
    group: Int[np.ndarray, "parts examples"] | None = None
    dropped: int = 0

    def __post_init__(self) -> None:
        if self.scores.ndim != 2 or 0 in self.scores.shape:
            raise ShapeError(f"`scores` must be (parts, examples), got {self.scores.shape}.")
        if not (np.diff(self.scores, axis=1) >= 0).all():  # NaN fails this too
            raise DataError("`scores` must be numbers in ascending order.")
        if not np.array_equal(np.unique(self.part), np.arange(len(self.scores))):
            raise ShapeError(f"there must be draws of each of the {len(self.scores)} parts, got {self.part}.")
        if (self.groups is None) != (self.group is None):
            raise ShapeError(Message("`groups` and `group` belong together."))
        if self.groups is not None and self.group is not None:
            if self.group.shape != self.scores.shape:
                raise ShapeError(
                    "`group` must be {shape}, got {other_shape}.", shape=self.scores.shape, other_shape=self.group.shape
                )
            if self.group.min() < 0 or self.group.max() >= len(self.groups):
                raise DataError("`group` must be a place in the {count} `groups`.", count=len(self.groups))

    @classmethod
    def of(
        cls,
        nll: Float[np.ndarray, "parts examples"],
        part: Int[np.ndarray, " draws"],
        *,
        unseen: bool,
        groups: Shaped[np.ndarray, "parts examples"] | None = None,
        dropped: int = 0,
    ) -> "Reference":
        """The reference that these mean scores make.

        Args:
            nll: mean score of each part's calibration examples, in any order.
            part: which part each draw belongs to.
            unseen: whether no draw was trained on the examples it scored here.
            groups: the name of each example's group.
            dropped: how many examples were left out for their high scores.
        """
        scores = np.asarray(nll, dtype=np.float64)
        order = np.argsort(scores, axis=1, kind="stable")
        ascending = np.take_along_axis(scores, order, axis=1)
        if groups is None:
            return cls(scores=ascending, part=part, unseen=unseen, dropped=dropped)
        names, group = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
        group = np.take_along_axis(group.reshape(scores.shape), order, axis=1).astype(np.int32)
        named = tuple(map(str, names))
        return cls(scores=ascending, part=part, unseen=unseen, groups=named, group=group, dropped=dropped)

    @property
    def examples(self) -> int:
        """How many calibration examples there are, n."""
        return int(self.scores.size)

    @property
    def fewest(self) -> int:
        """Calibration examples of the smallest group; of all, without groups."""
        return self.examples if self.group is None else int(np.bincount(self.group.ravel()).min())

    @property
    def fewest_at_once(self) -> int:
        """Calibration examples of one part, in the smallest group; 0 where there is no p-value."""
        if not self.unseen:
            return 0
        if self.group is None or self.groups is None:
            return int(self.scores.shape[1])
        return min(int(np.count_nonzero(row == place)) for row in self.group for place in range(len(self.groups)))

    @property
    def largest(self) -> float:
        """The largest mean score of a calibration example."""
        return float(self.scores.max())

    @cached_property
    def by_group(self) -> dict[str, tuple[float, int]]:
        """Of each group, its largest mean score and how many calibration examples it has."""
        if self.groups is None or self.group is None:
            return {}
        own = {name: self.scores[self.group == place] for place, name in enumerate(self.groups)}
        return {name: (float(scores.max()), scores.size) for name, scores in own.items() if scores.size}

    def part_means(self, nll: Float[np.ndarray, "draws examples"]) -> Float[np.ndarray, "parts examples"]:
        """Mean score of new examples over the draws of each part; draws are added one after the other."""
        if len(nll) != len(self.part):
            raise ShapeError(f"there are {len(self.part)} draws, got the scores of {len(nll)}.")
        with np.errstate(over="ignore"):
            sums = [sum_in_order(nll[draws].astype(np.float64, copy=False)) for draws in self._draws_of_part]
            return np.asarray(np.array(sums) / self._counts_of_part)

    def below(self, part_nll: Float[np.ndarray, "parts examples"]) -> Int[np.ndarray, " examples"]:
        """How many calibration examples score at most as high, or tie; of all groups."""
        counted = np.zeros(part_nll.shape[1], dtype=np.int64)
        for known, new in zip(self.scores, part_nll, strict=True):
            counted += places(known, upper_tie(new), "right")
        return counted

    def p_values(
        self, part_nll: Float[np.ndarray, "parts examples"], groups: Shaped[np.ndarray, " examples"] | None = None
    ) -> tuple[Float[np.ndarray, " examples"], Float[np.ndarray, " examples"]]:
        """The p-value of every example, and the smallest that it could have: 1 / (n + 1).

        NaN where none is valid: seen scores, or a group without calibration examples. n are the calibration examples
        that the example is compared with.

        Args:
            part_nll: what `part_means` gave.
            groups: names of the examples' groups, where the reference has groups.
        """
        p, smallest = np.full((2, part_nll.shape[1]), np.nan)
        if not self.unseen:
            return p, smallest
        if self.groups is None:
            p[:], smallest[:] = (
                (1 + self._at_least(part_nll, None)) / (self.scores.size + 1),
                1 / (self.scores.size + 1),
            )
            return p, smallest
        for members, known in self._memberships(part_nll.shape[1], groups):
            compared = self.scores.size if known is None else np.count_nonzero(known)
            p[members] = (1 + self._at_least(part_nll[:, members], known)) / (compared + 1)
            smallest[members] = 1 / (compared + 1)
        return p, smallest

    def notes(self, groups: Shaped[np.ndarray, " examples"] | None) -> Shaped[np.ndarray, " examples"] | None:
        """Per example, why it has no p-value where others have one, else ""; None where there is nothing to say."""
        if not self.unseen or self.groups is None or groups is None:
            return None
        names = groups.astype(str)
        unknown = ~np.isin(names, self.groups)
        told = [english(NOT_CALIBRATED, group=name) if new else "" for name, new in zip(names, unknown, strict=True)]
        return np.array(told, dtype=object)

    def bound(self, level: float) -> float:
        """What P(p <= level) of a good example is proven to be at most, in the smallest group; NaN without p-values.

        a + (1 - a) m / (n + m + 1) with one part, 2a + 2 (1 - a) (K - 1 + m) / (n + m + K) with K of them: n examples
        are compared with and m were left out, which may all have been good and of this group. See
        `calibration.cross_fit`.

        >>> import numpy as np
        >>> five = Reference.of(np.zeros((5, 20)), part=np.arange(5), unseen=True)
        >>> round(five.bound(0.05), 3)
        0.172
        """
        if not self.unseen:
            return float("nan")
        parts, dropped = len(self.scores), self.dropped
        share = (1 - level) * (parts - 1 + dropped) / (self.fewest + dropped + parts)
        return min(1.0, (level + share) * (1 if parts == 1 else 2))

    def pooled_p_values(
        self, part_nll: Float[np.ndarray, "parts examples"]
    ) -> tuple[Float[np.ndarray, " examples"], float]:
        """The p-value of every example among all groups together, and the smallest that there is."""
        return (1 + self._at_least(part_nll, None)) / (self.examples + 1), 1 / (self.examples + 1)

    def rank_in_part(self, part: int, scores: Float[np.ndarray, " examples"]) -> Float[np.ndarray, " examples"]:
        """Share of a part's calibration examples that score at least as high, or tie: the p-value of one of them."""
        ties = self._upper_ties[part]
        return np.asarray((len(ties) - places(ties, scores, "left")) / len(ties))

    @cached_property
    def promise(self) -> str:
        """What a p-value promises here, in words."""
        if not self.unseen:
            return english(
                "There is no p-value: this detector is calibrated on the examples it was trained on, whose scores are "
                "too low to compare with. Fit it with `calibration=HoldOut()` or `calibration=CrossFit()`."
            )
        groups = self.groups
        within = "" if groups is None else english(" within each of the {groups:d} groups", groups=len(groups))
        more = self.dropped / (self.fewest + self.dropped + 1)
        added = english(" + {more:.2g}", more=more) if self.dropped else ""
        if len(self.scores) == 1:
            proven = english("P(p <= a) <= a{added}{within}", added=added, within=within)
        else:
            near = english("usually near a")
            proven = english(
                "P(p <= a) is {usual}{within}; what is proven is a bound, of {bound:.3f} for a = {level:g}",
                usual=english("usually near a, or up to a + {more:.2g}", more=more) if self.dropped else near,
                within=within,
                bound=ceil(1000 * self.bound(LEVEL)) / 1000,  # a bound is rounded up
                level=LEVEL,
            )
        without = english(", without the {dropped:d} highest as likely anomalies", dropped=self.dropped)
        return english(
            "For good examples {proven}, over {examples:d} calibration examples that were not trained on{without}; "
            "the smallest p is {smallest:.2g}{place}.",
            proven=proven,
            examples=self.examples,
            without=without if self.dropped else "",
            smallest=1 / (self.fewest + 1),
            place="" if groups is None else english(" in the smallest group"),
        )

    @cached_property
    def _draws_of_part(self) -> list[Int[np.ndarray, " draws"]]:
        return [np.flatnonzero(self.part == place) for place in range(len(self.scores))]

    @cached_property
    def _counts_of_part(self) -> Int[np.ndarray, "parts 1"]:
        return np.bincount(self.part)[:, None]

    @cached_property
    def _upper_ties(self) -> Float[np.ndarray, "parts known"]:
        """Of all calibration scores: where few examples are assessed at a time, most of the time would go to them."""
        return upper_tie(self.scores)

    def _memberships(
        self, examples: int, groups: Shaped[np.ndarray, " examples"] | None
    ) -> list[tuple[Bool[np.ndarray, " examples"], Bool[np.ndarray, "parts known"] | None]]:
        """New examples of each group, and the calibration examples that they are compared with; None is all."""
        if self.groups is None or self.group is None:
            return [(np.ones(examples, dtype=bool), None)]
        if groups is None:
            raise DataError(
                Message(
                    "this detector is calibrated by group, so each example needs its group: pass `groups`, or a table "
                    "whose roles name the `group` column."
                )
            )
        names = np.asarray(groups, dtype=str)
        if names.shape != (examples,):
            raise ShapeError(
                "`groups` must have one name per example ({examples}), got the shape {shape}.",
                examples=examples,
                shape=names.shape,
            )
        return [(names == name, self.group == place) for place, name in enumerate(self.groups)]

    def _at_least(
        self, part_nll: Float[np.ndarray, "parts examples"], known: Bool[np.ndarray, "parts known"] | None
    ) -> Int[np.ndarray, " examples"]:
        counted = np.zeros(part_nll.shape[1], dtype=np.int64)
        for place, new in enumerate(part_nll):
            ties = self._upper_ties[place] if known is None else self._upper_ties[place][known[place]]
            counted += len(ties) - places(ties, new, "left")
        return counted
