"""ScoringModel: all that follows from scores, for any model that can give them.

rows -> checks, missing values -> [the model: nll (M, N)] -> probability (M, N) -> uncertainties, verdict (N)

A model says what its settings are and how it scores prepared rows. What those scores mean is here, the same for all;
the intake of rows is in `taking`.

Signs: every native name is high for anomalous (`nll`, `probability`). Only the methods of scikit-learn's contract
keep its signs: `predict` gives +1 for inliers and -1 for outliers, `score_samples` and `decision_function` are low
for outliers.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from indubio.assessment import Assessment, Decider, Scored
from indubio.calibration import Plan, TrainScores
from indubio.data import Missing, Prepared, Unseen
from indubio.decision import Labelled, Referral
from indubio.drift import DriftMonitor, DriftTest
from indubio.errors import ConfigError, DataError, quoted
from indubio.probability import Conversion, FittedConversion, Reference
from indubio.scoring.taking import TakesExamples
from indubio.settings import Settings
from indubio.uncertainty import Uncertainty, mean_nll, quantify

Watch = Callable[[Float[np.ndarray, "draws block ..."], Bool[np.ndarray, " block"]], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoringSettings(Settings):
    """What every scoring model is set to, the defaults put in, and checked."""

    conversion: Conversion
    referral: Referral


class ScoringModel(OutlierMixin, TakesExamples, ABC):  # type: ignore[misc]
    """Base of the detectors: from scores to probabilities, uncertainties and verdicts.

    A subclass takes the parameters below among its own. Its `fit` calls `_fit_intake` (or its two steps, with a plan of
    which rows train and which calibrate), fits its model on the rows that come back, and gives their scores to
    `_fit_verdicts`.

    Args:
        conversion: from scores to probabilities.
        referral: which verdicts go to a person.
        missing: "error" refuses missing values; "median" fills in the training median and notes it; "refer" fills it in
            too, and refers every such example with the reason `bad_input`.
        unseen: what happens to categories that the training data did not have: "refer" (with `bad_input`) or "error".
        anomaly_threshold: an anomaly has at least this mean probability.
        range_margin: refer examples with a value further outside its training range than this many ranges.
    """

    conversion: Conversion | None
    referral: Referral | None
    anomaly_threshold: float
    seed: int

    conversion_: FittedConversion
    reference_: Reference | None
    reference_uncertainty_: Uncertainty
    referral_threshold_: float
    largest_reference_nll_: float
    n_reference_: int

    @abstractmethod
    def settings_in_use(self) -> ScoringSettings:
        """The settings with the defaults put in, checked."""

    @abstractmethod
    def _scores(self, prepared: Prepared) -> Iterator[Float[np.ndarray, "draws examples"]]:
        """Score of every example under every draw, a block of examples after the other."""

    def _scores_and_values(
        self,
        prepared: Prepared,  # noqa: ARG002 - every model is called alike
    ) -> Iterator[tuple[Float[np.ndarray, "draws examples"], Float[np.ndarray, "draws examples ..."]]]:
        """The scores with every value's part of them, in blocks that stay in the cache, for models that have parts."""
        raise ConfigError(f"{type(self).__name__} scores examples as a whole: there are no parts to explain.")

    def refer_by(self, rule: Referral, X: Any = None, y: Any = None) -> Self:
        """Change the referral rule without training again.

        Args:
            rule: the new rule.
            X: examples that were not trained on, to fit the rule on: good ones without `y`. None takes the reference
                examples.
            y: their labels, 1 or True for an anomaly, for a rule that needs them.
        """
        check_is_fitted(self)
        if y is not None and not (rule.NEEDS_LABELS and X is not None):
            raise ConfigError(f"{type(rule).__name__} takes no labels: pass good examples alone, or nothing.")
        reference, labelled = self.reference_uncertainty_, None
        if y is not None:
            labelled = self._labelled(rule, X, y)
        elif X is not None:
            reference = self._found(self._prepared(X)).uncertainty
        self.referral_threshold_ = rule.fit(reference, labelled)
        self.referral = rule
        return self

    def assess(self, X: Any, *, groups: Any = None, watch: Watch | None = None) -> Assessment:
        """Verdict, probability and uncertainties of every example, in one pass through the model.

        Args:
            X: as for `fit`.
            groups: the group of each example, for a model that is calibrated by group; None takes the group column of
                a `Table`.
            watch: told the score of every value, block by block, and which examples may need a look; how `explain`
                looks on.
        """
        prepared = self._prepared(X)
        decider = self._decider(self.settings_in_use().referral)
        return decider.assessment(X, self._found(prepared, watch), prepared.inspected, groups)

    def monitored(
        self,
        X: Any,
        p_value: Float[np.ndarray, " examples"],
        monitor: DriftMonitor | None = None,
        *,
        test: DriftTest | None = None,
    ) -> DriftMonitor | None:
        """Watch for drift: the monitor after these examples; `monitor.drift()` says what is known by then.

        Args:
            X: examples, in the order they came; without known anomalies.
            p_value: theirs, from `assess`; NaN where the model has none.
            monitor: the one from before; None starts a new one.
            test: how strict a new one is.

        Returns:
            None for a model that was saved before references were kept.
        """
        check_is_fitted(self)
        reference = getattr(self, "drift_reference_", None)
        if reference is None:
            return None
        monitor = DriftMonitor.fresh(reference, test) if monitor is None else monitor
        return monitor.updated(self._rows(X, fitting=False).values, p_value)

    def nll(self, X: Any) -> Float[np.ndarray, "draws examples"]:
        """Score of every example under every draw; high means anomalous."""
        return np.concatenate(list(self._scores(self._prepared(X))), axis=1)

    def predict(self, X: Any) -> Int[np.ndarray, " examples"]:
        """+1 for inliers, -1 for anomalies; referral plays no part here, `assess` has it."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def decision_function(self, X: Any) -> Float[np.ndarray, " examples"]:
        """Negative for anomalies, as scikit-learn wants it: `score_samples` minus `offset_`."""
        return self.score_samples(X) - self.offset_

    def score_samples(self, X: Any) -> Float[np.ndarray, " examples"]:
        """Minus the mean anomaly probability: low for anomalies, as scikit-learn wants it."""
        return -self._found(self._prepared(X)).uncertainty.probability

    @property
    def decision_threshold(self) -> float:
        """The mean probability from which on an example is an anomaly: `anomaly_threshold`, unless costs decide it."""
        rule = self.referral if self.referral is not None else self.DEFAULTS["referral"]
        assert isinstance(rule, Referral)
        return rule.anomaly_threshold(self.anomaly_threshold)

    @property
    def offset_(self) -> float:
        """What `decision_function` subtracts from `score_samples`.

        An example at the threshold is an anomaly here, and 0 is an inlier in scikit-learn: hence the next smaller
        number.
        """
        return -float(np.nextafter(self.decision_threshold, -1.0))

    def _check_scalars(self) -> None:
        for name, known in (("missing", get_args(Missing)), ("unseen", get_args(Unseen))):
            if getattr(self, name) not in known:
                raise ConfigError(f"`{name}` must be one of {quoted(known)}, got {getattr(self, name)!r}.")
        if not 0 <= self.anomaly_threshold <= 1:
            raise ConfigError(f"`anomaly_threshold` must be within [0, 1], got {self.anomaly_threshold}.")
        if self.range_margin is not None and not 0 <= self.range_margin < np.inf:
            raise ConfigError(f"`range_margin` must be at least 0, or None, got {self.range_margin}.")

    def _above_origin(self, nll: Float[np.ndarray, "draws examples"]) -> Float[np.ndarray, "draws examples"]:
        """Scores as they are compared: ties are relative to the size of a score, so 0 must mean something.

        It does for a likelihood's; a model with scores of any kind says here where they begin.
        """
        return nll

    def _fit_verdicts(
        self, nll: Float[np.ndarray, "draws examples"], plan: Plan | None = None, groups: Any = None
    ) -> None:
        """Learn from the scores of the training rows what follows from a score.

        Args:
            nll: of all training rows, under every draw.
            plan: says which of them count, for each part of the draws; None is all, as the paper does.
            groups: the group of each training row, to give p-values by.
        """
        settings = self.settings_in_use()
        plan = plan or TrainScores().plan(nll.shape[1], len(nll), 0)
        compared = self._above_origin(nll)
        own = [compared[draws][:, part.calibrated] for draws, part in plan.slices()]
        self.reference_ = Reference.of(
            np.stack([mean_nll(scores) for scores in own]),
            plan.part_of_draw,
            unseen=plan.unseen,
            groups=None if groups is None else np.stack([groups[part.calibrated] for part in plan.parts]),
        )
        self.n_reference_ = self.reference_.examples
        self.drift_reference_ = self.drift_reference_.with_scores(self.reference_.fewest_at_once)
        self.largest_reference_nll_ = self.reference_.largest
        self.conversion_ = settings.conversion.fit(np.concatenate(own))
        self.reference_uncertainty_ = self._reference_uncertainty(nll, plan, settings.conversion)
        self.referral_threshold_ = settings.referral.fit(self.reference_uncertainty_)

    def _reference_uncertainty(
        self, nll: Float[np.ndarray, "draws examples"], plan: Plan, conversion: Conversion
    ) -> Uncertainty:
        """Uncertainties of the reference examples, as new examples would have them: under all draws.

        In a plan of several parts most draws have seen a reference example. To those it is what it is among the rows
        they have seen: their probability for it is taken from the CDF of these, so that a low score for having been
        seen does not pass as certainty. Nothing is promised by it; it is what referral budgets are fitted on.
        """
        rows = np.sort(np.concatenate([part.calibrated for part in plan.parts]))
        compared = self._above_origin(nll)
        if len(plan.parts) == 1:
            return self._quantified(self.conversion_.probability(compared[:, rows]), nll[:, rows])
        among_seen = conversion.fit(np.concatenate([compared[draws][:, part.trained] for draws, part in plan.slices()]))
        p = among_seen.probability(compared)
        calibrating = np.concatenate([compared[draws][:, part.calibrated] for draws, part in plan.slices()])
        unseen = self.conversion_.probability(calibrating)
        for draws, part in plan.slices():
            p[draws, part.calibrated] = unseen[draws]
        return self._quantified(p[:, rows], nll[:, rows])

    def _quantified(
        self, p: Float[np.ndarray, "draws examples"], nll: Float[np.ndarray, "draws examples"]
    ) -> Uncertainty:
        return quantify(p, self._above_origin(nll), self.largest_reference_nll_, self.n_reference_)

    def _found(self, prepared: Prepared, watch: Watch | None = None) -> Scored:
        """Mean scores and uncertainties, block by block: (draws, examples) arrays of everything could be large."""
        if watch is None:
            return _joined_scores([self._scored(nll) for nll in self._scores(prepared)])
        blocks, start = [], 0
        for nll, values in self._scores_and_values(prepared):
            blocks.append(self._scored(nll))
            block = slice(start, start + nll.shape[1])
            watch(
                values, self._looked_at(blocks[-1]) | prepared.inspected.bad[block] | prepared.inspected.outside[block]
            )
            start = block.stop
        return _joined_scores(blocks)

    def _scored(self, nll: Float[np.ndarray, "draws examples"]) -> Scored:
        compared = self._above_origin(nll)
        return Scored(
            nll=mean_nll(nll),
            part_nll=None if self.reference_ is None else self.reference_.part_means(compared),
            uncertainty=self._quantified(self.conversion_.probability(compared), nll),
        )

    def _looked_at(self, found: Scored) -> Bool[np.ndarray, " examples"]:
        """Which examples are no plain inliers; where the rule decides over a batch, all may be."""
        rule = self.settings_in_use().referral
        evidence = self._decider(rule).evidence(None, found)
        if rule.OVER_BATCH:
            return np.ones(len(evidence), dtype=bool)
        return np.asarray(evidence.prediction | rule.refers(evidence, self.referral_threshold_))

    def _decider(self, rule: Referral) -> Decider:
        return Decider(
            rule=rule,
            referral_threshold=self.referral_threshold_,
            anomaly_threshold=rule.anomaly_threshold(self.anomaly_threshold),
            reference=self.reference_,
            n_reference=self.n_reference_,
        )

    def _labelled(self, rule: Referral, X: Any, y: Any) -> Labelled:
        evidence = self._decider(rule).evidence(X, self._found(self._prepared(X)))
        labels = np.asarray(y)
        if labels.shape != evidence.prediction.shape or not np.isin(labels, (0, 1)).all():
            raise DataError(
                f"`y` must be 0 or 1 for each of the {len(evidence)} examples, 1 for an anomaly, got the shape "
                f"{labels.shape} with the values {np.unique(labels)[:5].tolist()}."
            )
        return Labelled(evidence=evidence, wrong=evidence.prediction != labels.astype(bool))


def _joined_scores(blocks: Sequence[Scored]) -> Scored:
    if len(blocks) == 1:
        return blocks[0]
    names = [field.name for field in dataclasses.fields(Uncertainty)]
    parts = [block.part_nll for block in blocks if block.part_nll is not None]
    joined = {name: np.concatenate([getattr(block.uncertainty, name) for block in blocks]) for name in names}
    return Scored(
        nll=np.concatenate([block.nll for block in blocks]),
        part_nll=np.concatenate(parts, axis=1) if parts else None,
        uncertainty=Uncertainty(**joined),
    )
