"""RowsInMemory: good examples that were surveyed, with all that a fit asks of them; streams have the same face."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Shaped

from indubio.calibration import INDEPENDENT, Dependence, Plan
from indubio.chain import AutoencoderScorer, Familiarity, KeptRows, Scorer
from indubio.data import require_finite
from indubio.drift import DriftReference
from indubio.fitting.fit_settings import FitSettings
from indubio.prepare import Preparation, PreparationSettings, TrainingExamples


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingScores:
    """What a fitted scorer gives the examples that are compared with.

    Args:
        scorer: that was fitted.
        nll: of these examples, under every draw.
        plan: which of them calibrate which draws.
        groups: theirs; None without.
        origin: where the scores of each draw begin, for scores of any kind.
        seen: which draws saw which examples, where they did not see all that the plan lets them.
    """

    scorer: Scorer
    nll: Float[np.ndarray, "draws examples"]
    plan: Plan
    groups: Shaped[np.ndarray, " examples"] | None
    origin: Float[np.ndarray, " draws"] | None = None
    seen: Bool[np.ndarray, "draws examples"] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class RowsInMemory:
    """Examples in memory: one block, which is scored whole.

    Args:
        examples: as they came in.
        preparation: what is done to every example before it is scored.
        plan: which of them train which draws, and which calibrate them.
        rows: all of them, as they are scored.
        groups: theirs; None without.
        confirmed: how many at the end were found to be good by a person.
        dependence: what was found of how they depend on each other.
    """

    examples: TrainingExamples
    preparation: Preparation
    plan: Plan
    rows: Float[np.ndarray, "examples ..."]
    groups: Shaped[np.ndarray, " examples"] | None = None
    confirmed: int = 0
    dependence: Dependence = INDEPENDENT

    @classmethod
    def of(
        cls,
        settings: FitSettings,
        examples: TrainingExamples,
        plan: Plan,
        groups: Shaped[np.ndarray, " examples"] | None = None,
        confirmed: int = 0,
        dependence: Dependence = INDEPENDENT,
    ) -> "RowsInMemory":
        """The examples, surveyed and prepared.

        Args:
            settings: of the fit.
            examples: as they came in.
            plan: which of them train which draws.
            groups: theirs; None without.
            confirmed: how many at the end were found to be good by a person.
            dependence: what was found of how they depend on each other.
        """
        known = settings.preparation_for(examples.shape)
        preparation, rows = prepared_rows(settings, known, examples, plan)
        return cls(
            examples=examples,
            preparation=preparation,
            plan=plan,
            rows=rows,
            groups=groups,
            confirmed=confirmed,
            dependence=dependence,
        )

    @property
    def count(self) -> int:
        """How many examples there are."""
        return len(self.rows)

    @property
    def rows_per_draw(self) -> int:
        """How many rows a draw is trained on, at least."""
        return min(len(fold.trained) for fold in self.plan.folds)

    def drift_reference(self, seed: int) -> DriftReference:
        """The distributions of all examples but those that were confirmed, which were chosen."""
        like_new = self.preparation.followed(self.examples.rows)[: self.count - self.confirmed]
        return DriftReference.fit(like_new, self.preparation.value_schema.encoded_names, seed=seed)

    def familiarity(self, seed: int) -> Familiarity:
        """What is familiar of the rows that some draw is trained on."""
        trained, machines = self.plan.trained, self.examples.machines
        machines = None if machines is None else machines[trained]
        return familiarity_of(self.preparation, self.rows[trained], seed, machines)

    def scores(self, scorer: AutoencoderScorer) -> TrainingScores:
        """The scores of all rows, and the scorer, knowing what they usually are."""
        scorer, nll = scorer.with_typical(self.rows)
        return TrainingScores(scorer=scorer, nll=nll, plan=self.plan, groups=self.groups)

    def kept(self, groups: Shaped[np.ndarray, " examples"] | None, measured: int) -> KeptRows:
        """The rows that an update needs."""
        return KeptRows.of(self.rows, self.plan, groups, measured)


def prepared_rows(
    settings: FitSettings, known: PreparationSettings, examples: TrainingExamples, plan: Plan
) -> tuple[Preparation, Float[np.ndarray, "examples ..."]]:
    """A preparation that was fitted on the rows that some draw is trained on, and all rows, prepared.

    Args:
        settings: of the fit.
        known: of the preparation.
        examples: as they came in.
        plan: which of them train.
    """
    given = examples.rows
    columns, missing_allowed = given.columns_of or given.names, settings.missing != "error"
    require_finite(given.values, columns, missing_allowed=missing_allowed, place=given.place)
    preparation = Preparation.fit(examples.select(plan.trained), known, examples.detector)
    return preparation, preparation.prepared(given).values


def familiarity_of(
    preparation: Preparation,
    rows: Float[np.ndarray, "examples ..."],
    seed: int,
    machines: Shaped[np.ndarray, " examples"] | None = None,
) -> Familiarity:
    """What is familiar of such rows, which are prepared; windows of a machine that are neighbours are alike."""
    values, windows = preparation.in_units_of_the_range(rows), len(preparation.input_shape) == 2
    return Familiarity.fit(values, in_order=windows, seed=seed, groups=machines)
