"""Decider: what scores say, and what is wrong with the data -> verdicts and their reasons."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Shaped

from indubio.assessment import Assessment
from indubio.conformal import Reference
from indubio.decision import Evidence, Referral, judged, predictions
from indubio.inputs.notes import joined_notes
from indubio.inputs.preparation import Beside, Inspected
from indubio.pipeline.calibrated import Scored
from indubio.pipeline.familiarity import UNFAMILIAR


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """What the scores of some examples lead to.

    Args:
        prediction: True for what would be called an anomaly.
        uncertain: which of these verdicts are referred for their doubt.
        novel: which are referred for their novelty.
    """

    prediction: Bool[np.ndarray, " examples"]
    uncertain: Bool[np.ndarray, " examples"]
    novel: Bool[np.ndarray, " examples"]

    @classmethod
    def joined(cls, blocks: Sequence["Decision"]) -> "Decision":
        """Blocks of examples as one."""
        if len(blocks) == 1:
            return blocks[0]
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.concatenate([getattr(block, name) for block in blocks]) for name in names})


@dataclass(frozen=True, kw_only=True, eq=False)
class Decider:
    """All that turns scores into verdicts: the same for a detector in memory and an exported one.

    Args:
        rule: which verdicts are referred.
        referral_threshold: what the rule learned.
        anomaly_threshold: an anomaly has at least this mean probability.
        reference: scores that p-values are made from; None where there are none.
        n_reference: how many reference examples there are.
        novelty_limit: what is more novel is referred; None refers nothing for that.
    """

    rule: Referral
    referral_threshold: float
    anomaly_threshold: float
    reference: Reference | None
    n_reference: int
    novelty_limit: float | None = None

    def evidence(self, scored: Scored, days: Shaped[np.ndarray, " examples"] | None = None) -> Evidence:
        """What the referral rule gets to see.

        Args:
            scored: what the scores say.
            days: the calendar day of each example, for a rule that counts by day.
        """
        below = None
        part_nll = scored.conformal.part_nll
        if self.rule.NEEDS_RANKS and self.reference is not None and part_nll is not None:
            below = self.reference.below(part_nll)
        return Evidence(
            uncertainty=scored.uncertainty,
            prediction=predictions(scored.uncertainty.probability, self.anomaly_threshold),
            below=below,
            reference=self.n_reference,
            day=days,
        )

    def decision(self, scored: Scored, days: Shaped[np.ndarray, " examples"] | None = None) -> Decision:
        """What each example would be called, and which of these are too uncertain."""
        evidence = self.evidence(scored, days)
        return Decision(
            prediction=evidence.prediction,
            uncertain=self.rule.refers(evidence, self.referral_threshold),
            novel=np.asarray(scored.novelty > (np.inf if self.novelty_limit is None else self.novelty_limit)),
        )

    def assessment(
        self, scored: Scored, inspected: Inspected, beside: Beside, decisions: Sequence[Decision] = ()
    ) -> Assessment:
        """Verdicts, reasons and p-values.

        Args:
            scored: what the scores say.
            inspected: what is wrong with the data.
            beside: what came with the examples.
            decisions: of the same examples, block by block, where they are known already.
        """
        decision = Decision.joined(decisions) if decisions else self.decision(scored, beside.days)
        verdict, reason = judged(
            decision.prediction,
            decision.uncertain,
            scored.uncertainty,
            bad=inspected.bad,
            outside=inspected.outside,
            novel=decision.novel,
            unfamiliar=np.asarray(scored.novelty > UNFAMILIAR),
        )
        p_values = scored.conformal
        notes = inspected.notes
        for more in (p_values.notes, scored.notes):
            if more is not None:
                notes = joined_notes(notes, more)
        return Assessment(
            verdict=verdict,
            reason=reason,
            prediction=decision.prediction,
            nll=scored.nll,
            novelty=scored.novelty,
            p_value=p_values.p_value,
            smallest_p=p_values.smallest,
            promise=p_values.promise,
            notes=notes,
            passed=beside.passed,
            **{field.name: getattr(scored.uncertainty, field.name) for field in fields(scored.uncertainty)},
        )
