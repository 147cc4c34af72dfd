"""Decider: what scores say, and what is wrong with the data -> verdicts and their reasons."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import reduce

import numpy as np
from jaxtyping import Bool, Int, Shaped

from indubio.chain.assessment import Assessment
from indubio.chain.calibrated import Scored
from indubio.chain.explain import Contributions
from indubio.chain.familiarity import UNFAMILIAR
from indubio.decision import Evidence, Referral, Verdict, judged, predictions
from indubio.judging import Reference
from indubio.prepare import Beside, Inspected, joined_notes


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """What the scores of some examples lead to.

    Args:
        verdict: of each.
        reason: why it is referred, else "".
        prediction: True for what would be called an anomaly.
    """

    verdict: Shaped[np.ndarray, " examples"]
    reason: Shaped[np.ndarray, " examples"]
    prediction: Bool[np.ndarray, " examples"]

    @property
    def flagged(self) -> Int[np.ndarray, " flagged"]:
        """Where the examples are that are not accepted as inliers."""
        return np.flatnonzero(self.verdict != Verdict.INLIER)

    @classmethod
    def joined(cls, blocks: Sequence["Decision"]) -> "Decision":
        """Blocks of examples as one."""
        if len(blocks) == 1:
            return blocks[0]
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.concatenate([getattr(block, name) for block in blocks]) for name in names})


@dataclass(frozen=True, kw_only=True, eq=False)
class Decider:
    """All that turns scores into verdicts.

    Args:
        rule: which verdicts are referred.
        referral_threshold: what the rule learned.
        anomaly_threshold: an anomaly has at least this mean probability.
        reference: scores that p-values are made from.
        n_reference: how many reference examples there are.
        novelty_limit: what is more novel is referred; None refers nothing for that.
    """

    rule: Referral
    referral_threshold: float
    anomaly_threshold: float
    reference: Reference
    n_reference: int
    novelty_limit: float | None = None

    def evidence(self, scored: Scored, days: Shaped[np.ndarray, " examples"] | None = None) -> Evidence:
        """What the referral rule gets to see.

        Args:
            scored: what the scores say.
            days: the calendar day of each example, for a rule that counts by day.
        """
        return Evidence(
            uncertainty=scored.uncertainty,
            prediction=predictions(scored.uncertainty.probability, self.anomaly_threshold),
            below=self.reference.below(scored.conformal.part_nll) if self.rule.NEEDS_RANKS else None,
            reference=self.n_reference,
            day=days,
        )

    def decision(
        self, scored: Scored, inspected: Inspected, days: Shaped[np.ndarray, " examples"] | None = None
    ) -> Decision:
        """Verdicts, and why they are referred.

        Args:
            scored: what the scores say.
            inspected: what is wrong with the data.
            days: the calendar day of each example, for a rule that counts by day.
        """
        evidence = self.evidence(scored, days)
        limit = np.inf if self.novelty_limit is None else self.novelty_limit
        verdict, reason = judged(
            evidence.prediction,
            self.rule.refers(evidence, self.referral_threshold),
            scored.uncertainty,
            bad=inspected.bad,
            outside=inspected.outside,
            novel=np.asarray(scored.novelty > limit),
            unfamiliar=np.asarray(scored.novelty > UNFAMILIAR),
        )
        return Decision(verdict=verdict, reason=reason, prediction=evidence.prediction)

    def assessment(
        self,
        scored: Scored,
        decision: Decision,
        beside: Beside,
        notes: Sequence[Shaped[np.ndarray, " examples"]],
        why: Contributions | None = None,
    ) -> Assessment:
        """All that is said of some examples.

        Args:
            scored: what the scores say.
            decision: what they lead to.
            beside: what came with the examples.
            notes: what is to be said of each, one kind after the other.
            why: what made the scores of those that are not accepted as inliers; None where nobody asked.
        """
        return Assessment(
            verdict=decision.verdict,
            reason=decision.reason,
            prediction=decision.prediction,
            nll=scored.nll,
            novelty=scored.novelty,
            p_value=scored.conformal.p_value,
            smallest_p=scored.conformal.smallest,
            promise=self.reference.promise,
            notes=reduce(joined_notes, notes),
            passed=beside.passed,
            why=why,
            **{field.name: getattr(scored.uncertainty, field.name) for field in fields(scored.uncertainty)},
        )
