"""EnsembleDetector: the uncertainty of any detector, from refits of it.

    rows -> Inputs -> M refits of the base, each on its own resample of the training rows -> scores (M, N)
         -> Calibrated -> Decider -> Assessment, as for every detector: see `pipeline`

The spread over the refits says how far the verdict hangs on which training rows there happened to be: an epistemic
uncertainty for a model that has none of its own.
"""

import dataclasses
import warnings
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.base import clone

from indubio.calibration import Calibration, Plan, TrainScores
from indubio.decision import ANOMALY_THRESHOLD, Budget, Referral
from indubio.drift import DriftReference
from indubio.ensemble.contained_randomness import own_randomness, seed_globals
from indubio.ensemble.member_scorer import MemberScorer, spread_of_scores
from indubio.ensemble.member_scores import Score, can_fit, kept_training_scores, score_of
from indubio.errors import ConfigError, DataError, IndubioError, PerformanceWarning
from indubio.fitting.trimming import FARTHEST, Trimming, refuse_groups
from indubio.inputs import MinMax, Missing, Robust, Rows, Scaling, Spectra, Unseen
from indubio.inputs.spectra import chosen_spectra
from indubio.pipeline.chain import Chain
from indubio.pipeline.estimator import ChainEstimator, ChainSettings
from indubio.pipeline.familiarity import Familiarity
from indubio.pipeline.inputs import Inputs, TrainingExamples
from indubio.probability import TIE_TOLERANCE, Conversion, Odds
from indubio.settings import AtLeastOne, Fraction, NotNegativeInt
from indubio.texts import english

Bootstrap = bool | Literal["subsample"]

COMPANY, ALONE = 200, 8  # rows that are scored together, and those of them that are scored alone too
DISTINCT = 0.632  # 1 - 1/e: the share of the rows that a bootstrap sample holds at least once
OWN = (
    "members",
    "bootstrap",
    "share",
    "one_by_one",
    "calibration",
    "scaling",
    "spectra",
    "trimming",
    "seed",
)  # without a default to put in


