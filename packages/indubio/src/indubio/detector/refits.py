"""RefitsOfBase: somebody else's detector, refitted on resamples of the training rows; each refit is one draw."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.base import clone

from indubio.calibration import Calibration, CrossFit, Plan
from indubio.detector.contained_randomness import own_randomness, seed_globals
from indubio.detector.member_scorer import MemberScorer, spread_of_scores
from indubio.detector.member_scores import can_fit, kept_training_scores, score_of
from indubio.errors import ConfigError, DataError, IndubioError, PerformanceWarning
from indubio.fitting import FitSettings, RowsInMemory, TrainingData, TrainingScores
from indubio.judging import TIE_TOLERANCE
from indubio.settings import AtLeastOne, Fraction

COMPANY, ALONE = 200, 8  # rows that are scored together, and those of them that are scored alone too


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings(FitSettings):
    """The settings of an ensemble with the defaults put in."""

    base: Any
    members: AtLeastOne
    bootstrap: bool | Literal["subsample"]
    share: Fraction
    scored_by: Any
    one_by_one: bool | None

    @property
    def plain(self) -> bool:
        """Whether it is the base as it is: a single one, fitted on all rows."""
        return self.members == 1 and self.bootstrap is False

    def calibration_for(
        self, examples: int, input_shape: tuple[int, ...], *, one_fold: bool = False, in_stretches: bool = False
    ) -> Calibration:
        """The calibration asked for; else by stretches where neighbours are alike, and on training scores where not.

        Args:
            examples: N.
            input_shape: of one example.
            one_fold: whether all members must be fitted on the same rows.
            in_stretches: whether neighbours are alike.
        """
        folds = min(CrossFit().folds, self.members)
        if self.calibration is None and in_stretches and not one_fold and folds > 1 and can_fit(self.base):
            return CrossFit(folds=folds, rows="in order")
        return super().calibration_for(examples, input_shape)

    def resample(self, examples: int, generator: np.random.Generator) -> Int[np.ndarray, " resample"]:
        """Places of the rows that a member is fitted on."""
        if self.bootstrap == "subsample":
            return generator.choice(examples, size=max(1, round(self.share * examples)), replace=False)
        return generator.integers(examples, size=examples) if self.bootstrap else np.arange(examples)

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        if self.scored_by is not None and not callable(self.scored_by):
            raise ConfigError(
                f"`scored_by` must be a function of the fitted model and the rows, got {self.scored_by!r}."
            )
        super().check()
        if self.trimming is not None and not can_fit(self.base):
            raise ConfigError("`base` is not refitted, since it has no `fit`, so `trimming` has nothing to do.")
        if isinstance(self.base, type):
            raise ConfigError(f"`base` must be a detector, not a class: make it {self.base.__name__}().")
        if not can_fit(self.base) and not self.plain:
            raise ConfigError(
                "`base` is not refitted, since it has no `fit`, so every member would be the same: set `members=1` and "
                "`bootstrap=False`."
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class RefitsOfBase:
    """Refits of a base, and how they are made.

    Args:
        settings: of the ensemble.
    """

    settings: EnsembleSettings

    @property
    def draws(self) -> int:
        """How many refits there are, M."""
        return self.settings.members

    @property
    def remembers(self) -> bool:
        """What it is like is not known of somebody else's detector."""
        return False

    @property
    def streams(self) -> bool:
        """Other people's detectors want all rows at once."""
        return False

    def check_plan(self, plan: Plan) -> None:
        """Refuse nothing: a single refit can score."""

    def scores(self, data: TrainingData) -> TrainingScores:
        """The refits, and the scores of all rows: a model's own, where it kept them and they are of these rows."""
        assert isinstance(data, RowsInMemory)
        settings, rows, scorer = self.settings, _flat(data), self._scorer(data)
        if settings.one_by_one is None:
            scorer = replace(scorer, one_by_one=self._company_matters(scorer, rows))
        plain = settings.plain and settings.scored_by is None and not data.plan.unseen and settings.trimming is None
        kept = kept_training_scores(scorer.members[0]) if plain else None
        scores = scorer.scores(rows) if kept is None else kept[None]
        return TrainingScores(
            scorer=replace(scorer, count=len(scores)),
            nll=scores,
            plan=data.plan.of_draws(len(scores)),
            groups=data.groups,
            origin=_origins(scores),
            seen=None if settings.plain else self._seen(data),
        )

    def _scorer(self, data: RowsInMemory) -> MemberScorer:
        """A refit for each draw of a plan, on a resample of its fold's rows."""
        rows, settings = _flat(data), self.settings
        seeds = [int(stream.generate_state(1)[0]) for stream in self._streams(data.plan)]
        resamples = self._resamples(data.plan)
        members = [self._fitted_member(rows[own], seed) for own, seed in zip(resamples, seeds, strict=True)]
        return MemberScorer(
            members=members,
            seeds=seeds,
            scored_by=settings.scored_by,
            one_by_one=bool(settings.one_by_one),
            count=len(members),
        )

    def _streams(self, plan: Plan) -> list[np.random.SeedSequence]:
        return np.random.SeedSequence(self.settings.seed).spawn(sum(plan.draws))

    def _resamples(self, plan: Plan) -> list[Int[np.ndarray, " resample"]]:
        """The rows that each member is fitted on: a resample of its fold's."""
        folds = [plan.folds[place].trained for place in plan.fold_of_draw]
        return [
            rows[self.settings.resample(len(rows), np.random.default_rng(stream))]
            for rows, stream in zip(folds, self._streams(plan), strict=True)
        ]

    def _seen(self, data: RowsInMemory) -> Bool[np.ndarray, "draws examples"]:
        """Which members were fitted on which examples."""
        return np.stack([np.isin(np.arange(data.count), rows) for rows in self._resamples(data.plan)])

    def _fitted_member(self, rows: Float[np.ndarray, "examples features"], seed: int) -> Any:
        """A copy of the base, fitted; the base itself where it needs no fit."""
        base = self.settings.base
        if not can_fit(base):
            return base
        if self.settings.scored_by is None:
            score_of(base)
        with own_randomness(seed):
            model = clone(base, safe=False)
            if self.settings.members > 1:
                if hasattr(model, "get_params"):
                    model.set_params(**{name: seed for name in model.get_params() if _is_random_state(name)})
                seed_globals(seed)  # after the clone: making one of PyOD's networks seeds them all alike
            try:
                model.fit(rows)
            except IndubioError:
                raise
            except ValueError as error:
                raise DataError(f"{type(model).__name__} refused the training rows: {error}") from error
        return model

    def _company_matters(self, scorer: MemberScorer, rows: Float[np.ndarray, "examples features"]) -> bool:
        """Whether a row's score depends on the rows it is scored with; tried with the first member and some rows."""
        first, some = replace(scorer, members=scorer.members[:1], seeds=scorer.seeds[:1]), rows[:COMPANY]
        together = replace(first, one_by_one=False).scores(some)
        alone = replace(first, one_by_one=True).scores(some[:ALONE])
        bound = TIE_TOLERANCE * spread_of_scores(together)[:, None]
        if (np.abs(alone - together[:, :ALONE]) <= bound).all():
            return False
        warnings.warn(
            f"{type(self.settings.base).__name__} scores a row differently in other company, so every row is scored "
            "alone, which is slow. Pass one_by_one=True to choose it, or False to let a row's score depend on its "
            "batch.",
            PerformanceWarning,
            stacklevel=5,  # of `fit`
        )
        return True


def _flat(data: RowsInMemory) -> Float[np.ndarray, "examples features"]:
    return np.asarray(data.rows.reshape(data.count, -1))


def _origins(training_scores: Float[np.ndarray, "draws examples"]) -> Float[np.ndarray, " draws"]:
    """A little below the smallest training score of each draw, so that ties are relative to the spread of the scores.

    Scores may be shifted or pass through 0, and nothing that is made of them may depend on it.
    """
    return np.asarray(training_scores.min(axis=1) - spread_of_scores(training_scores))


def _is_random_state(name: str) -> bool:
    return name == "random_state" or name.endswith("__random_state")
