r"""Conformal p-values: how rare a score this high is among good examples, with a promise.

p(x) = (1 + #{i: s(i) >= s(x)}) / (n + 1),   s: mean NLL over the draws, i: the n calibration examples

If x is exchangeable with calibration examples that no draw was trained on, then P(p <= a) <= a for every a, whatever
the network: raising an alarm at p <= 0.05 raises it for at most 5 % of good examples, on average over calibration sets
(Vovk et al. 2005; Bates et al. 2023). Scores that tie count as "at least as high", which errs on the safe side. The
smallest p there can be is 1 / (n + 1). With cross-fitted draws x is compared with fold k by the draws that did not see
fold k, and what is proven is P(p <= a) <= 2a (see `calibration.cross_fit`). Against training scores nothing is proven,
and no p-value is given.

With groups (machines, products) an example is compared with its own group alone, so that the promise holds within every
group (Mondrian: Vovk et al. 2005) and not only on average over them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from indubio.errors import ConfigError, DataError, ShapeError
from indubio.probability.ranks import places
from indubio.probability.ties import upper_tie

FEW = 64  # examples; for fewer, one call that keeps every partial sum is quicker than a loop over the draws
NO_REFERENCE = "There is no p-value: the model was saved by an older version, without the scores to compare with."


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """Mean scores of the calibration examples, sorted, part by part of the draws.

    Args:
        scores: of each part's calibration examples, by the draws of that part, ascending.
        part: which part each draw belongs to.
        unseen: whether no draw was trained on the examples it scored here.
        groups: names of the groups; None without groups.
        group: which group each of `scores` belongs to; None without groups.
    """

    scores: Float[np.ndarray, "parts examples"]
    part: Int[np.ndarray, " draws"]
    unseen: bool
    groups: tuple[str, ...] | None = None
    group: Int[np.ndarray, "parts examples"] | None = None

    def __post_init__(self) -> None:
        if self.scores.ndim != 2 or 0 in self.scores.shape:
            raise ShapeError(f"`scores` must be (parts, examples), got {self.scores.shape}.")
        if not (np.diff(self.scores, axis=1) >= 0).all():  # NaN fails this too
            raise DataError("`scores` must be numbers in ascending order.")
        if not np.array_equal(np.unique(self.part), np.arange(len(self.scores))):
            raise ShapeError(f"there must be draws of each of the {len(self.scores)} parts, got {self.part}.")
        if (self.groups is None) != (self.group is None):
            raise ShapeError("`groups` and `group` belong together.")
        if self.groups is not None and self.group is not None:
            if self.group.shape != self.scores.shape:
                raise ShapeError(f"`group` must be {self.scores.shape}, got {self.group.shape}.")
            if self.group.min() < 0 or self.group.max() >= len(self.groups):
                raise DataError(f"`group` must be a place in the {len(self.groups)} `groups`.")

    @classmethod
    def of(
        cls,
        nll: Float[np.ndarray, "parts examples"],
        part: Int[np.ndarray, " draws"],
        *,
        unseen: bool,
        groups: Shaped[np.ndarray, "parts examples"] | None = None,
    ) -> "Reference":
        """The reference that these mean scores make.

        Args:
            nll: mean score of each part's calibration examples, in any order.
            part: which part each draw belongs to.
            unseen: whether no draw was trained on the examples it scored here.
            groups: the name of each example's group.
        """
        scores = np.asarray(nll, dtype=np.float64)
        order = np.argsort(scores, axis=1, kind="stable")
        ascending = np.take_along_axis(scores, order, axis=1)
        if groups is None:
            return cls(scores=ascending, part=part, unseen=unseen)
        names, group = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
        group = np.take_along_axis(group.reshape(scores.shape), order, axis=1).astype(np.int32)
        return cls(scores=ascending, part=part, unseen=unseen, groups=tuple(map(str, names)), group=group)

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
            if nll.shape[1] <= FEW:
                each = nll.astype(np.float64, copy=False)
                means = np.array([np.add.accumulate(each[draws], axis=0)[-1] for draws in self._draws_of_part])
            else:
                means = np.zeros((len(self.scores), nll.shape[1]))
                for place, draw in zip(self.part, nll, strict=True):
                    means[place] += draw
            return np.asarray(means / self._counts_of_part)

    def below(self, part_nll: Float[np.ndarray, "parts examples"]) -> Int[np.ndarray, " examples"]:
        """How many calibration examples score at most as high, or tie; of all groups."""
        counted = np.zeros(part_nll.shape[1], dtype=np.int64)
        for known, new in zip(self.scores, part_nll, strict=True):
            counted += places(known, upper_tie(new), "right")
        return counted

    def p_value(
        self, part_nll: Float[np.ndarray, "parts examples"], groups: Shaped[np.ndarray, " examples"] | None = None
    ) -> Float[np.ndarray, " examples"]:
        """The p-value of every example; NaN where none is valid: seen scores, or a group without calibration examples.

        Args:
            part_nll: what `part_means` gave.
            groups: names of the examples' groups, where the reference has groups.
        """
        p = np.full(part_nll.shape[1], np.nan)
        if not self.unseen:
            return p
        for members, known in self._memberships(part_nll.shape[1], groups):
            p[members] = (1 + self._at_least(part_nll[:, members], known)) / (self._count(known) + 1)
        return p

    def smallest_p(
        self, examples: int, groups: Shaped[np.ndarray, " examples"] | None = None
    ) -> Float[np.ndarray, " examples"]:
        """1 / (n + 1), with n the calibration examples that each example is compared with; NaN where there is no p."""
        smallest = np.full(examples, np.nan)
        if self.unseen:
            for members, known in self._memberships(examples, groups):
                smallest[members] = 1 / (self._count(known) + 1)
        return smallest

    def unknown_groups(self, groups: Shaped[np.ndarray, " examples"] | None) -> Bool[np.ndarray, " examples"] | None:
        """Which examples are of a group that has no calibration examples; None without groups."""
        if self.groups is None or groups is None:
            return None
        return ~np.isin(np.asarray(groups, dtype=str), self.groups)

    def promise(self) -> str:
        """What a p-value promises here, in words."""
        if not self.unseen:
            return (
                "There is no p-value: this detector is calibrated on the examples it was trained on, whose scores are "
                'too low to compare with. Fit it with calibration=HoldOut() ("holdout") or CrossFit() ("cross").'
            )
        within = "" if self.groups is None else f" within each of the {len(self.groups)} groups"
        if len(self.scores) == 1:
            proven = f"P(p <= a) <= a{within}"
        else:
            proven = f"P(p <= a) is near a, and proven to be at most about 2a{within}"
        return (
            f"For good examples {proven}, over {self.examples} calibration examples that were not trained on; "
            f"the smallest p is {1 / (self.fewest + 1):.2g}{' in the smallest group' if within else ''}."
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
                "this detector is calibrated by group, so each example needs its group: pass `groups`, or a table "
                "whose roles name the `group` column."
            )
        names = np.asarray(groups, dtype=str)
        if names.shape != (examples,):
            raise ShapeError(f"`groups` must have one name per example ({examples}), got the shape {names.shape}.")
        return [(names == name, self.group == place) for place, name in enumerate(self.groups)]

    def _count(self, known: Bool[np.ndarray, "parts known"] | None) -> int:
        return self.examples if known is None else int(np.count_nonzero(known))

    def _at_least(
        self, part_nll: Float[np.ndarray, "parts examples"], known: Bool[np.ndarray, "parts known"] | None
    ) -> Int[np.ndarray, " examples"]:
        counted = np.zeros(part_nll.shape[1], dtype=np.int64)
        for place, new in enumerate(part_nll):
            ties = self._upper_ties[place] if known is None else self._upper_ties[place][known[place]]
            counted += len(ties) - places(ties, new, "left")
        return counted


@dataclass(frozen=True, kw_only=True, eq=False)
class Conformal:
    """The p-values of some examples.

    Args:
        p_value: NaN where there is none.
        smallest: the smallest that each could be.
        notes: per example, why it has none where others have, else "".
        promise: what they promise, in words.
    """

    p_value: Float[np.ndarray, " examples"]
    smallest: Float[np.ndarray, " examples"]
    notes: Shaped[np.ndarray, " examples"]
    promise: str


def conformal_of(
    reference: Reference | None,
    part_nll: Float[np.ndarray, "parts examples"] | None,
    examples: int,
    groups: Shaped[np.ndarray, " examples"] | None = None,
) -> Conformal:
    """P-values and what they promise.

    Args:
        reference: None where a model has none, since an older version saved it.
        part_nll: what `Reference.part_means` gave.
        examples: how many.
        groups: names of the examples' groups, where the reference has groups.
    """
    notes = np.full(examples, "", dtype=object)
    if reference is None or part_nll is None:
        none = np.full(examples, np.nan)
        return Conformal(p_value=none, smallest=none, notes=notes, promise=NO_REFERENCE)
    unknown = reference.unknown_groups(groups) if reference.unseen else None
    if unknown is not None and groups is not None:
        notes = np.where(unknown, "no p-value: nothing was calibrated for group " + groups.astype(str), "")
    return Conformal(
        p_value=reference.p_value(part_nll, groups),
        smallest=reference.smallest_p(examples, groups),
        notes=notes.astype(object),
        promise=reference.promise(),
    )


def alarms(
    p_value: Float[np.ndarray, " examples"], level: float, smallest_p: Float[np.ndarray, " examples"] | float = 0.0
) -> Bool[np.ndarray, " examples"]:
    """P <= level: a false alarm for at most this share of good examples.

    Args:
        p_value: of every example.
        level: largest false-alarm rate.
        smallest_p: 1 / (n + 1); a level below it is refused, since it could raise no alarm at all.
    """
    if not 0 < level < 1:
        raise ConfigError(f"`level` must be between 0 and 1, got {level}.")
    _require_p_values(p_value)
    smallest = float(np.max(smallest_p, initial=0.0))
    if level < smallest:
        raise ConfigError(
            f"a false-alarm rate of {level:g} needs at least {int(np.ceil(1 / level)) - 1} calibration examples: with "
            f"{round(1 / smallest) - 1} the smallest p-value is {smallest:.3g}. Calibrate on more, or raise the level."
        )
    return np.asarray(p_value <= level)


def select_anomalies(
    p_value: Float[np.ndarray, " examples"],
    fdr: float = 0.1,
    *,
    smallest_p: Float[np.ndarray, " examples"] | float = 0.0,
) -> Bool[np.ndarray, " examples"]:
    """The anomalies of a batch, of which at most this share are false, on average (Benjamini & Hochberg 1995).

    Conformal p-values of one batch share their calibration examples and so depend on each other, in the way that the
    procedure allows (Bates et al. 2023). That is proven for rows kept out (`HoldOut`), not for `CrossFit`.

    Args:
        p_value: of every example of the batch; select once, over all of it, not part by part.
        fdr: largest expected share of good examples among those selected.
        smallest_p: 1 / (n + 1); an `fdr` below it is refused, since nothing could be selected.
    """
    if not 0 < fdr < 1:
        raise ConfigError(f"`fdr` must be between 0 and 1, got {fdr}.")
    _require_p_values(p_value)
    smallest = float(np.max(smallest_p, initial=0.0))
    if fdr < smallest:
        raise ConfigError(
            f"a false-discovery rate of {fdr:g} cannot be reached: with {round(1 / smallest) - 1} calibration examples "
            f"the smallest p-value is {smallest:.3g}, so nothing would ever be selected. Calibrate on more examples."
        )
    if len(p_value) == 0:
        return np.zeros(0, dtype=bool)
    from scipy.stats import false_discovery_control  # takes half a second to import, and few need it

    return np.asarray(false_discovery_control(p_value, method="bh") <= fdr)


def fewest_selected(examples: int, fdr: float, smallest_p: float) -> int:
    """How many of a batch must have the smallest p-value before any can be selected: smallest_p N / fdr, rounded up."""
    return int(np.ceil(examples * smallest_p / fdr * (1 - 1e-12)))


def _require_p_values(p_value: Float[np.ndarray, " examples"]) -> None:
    missing = int(np.count_nonzero(np.isnan(p_value)))
    if missing:
        raise DataError(
            f"{missing} of {len(p_value)} examples have no p-value. A detector gives p-values when it is calibrated on "
            'examples it was not trained on: calibration=HoldOut() ("holdout") or CrossFit() ("cross"); and, by group, '
            "for groups that it was calibrated on."
        )