class EnsembleDetector(ChainEstimator):
    """Any detector, refitted on resamples of the training rows, with the uncertainty of every verdict.

    Fit on good examples only. Windows (N, L, K) reach the base as rows of L * K values, or of features: `spectra`, and
    images as rows of their pixels.

    Args:
        base: a detector of scikit-learn or PyOD, any model with `fit` together with `scored_by`, or a function of the
            rows that gives their scores, high for anomalous; it is never changed. A function cannot be refitted, so it
            needs `members=1` and `bootstrap=False`; it may give (draws, rows), if it is an ensemble itself.
        members: how many refits, M.
        bootstrap: what each member is fitted on: True draws as many rows as there are, with replacement; "subsample"
            draws a share of them without; False takes them all, so that members differ in their seeds only.
        share: of the rows that a subsample has; by default as many distinct ones as a bootstrap sample has.
        scored_by: a function of the fitted model and the rows, high for anomalous; None takes the model's own score.
        one_by_one: whether every row is scored alone, for detectors whose score of a row depends on its company; None
            finds out by trying.
        conversion: from scores to probabilities; None is `Odds()`.
        calibration: which rows the scores of new examples are compared with: None is `TrainScores()`; `HoldOut()` and
            `CrossFit()` compare with rows that the members were not fitted on, and give p-values.
        scaling: None passes the values on as they are; `MinMax()`, `ZScore()` and `Robust()` scale them.
        spectra: `Spectra()` makes features of windows first; None and False take them as they are.
        missing: "error" refuses missing values; "median" fills in the training median and notes it; "refer" fills it in
            too, and refers every such example with the reason `bad_input`.
        unseen: what happens to categories that the training data did not have: "refer" (with `bad_input`) or "error".
        false_alarms: the share of good examples that may be called anomalies: a score that a good example reaches with
            this rate has probability 1/2. None is 0.1. With the paper's conversions, which know no rate, it bounds the
            verdict: an anomaly's p-value is at most twice the rate, an inlier's above half of it.
        anomaly_threshold: an anomaly has at least this mean probability.
        smallest_group: give groups with at least so many calibration examples for every member probabilities and
            verdicts of their own; None judges all by the same.
        novelty_limit: refer examples whose novelty is above this, with the reason `unfamiliar`; one good example in a
            hundred is above 1. None refers none for that, and what is referred for its doubt and above 1 has this
            reason.
        referral: which verdicts go to a person; None is `Budget(share=0.05)` by total uncertainty, alarms first.
        trimming: leave training rows out that look like anomalies, for data that is not all good; None leaves out none.
        seed: of everything random. With more than one member it replaces every `random_state` of the base.

    Attributes:
        chain_: all that was learned, one object after the other; what follows are parts of it, None where there is
            none.
        members_: the fitted members.
        seeds_: what their randomness was seeded with.
        one_by_one_: whether rows are scored alone.
        conversion_: the conversion, fitted on the scores of the reference examples.
        referral_threshold_: uncertainty above which a verdict is referred.
        reference_uncertainty_: probability and uncertainties of the reference examples: those that calibrate, or the
            training examples.
        schema_: names, kinds, ranges and categories of the training columns.
        findings_: what was odd about the training data, as the warning of `fit` says it.
        n_features_in_: features of a table, or the length of a window.
        feature_names_in_: column names, when the training data had them.
        offset_: `decision_function` is `score_samples` minus this.

    Examples:
        >>> import numpy as np
        >>> from sklearn.ensemble import IsolationForest
        >>> from indubio.ensemble import EnsembleDetector
        >>> good = np.random.default_rng(0).normal(size=(200, 3))
        >>> detector = EnsembleDetector(IsolationForest(n_estimators=20), members=5).fit(good)
        >>> found = detector.assess([[0.0, 0.1, -0.2], [9.0, -9.0, 9.0]])
        >>> found.prediction.tolist()
        [False, True]
        >>> bool(found.epistemic[1] <= 0.25)
        True
    """

    DEFAULTS = {"conversion": Odds(), "referral": Budget()}  # noqa: RUF012 - annotated in the base

    def __init__(
        self,
        base: Any,
        *,
        members: int = 10,
        bootstrap: Bootstrap = True,
        share: float = DISTINCT,
        scored_by: Score | None = None,
        one_by_one: bool | None = None,
        conversion: Conversion | None = None,
        calibration: Calibration | None = None,
        scaling: Scaling | None = None,
        spectra: Spectra | Literal[False] | None = None,
        missing: Missing = "error",
        unseen: Unseen = "refer",
        false_alarms: float | None = None,
        anomaly_threshold: float = ANOMALY_THRESHOLD,
        smallest_group: int | None = None,
        novelty_limit: float | None = None,
        referral: Referral | None = None,
        trimming: Trimming | None = None,
        seed: int = 0,
    ) -> None:
        self.base = base
        self.members = members
        self.bootstrap = bootstrap
        self.share = share
        self.scored_by = scored_by
        self.one_by_one = one_by_one
        self.conversion = conversion
        self.calibration = calibration
        self.scaling = scaling
        self.spectra = spectra
        self.missing = missing
        self.unseen = unseen
        self.false_alarms = false_alarms
        self.anomaly_threshold = anomaly_threshold
        self.smallest_group = smallest_group
        self.novelty_limit = novelty_limit
        self.referral = referral
        self.trimming = trimming
        self.seed = seed

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Refit the base on resamples of good examples.

        Args:
            X: good examples only, as `Detector.fit` takes them.
            y: ignored; scikit-learn's pipelines pass it.
            groups: the group of each example, within which p-values hold; None takes the group column of a `Table`.
        """
        settings = self.settings_in_use()
        examples = TrainingExamples.of(X, type(self).__name__)
        given = examples.rows
        groups_of_rows = examples.given.group_names(groups)
        machines = examples.machines
        within = machines if self.smallest_group is None else groups_of_rows
        plan = (settings.calibration or TrainScores()).plan(len(given), self.members, self.seed, within)
        if settings.trimming is not None:
            halves = settings.trimming.halves(plan, len(given), self.seed)
            rows = _flat_rows(self._inputs(examples, plan, self.scaling and Robust()), given)
            rows = rows if self.scaling is None else np.clip(rows, -FARTHEST, FARTHEST)
            judges = dataclasses.replace(self._member_scorer(settings, halves, rows), one_by_one=False)
            plan = settings.trimming.trained(plan, halves, judges.scores(rows))
        inputs = self._inputs(examples, plan, self.scaling)
        rows = _flat_rows(inputs, given)
        drift = DriftReference.fit(inputs.followed(given), inputs.value_schema.encoded_names, seed=self.seed)
        scorer = self._member_scorer(settings, plan, rows)
        if self.one_by_one is None:
            scorer = dataclasses.replace(scorer, one_by_one=self._company_matters(scorer, rows))
        kept = kept_training_scores(scorer.members[0]) if settings.plain and self.scored_by is None else None
        whole = kept is not None and not plan.unseen and settings.trimming is None
        scores = kept[None] if kept is not None and whole else scorer.scores(rows)
        plan = plan.of_draws(len(scores))
        if settings.trimming is not None:
            plan = settings.trimming.calibrated(plan, scores)
        return self._keep(
            Chain.fit(
                inputs,
                dataclasses.replace(scorer, count=len(scores)),
                scores,
                plan,
                conversion=settings.conversion,
                rule=settings.referral,
                false_alarms=settings.false_alarms,
                anomaly_threshold=self.anomaly_threshold,
                groups=groups_of_rows,
                smallest_group=self.smallest_group,
                drift_reference=drift,
                familiarity=Familiarity.fit(
                    inputs.in_units_of_the_range(inputs.prepared(given).values[plan.trained]),
                    in_order=len(inputs.input_shape) == 2,
                    seed=self.seed,
                    groups=None if machines is None else machines[plan.trained],
                ),
                novelty_limit=self.novelty_limit,
                n_training=len(given),
                origin=_origins(scores),
                seen=None if settings.plain else _seen(self._trained(settings, plan), len(given)),
            )
        )._with_warning()

    def _inputs(self, examples: TrainingExamples, plan: Plan, scaling: Scaling | None) -> Inputs:
        """What is learned of the rows that some member is fitted on, before any is."""
        return Inputs.fit(
            examples,
            plan.trained,
            scaling=scaling or MinMax(),
            missing=self.missing,
            unseen=self.unseen,
            margin=self.range_margin,
            spectra=chosen_spectra(self.spectra, False, examples.rows.values.shape[1:]),
            scaled=scaling is not None,
            detector=type(self).__name__,
        )

    def _member_scorer(
        self, settings: "EnsembleSettings", plan: Plan, rows: Float[np.ndarray, "examples features"]
    ) -> MemberScorer:
        """A refit for each draw of a plan, on a resample of its fold's rows."""
        streams = np.random.SeedSequence(self.seed).spawn(sum(plan.draws))
        seeds = [int(stream.generate_state(1)[0]) for stream in streams]
        trained = self._trained(settings, plan)
        members = [self._fitted_member(rows[own], seed) for own, seed in zip(trained, seeds, strict=True)]
        return MemberScorer(
            members=members,
            seeds=seeds,
            scored_by=self.scored_by,
            one_by_one=bool(self.one_by_one),
            count=len(members),
        )

    def _trained(self, settings: "EnsembleSettings", plan: Plan) -> list[Int[np.ndarray, " resample"]]:
        """The rows that each member is fitted on: a resample of its fold's."""
        streams = np.random.SeedSequence(self.seed).spawn(sum(plan.draws))
        folds = [plan.parts[place].trained for place in plan.part_of_draw]
        return [
            rows[settings.resample(len(rows), np.random.default_rng(stream))]
            for rows, stream in zip(folds, streams, strict=True)
        ]

    @property
    def members_(self) -> list[Any]:
        """The fitted members."""
        return self._scorer.members

    @property
    def seeds_(self) -> list[int]:
        """What their randomness was seeded with."""
        return self._scorer.seeds

    @property
    def one_by_one_(self) -> bool:
        """Whether rows are scored alone."""
        return self._scorer.one_by_one

    @property
    def _scorer(self) -> MemberScorer:
        scorer = self.fitted_chain.scorer
        assert isinstance(scorer, MemberScorer)
        return scorer

    def settings_in_use(self) -> "EnsembleSettings":
        """The settings with the defaults put in, checked."""
        own = {name: getattr(self, name) for name in OWN}
        settings = EnsembleSettings(**self._with_defaults(), **own)
        self._check_scalars()
        if self.scored_by is not None and not callable(self.scored_by):
            raise ConfigError(
                f"`scored_by` must be a function of the fitted model and the rows, got {self.scored_by!r}."
            )
        refuse_groups(settings.trimming, self.smallest_group)
        if settings.trimming is not None and not can_fit(self.base):
            raise ConfigError("`base` is not refitted, since it has no `fit`, so `trimming` has nothing to do.")
        if isinstance(self.base, type):
            raise ConfigError(f"`base` must be a detector, not a class: make it {self.base.__name__}().")
        if not can_fit(self.base) and not settings.plain:
            raise ConfigError(
                "`base` is not refitted, since it has no `fit`, so every member would be the same: set `members=1` and "
                "`bootstrap=False`."
            )
        return settings

    @property
    def resampling(self) -> str:
        """What each member was fitted on, in words."""
        if not can_fit(self.base):
            return english("not refitted")
        if self.bootstrap == "subsample":
            return english(
                "each refitted on {share:.3g} of the training rows, drawn without replacement", share=self.share
            )
        if self.bootstrap:
            return english("each refitted on a bootstrap sample")
        return english("fitted on all training rows")

    def _fitted_member(self, rows: Float[np.ndarray, "examples features"], seed: int) -> Any:
        """A copy of the base, fitted; the base itself where it needs no fit."""
        if not can_fit(self.base):
            return self.base
        if self.scored_by is None:
            score_of(self.base)
        with own_randomness(seed):
            model = clone(self.base, safe=False)
            if self.members > 1:
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
        first, some = dataclasses.replace(scorer, members=scorer.members[:1], seeds=scorer.seeds[:1]), rows[:COMPANY]
        together = dataclasses.replace(first, one_by_one=False).scores(some)
        alone = dataclasses.replace(first, one_by_one=True).scores(some[:ALONE])
        bound = TIE_TOLERANCE * spread_of_scores(together)[:, None]
        if (np.abs(alone - together[:, :ALONE]) <= bound).all():
            return False
        warnings.warn(
            f"{type(self.base).__name__} scores a row differently in other company, so every row is scored alone, "
            "which is slow. Pass one_by_one=True to choose it, or False to let a row's score depend on its batch.",
            PerformanceWarning,
            stacklevel=3,
        )
        return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnsembleSettings(ChainSettings):
    """The settings of an ensemble with the defaults put in, and checked."""

    members: AtLeastOne
    bootstrap: bool | Literal["subsample"]
    share: Fraction
    one_by_one: bool | None
    calibration: Calibration | None
    scaling: Scaling | None
    spectra: Spectra | Literal[False] | None
    trimming: Trimming | None
    seed: NotNegativeInt

    @property
    def plain(self) -> bool:
        """Whether it is the base as it is: a single one, fitted on all rows."""
        return self.members == 1 and self.bootstrap is False

    def resample(self, examples: int, generator: np.random.Generator) -> Int[np.ndarray, " resample"]:
        """Places of the rows that a member is fitted on."""
        if self.bootstrap == "subsample":
            return generator.choice(examples, size=max(1, round(self.share * examples)), replace=False)
        return generator.integers(examples, size=examples) if self.bootstrap else np.arange(examples)


def _flat_rows(inputs: Inputs, given: Rows) -> Float[np.ndarray, "examples features"]:
    values = inputs.prepared(given).values
    return np.asarray(values.reshape(len(values), -1))


def _seen(trained: list[Int[np.ndarray, " resample"]], examples: int) -> Bool[np.ndarray, "draws examples"]:
    """Which members were fitted on which examples."""
    return np.stack([np.isin(np.arange(examples), rows) for rows in trained])


def _origins(training_scores: Float[np.ndarray, "draws examples"]) -> Float[np.ndarray, " draws"]:
    """A little below the smallest training score of each draw, so that ties are relative to the spread of the scores.

    Scores may be shifted or pass through 0, and nothing that is made of them may depend on it.
    """
    return np.asarray(training_scores.min(axis=1) - spread_of_scores(training_scores))


def _is_random_state(name: str) -> bool:
    return name == "random_state" or name.endswith("__random_state")
