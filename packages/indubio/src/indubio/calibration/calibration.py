"""Calibration: the settings of a way to choose which rows train which draws and which rows calibrate them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int, Shaped

from indubio.calibration.dependence import INDEPENDENT, Dependence, Held
from indubio.settings import Settings

Groups = Shaped[np.ndarray, " examples"]
SPLIT = 7  # marks the random stream of the split: no network of the same seed draws from it


@dataclass(frozen=True, kw_only=True, eq=False)
class Fold:
    """Some of the draws, the rows that train them and the rows that calibrate them.

    Args:
        draws: how many draws.
        trained: rows that these draws are trained on.
        calibrated: rows that their scores are compared with.
    """

    draws: int
    trained: Int[np.ndarray, " trained"]
    calibrated: Int[np.ndarray, " calibrated"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """The draws in folds; every fold has the same number of calibration rows.

    Args:
        folds: together they are all draws, in order.
        unseen: whether no draw was trained on the rows that calibrate it.
        added: how many rows at the end train all draws and calibrate none.
        dropped: how many rows were left out of calibration for their high scores.
        in_stretches: whether neighbours that are alike were held out together.
    """

    folds: tuple[Fold, ...]
    unseen: bool
    added: int = 0
    dropped: int = 0
    in_stretches: bool = False

    @property
    def trained(self) -> Int[np.ndarray, " rows"]:
        """Rows that some draw is trained on: what is learned for all draws together, the scaling, is of these."""
        return np.unique(np.concatenate([fold.trained for fold in self.folds]))

    def with_added(self, examples: int, added: int) -> "Plan":
        """This plan for more rows, after these examples: they train all draws and calibrate none.

        Rows that were chosen for how they score are not like those to come, and would move every quantile.
        """
        more = np.arange(examples, examples + added)
        folds = tuple(replace(fold, trained=np.concatenate([fold.trained, more])) for fold in self.folds)
        return replace(self, folds=folds, added=added)

    def of_draws(self, draws: int) -> "Plan":
        """This plan for another number of draws, where there is only one fold: a function may give several."""
        if len(self.folds) > 1 or self.folds[0].draws == draws:
            return self
        return replace(self, folds=(replace(self.folds[0], draws=draws),))

    def one_each(self) -> "Plan":
        """This plan with one draw in every fold, for scores that all draws of a fold give together."""
        return replace(self, folds=tuple(replace(fold, draws=1) for fold in self.folds))

    @property
    def draws(self) -> tuple[int, ...]:
        """How many draws each fold has."""
        return tuple(fold.draws for fold in self.folds)

    def slices(self) -> list[tuple[slice, Fold]]:
        """Each fold with the place of its draws among all draws."""
        first = np.cumsum([0, *(fold.draws for fold in self.folds)]).tolist()
        return [(slice(first[place], first[place + 1]), fold) for place, fold in enumerate(self.folds)]

    def seen(self, examples: int) -> Bool[np.ndarray, "draws examples"]:
        """Which draws are trained on which of so many rows."""
        found = np.zeros((sum(self.draws), examples), dtype=bool)
        for draws, fold in self.slices():
            found[draws, fold.trained] = True
        return found

    @property
    def fold_of_draw(self) -> Int[np.ndarray, " draws"]:
        """The fold that each draw belongs to."""
        return np.repeat(np.arange(len(self.folds)), [fold.draws for fold in self.folds])


@dataclass(frozen=True, kw_only=True)
class Calibration(Settings, ABC):
    """A way to divide rows into those that train and those that calibrate."""

    @abstractmethod
    def plan(
        self,
        examples: int,
        draws: int,
        seed: int,
        groups: Groups | None = None,
        dependence: Dependence = INDEPENDENT,
    ) -> Plan:
        """The folds for so many examples and draws.

        Args:
            examples: N.
            draws: M.
            seed: of the shuffling; the same seed gives the same plan.
            groups: the group of each example: each is then divided as the whole would be, and has as many calibration
                rows in every fold; None divides the whole.
            dependence: what was found of how they depend on each other: copies stand on one side, and where neighbours
                are held out together, there is a gap between them and what trains.
        """


def strata(order: Int[np.ndarray, " examples"], groups: Groups | None) -> list[Int[np.ndarray, " members"]]:
    """The rows of each group, in this order; all of them without groups."""
    if groups is None:
        return [order]
    names = groups.astype(str)[order]
    return [order[names == name] for name in np.unique(names)]


def shuffled(examples: int, seed: int, purpose: int = SPLIT) -> Int[np.ndarray, " examples"]:
    """The rows in a random order, another one for every purpose."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,))).permutation(examples)


def folds_of(held: Sequence[Held], examples: int, draws: Sequence[int], dependence: Dependence) -> tuple[Fold, ...]:
    """The folds that hold out these examples in turn; all calibrate on as many.

    Args:
        held: of each fold, with those that are too near to them to train.
        examples: N.
        draws: of each fold.
        dependence: says which examples are copies of each other.
    """
    fewest = min(len(own) for own, _ in held)
    folds = []
    for count, (own, near) in zip(draws, held, strict=True):
        trained = dependence.without_copies(np.setdiff1d(np.arange(examples), np.concatenate([own, near])), own)
        folds.append(Fold(draws=count, trained=trained, calibrated=thinned(np.sort(own), fewest)))
    return tuple(folds)


def thinned(places: Int[np.ndarray, " places"], count: int) -> Int[np.ndarray, " count"]:
    """So many of them, evenly spread."""
    return places if len(places) == count else places[np.arange(count) * len(places) // count]
