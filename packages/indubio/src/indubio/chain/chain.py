"""Chain: what a fitted detector is, one object after the other.

examples -> Preparation -> prepared rows -> Scorer -> nll (M, N) -> Calibrated -> uncertainties -> Decider -> Assessment
                                                  per value -> Explainer -> what made the scores, where that is asked

A chain never changes: another rule, or what labels teach, makes another chain of the same links and a new one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from indubio.chain.assessment import Assessment
from indubio.chain.calibrated import Calibrated, Scored
from indubio.chain.decider import Decider, Decision
from indubio.chain.explain import Contributions
from indubio.chain.explainer import Explainer
from indubio.chain.familiarity import Familiarity
from indubio.chain.held_out_rows import HeldOutRows
from indubio.chain.scorer import Scorer, Scores, ValueScores
from indubio.decision import Labelled, Referral
from indubio.drift import DriftMonitor, DriftReference, DriftTest
from indubio.errors import ConfigError, DataError
from indubio.judging import Conversion, Correction, Odds, Uncertainty, disagreement
from indubio.prepare import Preparation, Prepared


@dataclass(frozen=True, kw_only=True, eq=False)
class Chain:
    """From examples to verdicts.

    Args:
        preparation: examples -> prepared rows.
        scorer: prepared rows -> scores under every draw.
        calibrated: scores -> probabilities and uncertainties.
        decider: these -> verdicts.
        familiarity: what is familiar among prepared rows.
        good: uncertainties of good examples, which a referral rule is fitted on.
        drift_reference: the distributions of the training data, which new data is compared with.
        n_training: how many examples it was fitted on.
        held_out: what is said of the training examples by the draws that have not seen them; None for those that were
            streamed, and not saved, so None for a model that was loaded.
    """

    preparation: Preparation
    scorer: Scorer
    calibrated: Calibrated
    decider: Decider
    familiarity: Familiarity
    good: Uncertainty
    drift_reference: DriftReference
    n_training: int
    held_out: HeldOutRows | None = None

    def assess(self, X: Any, groups: Any = None, *, explain: bool = False) -> Assessment:
        """Verdict, probability and uncertainties of every example; scores of all draws exist for a block at a time.

        Args:
            X: examples in any form.
            groups: the group of each; None takes the group column of a `Table`.
            explain: whether to tell what made the scores of those that are not accepted as inliers.
        """
        explainer = self.explainer if explain else None
        prepared = self.preparation.prepared(X, groups)
        inspected, over_batch = prepared.inspected, self.decider.rule.OVER_BATCH
        scored, decisions, why = [], [], []
        for block, nll, values in self._blocks(prepared, apart=explain):
            scored.append(self._scored(nll, prepared, block))
            if not over_batch:
                decisions.append(self.decider.decision(scored[-1], inspected.block(block)))
            if explainer is not None and values is not None:
                chosen = np.arange(nll.shape[1]) if over_batch else decisions[-1].flagged  # each may be, over all
                if len(chosen):
                    why.append(explainer.contributions(values[:, chosen], chosen + block.start))
        whole = Scored.joined(scored)
        decision = (
            self.decider.decision(whole, inspected, prepared.beside.days) if over_batch else Decision.joined(decisions)
        )
        reasons = None if explainer is None else Contributions.joined(why) if why else explainer.nothing
        if over_batch and reasons is not None:
            reasons = reasons.taken(decision.flagged)
        notes = [inspected.notes, *self.calibrated.notes(prepared.beside.groups)]
        return self.decider.assessment(whole, decision, prepared.beside, notes, reasons)

    def scored(self, prepared: Prepared) -> Scored:
        """What the scores of all examples say."""
        return Scored.joined([self._scored(nll, prepared, block) for block, nll, _ in self._blocks(prepared)])

    def contributions(self, X: Any) -> Contributions:
        """What made the score of every example, whatever its verdict."""
        why, explainer = [], self.explainer
        for block, _, values in self._blocks(self.preparation.prepared(X), apart=True):
            assert values is not None
            why.append(explainer.contributions(values, np.arange(block.start, block.stop)))
        return Contributions.joined(why)

    @cached_property
    def explainer(self) -> Explainer:
        """Tells what made a score; refused where examples are scored as a whole."""
        if self.scorer.typical is None:
            raise ConfigError(
                f"{self.preparation.detector} has no contributions: only an autoencoder's score is a sum over the "
                "values."
            )
        return Explainer(typical=self.scorer.typical.astype(np.float64), preparation=self.preparation)

    def monitored(
        self,
        X: Any,
        p_value: Float[np.ndarray, " examples"],
        monitor: DriftMonitor | None,
        test: DriftTest | None,
        known_anomalies: Bool[np.ndarray, " examples"] | None,
    ) -> DriftMonitor:
        """The drift monitor after these examples."""
        monitor = DriftMonitor.fresh(self.drift_reference, test) if monitor is None else monitor
        return monitor.updated(self.preparation.followed(X), p_value, known_anomalies)

    def deciding_by(self, rule: Referral, anomaly_threshold: float, referral_threshold: float) -> "Chain":
        """This chain with another rule and other thresholds."""
        decider = replace(
            self.decider,
            rule=rule,
            referral_threshold=referral_threshold,
            anomaly_threshold=rule.anomaly_threshold(anomaly_threshold),
        )
        return replace(self, decider=decider)

    def limited_by(self, novelty_limit: float | None) -> "Chain":
        """This chain with another bound on novelty."""
        return replace(self, decider=replace(self.decider, novelty_limit=novelty_limit))

    def referring_by(self, rule: Referral, X: Any, y: Any, groups: Any, anomaly_threshold: float) -> "Chain":
        """This chain with another rule, fitted on these examples; on the reference examples where there are none."""
        if self.calibrated.by_group is not None:
            refuse_ranks(rule)
        if y is not None and not (rule.takes_labels and X is not None):
            raise ConfigError(
                f"{type(rule).__name__} takes no labels, set as it is: pass good examples alone, or nothing."
            )
        good, labelled = self.good, None
        if X is not None:
            prepared = self.preparation.prepared(X, groups)
            asked = self.deciding_by(rule, anomaly_threshold, self.decider.referral_threshold)
            scored = asked.scored(prepared)
            if y is None:
                good = scored.uncertainty
            else:
                anomaly = checked_labels(y, len(scored.nll))
                rule = rule.at_prevalence(float(anomaly.sum() + 0.5) / (len(anomaly) + 1))
                new = self.deciding_by(rule, anomaly_threshold, self.decider.referral_threshold)
                evidence = new.decider.evidence(scored, prepared.beside.days)
                labelled = Labelled(evidence=evidence, wrong=evidence.prediction != anomaly)
        return self.deciding_by(rule, anomaly_threshold, rule.fit(good, labelled))

    def corrected_by(
        self, X: Any, y: Any, recent: Any, groups: tuple[Any, Any], spread: float, anomaly_threshold: float
    ) -> "Chain":
        """This chain with what labels teach; its rule is fitted again on recent examples.

        Args:
            X: examples that people have labelled.
            y: 1 or True for an anomaly.
            recent: examples as they come.
            groups: of the labelled, and of the recent ones.
            spread: how far labels may move the log-odds, as a standard deviation, before any is seen.
            anomaly_threshold: an anomaly has at least this mean probability.
        """
        plain = replace(self, calibrated=replace(self.calibrated, correction=None))
        prepared, like_new = self.preparation.prepared(X, groups[0]), self.preparation.prepared(recent, groups[1])
        before = plain.scored(prepared).uncertainty.probability
        correction = Correction.fit(
            self.preparation.in_units_of_the_range(prepared.values),
            before,
            checked_labels(y, len(before)),
            spread,
            recent=self.preparation.in_units_of_the_range(like_new.values),
            recent_probability=plain.scored(like_new).uncertainty.probability,
        )
        new = replace(plain, calibrated=replace(plain.calibrated, correction=correction))
        rule = self.decider.rule.at_prevalence(correction.prevalence)
        good = new.scored(like_new).uncertainty
        return replace(new, good=good).deciding_by(rule, anomaly_threshold, rule.fit(good))

    def _blocks(self, prepared: Prepared, *, apart: bool = False) -> Iterator[tuple[slice, Scores, ValueScores | None]]:
        """Scores of all examples, block by block, and where each block is."""
        start = 0
        for nll, values in self.scorer.blocks(prepared.values, apart=apart):
            block = slice(start, start + nll.shape[1])
            start = block.stop
            yield block, nll, values

    def _scored(self, nll: Scores, prepared: Prepared, block: slice) -> Scored:
        """What the scores of a block of the examples say."""
        correction, groups = self.calibrated.correction, prepared.beside.groups
        values = self.preparation.in_units_of_the_range(prepared.values[block])
        scored = self.calibrated.scored(
            nll,
            self.familiarity.novelty(values),
            None if groups is None else groups[block],
            None if correction is None else correction.log_odds(values),
        )
        if self.decider.rule.by == "disagreement":
            scored = replace(scored, uncertainty=replace(scored.uncertainty, disagreement=disagreement(nll)))
        return scored


def usual_alarms(conversion: Conversion, threshold: float, false_alarms: float) -> float:
    """The share of good examples that are expected to have at least this mean probability."""
    if not isinstance(conversion, Odds):
        return false_alarms
    odds = (1 - threshold) / max(threshold, float(np.finfo(np.float64).tiny))
    return float(min(1.0, false_alarms * odds ** (1 / conversion.steepness)))


def refuse_ranks(rule: Referral) -> None:
    """Refuse a rule that cannot judge by group, for a detector that does."""
    if rule.NEEDS_RANKS:
        raise ConfigError(
            "{rule} ranks an example among all groups, and this detector judges by group. Choose "
            "another rule, or leave out `smallest_group`.",
            rule=type(rule).__name__,
        )


def checked_labels(y: Any, examples: int) -> Bool[np.ndarray, " examples"]:
    """The labels as True for an anomaly."""
    labels = np.asarray(y)
    if labels.shape != (examples,) or not np.isin(labels, (0, 1)).all():
        raise DataError(
            f"`y` must be 0 or 1 for each of the {examples} examples, 1 for an anomaly, got the shape "
            f"{labels.shape} with the values {np.unique(labels)[:5].tolist()}."
        )
    return labels.astype(bool)
