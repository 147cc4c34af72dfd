"""ScoringModel: all that follows from scores, for any model that can give them.

rows -> checks, missing values -> [the model: nll (M, N)] -> probability (M, N) -> uncertainties, verdict (N)

A model says what its settings are and how it scores prepared rows. What follows is the same for all: what the scores
mean is in `judging`, the intake of rows in `taking`.

Signs: every native name is high for anomalous (`nll`, `probability`). Only the methods of scikit-learn's contract
keep its signs: `predict` gives +1 for inliers and -1 for outliers, `score_samples` and `decision_function` are low
for outliers.
"""

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from indubio.assessment import Assessment, Decider, Scored
from indubio.decision import Labelled, Referral
from indubio.drift import DriftMonitor, DriftTest
from indubio.errors import ConfigError, DataError
from indubio.inputs import Prepared
from indubio.inputs.named_rows import groups_of
from indubio.pipeline.judging import JudgesScores, joined_scores
from indubio.pipeline.scalars import Scalars
from indubio.probability import Conversion, Correction

SPREAD = 2.0  # of what labels may do to the log-odds: from 1/2 to 7/8, one standard deviation
Watch = Callable[[Float[np.ndarray, "draws block ..."], Bool[np.ndarray, " block"]], None]


class ScoringModel(OutlierMixin, JudgesScores):  # type: ignore[misc]
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
        smallest_group: give groups with at least so many calibration examples for every draw probabilities and verdicts
            of their own; None judges all by the same.
        range_margin: refer examples with a value further outside its training range than this many ranges.
    """

    conversion: Conversion | None
    referral: Referral | None
    anomaly_threshold: float
    seed: int

    @abstractmethod
    def _scores(self, prepared: Prepared) -> Iterator[Float[np.ndarray, "draws examples"]]:
        """Score of every example under every draw, a block of examples after the other."""

    def _scores_and_values(
        self,
        prepared: Prepared,  # noqa: ARG002 - every model is called alike
    ) -> Iterator[tuple[Float[np.ndarray, "draws examples"], Float[np.ndarray, "draws examples ..."]]]:
        """The scores with every value's part of them, in blocks that stay in the cache, for models that have parts."""
        raise ConfigError(f"{type(self).__name__} scores examples as a whole: there are no parts to explain.")

    def refer_by(self, rule: Referral, X: Any = None, y: Any = None, *, groups: Any = None) -> Self:
        """Change the referral rule without training again.

        Args:
            rule: the new rule.
            X: examples that were not trained on, to fit the rule on: good ones without `y`. None takes the reference
                examples.
            y: their labels, 1 or True for an anomaly, for a rule that needs them.
            groups: as for `assess`.
        """
        check_is_fitted(self)
        self._refuse_ranks(rule)
        if y is not None and not (rule.NEEDS_LABELS and X is not None):
            raise ConfigError(f"{type(rule).__name__} takes no labels: pass good examples alone, or nothing.")
        reference, labelled = self.reference_uncertainty_, None
        if y is not None:
            labelled = self._labelled(rule, X, y, groups_of(X, groups))
        elif X is not None:
            reference = self._found(self._prepared(X), groups=groups_of(X, groups)).uncertainty
        self.referral_threshold_ = rule.fit(reference, labelled)
        self.referral = rule
        return self

    def learn(self, X: Any, y: Any, *, recent: Any, groups: Any = None, spread: float = SPREAD) -> Self:
        """A new model that has learned from labels, good ones and anomalies; this one stays as it is.

        Nothing is trained: the log-odds of an anomaly are corrected, see `probability.correction`. So verdicts,
        probabilities and their uncertainties change, and scores, p-values, drift and explanations stay what they were.

        Args:
            X: all examples that people have labelled, whatever they were chosen by; what was learned before is replaced
                and not built upon.
            y: 1 or True for an anomaly; both kinds are needed.
            recent: examples as they come, labelled or not, that were not trained on: the last batch, say. The referral
                rule is fitted on these again, since all uncertainties change; a budget is then a share of such.
            groups: of X and then of `recent`, as for `assess`.
            spread: how far labels may move the log-odds, as a standard deviation, before any is seen.
        """
        check_is_fitted(self)
        rule = self.settings_in_use().referral
        if rule.NEEDS_LABELS:
            raise ConfigError(
                f"{type(rule).__name__} was fitted on probabilities that would change. Choose another rule "
                "(`refer_by`), learn, and then fit it again, on labelled examples that were not learned from."
            )
        new = copy.copy(self)
        new.__dict__.pop("correction_", None)
        prepared, like_new = new._prepared(X), new._prepared(recent)
        own, theirs = groups_of(X), groups_of(recent)
        if groups is not None:
            own, theirs = (
                groups_of(X, groups[: len(prepared.values)]),
                groups_of(recent, groups[len(prepared.values) :]),
            )
        before = new._found(prepared, groups=own).uncertainty.probability
        anomaly = _checked_labels(y, len(before))
        new.correction_ = Correction.fit(new._unit_values(prepared), before, anomaly, spread)
        new.reference_uncertainty_ = new._found(like_new, groups=theirs).uncertainty
        new.referral_threshold_ = rule.fit(new.reference_uncertainty_)
        return new

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
        decider = self._decider_in_use()
        found = self._found(prepared, watch, groups_of(X, groups))
        return decider.assessment(X, found, prepared.inspected, groups)

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
        return -self._found(self._prepared(X), groups=groups_of(X)).uncertainty.probability

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
        Scalars(**{field.name: getattr(self, field.name) for field in fields(Scalars)})

    def _found(
        self, prepared: Prepared, watch: Watch | None = None, groups: Shaped[np.ndarray, " examples"] | None = None
    ) -> Scored:
        """Mean scores and uncertainties, block by block: (draws, examples) arrays of everything could be large."""
        known = self._known(prepared, groups)
        blocks, start = [], 0
        if watch is None:
            for nll in self._scores(prepared):
                blocks.append(self._scored(nll, known.part(start, nll.shape[1])))
                start += nll.shape[1]
            return joined_scores(blocks)
        for nll, values in self._scores_and_values(prepared):
            blocks.append(self._scored(nll, known.part(start, nll.shape[1])))
            block = slice(start, start + nll.shape[1])
            watch(
                values, self._looked_at(blocks[-1]) | prepared.inspected.bad[block] | prepared.inspected.outside[block]
            )
            start = block.stop
        return joined_scores(blocks)

    def _looked_at(self, found: Scored) -> Bool[np.ndarray, " examples"]:
        """Which examples are no plain inliers; where the rule decides over a batch, all may be."""
        decider = self._decider_in_use()
        if decider.rule.OVER_BATCH:
            return np.ones(len(found.nll), dtype=bool)
        evidence = decider.evidence(None, found)
        return np.asarray(evidence.prediction | decider.rule.refers(evidence, decider.referral_threshold))

    def _decider_in_use(self) -> Decider:
        """What decides, by the settings in use.

        Kept as long as they are the same: to check them takes as long as to prepare an example.
        """
        now = _what_decides(type(self))(self)
        kept: tuple[tuple[Any, ...], Decider] | None = self.__dict__.get("_kept_decider")
        if kept is None or kept[0] != now:
            kept = self._kept_decider = now, self._decider(self.settings_in_use().referral)
        return kept[1]

    def _decider(self, rule: Referral) -> Decider:
        return Decider(
            rule=rule,
            referral_threshold=self.referral_threshold_,
            anomaly_threshold=rule.anomaly_threshold(self.anomaly_threshold),
            reference=self.reference_,
            n_reference=self.n_reference_,
        )

    def _labelled(self, rule: Referral, X: Any, y: Any, groups: Shaped[np.ndarray, " examples"] | None) -> Labelled:
        evidence = self._decider(rule).evidence(X, self._found(self._prepared(X), groups=groups))
        return Labelled(evidence=evidence, wrong=evidence.prediction != _checked_labels(y, len(evidence)))


@cache
def _what_decides(model: type[ScoringModel]) -> Callable[[ScoringModel], tuple[Any, ...]]:
    """The parameters of a model, and what it learned of verdicts."""
    return attrgetter(*model._get_param_names(), "referral_threshold_", "reference_", "n_reference_")


def _checked_labels(y: Any, examples: int) -> Bool[np.ndarray, " examples"]:
    labels = np.asarray(y)
    if labels.shape != (examples,) or not np.isin(labels, (0, 1)).all():
        raise DataError(
            f"`y` must be 0 or 1 for each of the {examples} examples, 1 for an anomaly, got the shape "
            f"{labels.shape} with the values {np.unique(labels)[:5].tolist()}."
        )
    return labels.astype(bool)
