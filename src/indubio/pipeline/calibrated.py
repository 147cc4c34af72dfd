"""Calibrated: what a score means, learned from the scores of the reference examples.

nll (M, N) -> CDFs, of the example's own group where it has one -> what labels taught -> uncertainties (N)
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from jaxtyping import Float, Int, Shaped

from indubio.calibration import Plan
from indubio.conformal import Reference
from indubio.errors import CalibrationWarning, ConfigError
from indubio.probability import Conversion, Correction, FittedConversion, GroupConversions
from indubio.probability.agreement import agreeing
from indubio.probability.customised_scaling import FULL_LEVEL
from indubio.uncertainty import Uncertainty, exceed, mean_nll, quantify, var_nll

HIGH_LEVEL = 0.95  # of the CDF at the mean: 0.63 for exponential scores, 0.91 at most where it was seen to serve well


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """What the scores of some examples say.

    Args:
        nll: mean score over the draws.
        part_nll: mean score over each part of the draws, for p-values; None where the model has no reference scores.
        uncertainty: mean probability and uncertainties.
        notes: what is to be said of each, beside its verdict; None where there is nothing.
    """

    nll: Float[np.ndarray, " examples"]
    part_nll: Float[np.ndarray, "parts examples"] | None
    uncertainty: Uncertainty
    notes: Shaped[np.ndarray, " examples"] | None = None

    @classmethod
    def joined(cls, blocks: Sequence["Scored"]) -> "Scored":
        """Blocks of examples as one."""
        if len(blocks) == 1:
            return blocks[0]
        names = [field.name for field in fields(Uncertainty)]
        parts = [block.part_nll for block in blocks if block.part_nll is not None]
        notes = [block.notes for block in blocks if block.notes is not None]
        values = {name: np.concatenate([getattr(block.uncertainty, name) for block in blocks]) for name in names}
        return cls(
            nll=np.concatenate([block.nll for block in blocks]),
            part_nll=np.concatenate(parts, axis=1) if parts else None,
            uncertainty=Uncertainty(**values),
            notes=np.concatenate(notes) if notes else None,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibrated:
    """From scores to probabilities and uncertainties.

    Args:
        conversion: the CDF of every draw, fitted on the scores of the reference examples.
        reference: their mean scores, which p-values are made from; None for models that were saved without.
        largest: the largest of these.
        n_reference: how many reference examples there are.
        by_group: CDFs of those groups that have enough reference examples; None where all are judged by the same.
        correction: what was learned from labels; None where nothing was.
        origin: where the scores of each draw begin, for scores of any kind: ties are relative to the size of a score,
            so 0 must mean something. None for a likelihood's, where it does.
        false_alarms: the rate that verdicts are given for: within a factor of two of it they agree with the p-value.
            None for models that were saved before it was kept.
    """

    conversion: FittedConversion
    reference: Reference | None
    largest: float
    n_reference: int
    by_group: GroupConversions | None = None
    correction: Correction | None = None
    origin: Float[np.ndarray, " draws"] | None = None
    false_alarms: float | None = None

    @classmethod
    def fit(
        cls,
        nll: Float[np.ndarray, "draws examples"],
        plan: Plan,
        *,
        conversion: Conversion,
        groups: Shaped[np.ndarray, " examples"] | None = None,
        smallest_group: int | None = None,
        origin: Float[np.ndarray, " draws"] | None = None,
        false_alarms: float | None = None,
    ) -> "Calibrated":
        """Learn from the scores of the training rows what follows from a score.

        Args:
            nll: of all training rows, under every draw.
            plan: says which of them count, for each part of the draws.
            conversion: from scores to probabilities.
            groups: the group of each training row, to give p-values by.
            smallest_group: groups with so many reference examples for every draw have CDFs of their own.
            origin: where the scores of each draw begin.
            false_alarms: the rate that verdicts are given for.
        """
        compared = _above(origin, nll)
        own = [compared[draws][:, part.calibrated] for draws, part in plan.slices()]
        reference = Reference.of(
            np.stack([mean_nll(scores) for scores in own]),
            plan.part_of_draw,
            unseen=plan.unseen,
            groups=None if groups is None else np.stack([groups[part.calibrated] for part in plan.parts]),
            dropped=plan.dropped,
        )
        fitted = conversion.fit(np.concatenate(own))
        _warn_of_high_level(fitted)
        by_group = None
        if smallest_group is not None:
            members = [needed_groups(groups)[part.calibrated] for part in plan.parts]
            by_group = GroupConversions.fit(conversion, own, members, smallest_group)
        return cls(
            conversion=fitted,
            reference=reference,
            largest=reference.largest,
            n_reference=reference.examples,
            by_group=by_group,
            origin=origin,
            false_alarms=false_alarms,
        )

    def scored(
        self,
        nll: Float[np.ndarray, "draws examples"],
        groups: Shaped[np.ndarray, " examples"] | None = None,
        log_odds: Float[np.ndarray, " examples"] | None = None,
    ) -> Scored:
        """What the scores of new examples say.

        Args:
            nll: under every draw.
            groups: the group of each example; None without.
            log_odds: how far labels move those of each; None where nothing was learned from labels.
        """
        compared = nll if self.origin is None else _above(self.origin, nll)
        part_nll = None if self.reference is None else self.reference.part_means(compared)
        p = self._agreeing(self._probability(compared, groups), part_nll, groups)
        unsure = self._log_odds_variance(p, groups)
        if self.correction is not None and log_odds is not None:
            p = self.correction.corrected(p, log_odds)
        return Scored(
            nll=mean_nll(nll),
            part_nll=part_nll,
            uncertainty=self.quantified(p, nll, groups, unsure),
            notes=None if self.by_group is None or groups is None else self.by_group.notes(groups),
        )

    def quantified(
        self,
        p: Float[np.ndarray, "draws examples"],
        nll: Float[np.ndarray, "draws examples"],
        groups: Shaped[np.ndarray, " examples"] | None = None,
        log_odds_variance: Float[np.ndarray, "draws examples"] | None = None,
    ) -> Uncertainty:
        """Uncertainties of examples with these probabilities and scores."""
        compared = nll if self.origin is None else _above(self.origin, nll)
        found = quantify(p, compared, self.largest, self.n_reference, log_odds_variance)
        if self.origin is not None:  # those of the draws differ, and the variance is that of the scores themselves
            found = replace(found, var_nll=var_nll(nll))
        if self.by_group is None or groups is None or self.reference is None:
            return found
        names, compared_with, doubt = groups.astype(str), self.reference.by_group, found.exceed.copy()
        for name in self.by_group.names:  # U_exceed is the one that looks at the reference examples themselves
            members = names == name
            doubt[members] = exceed(found.probability[members], mean_nll(compared[:, members]), *compared_with[name])
        return replace(found, exceed=doubt)

    def reference_uncertainty(
        self,
        nll: Float[np.ndarray, "draws examples"],
        plan: Plan,
        groups: Shaped[np.ndarray, " examples"] | None = None,
        *,
        remembered: bool = False,
    ) -> Uncertainty:
        """Uncertainties of the reference examples, as new examples would have them: under all draws.

        In a plan of several parts most draws have seen a reference example. To those it is what it is among the rows
        they have seen: their probability for it is taken from the CDF of these, so that a low score for having been
        seen does not pass as certainty. Nothing is promised by it; it is what referral budgets are fitted on.

        Args:
            nll: of all training rows, as for `fit`.
            plan: likewise.
            groups: likewise.
            remembered: draws remember the rows they have seen, and even their order by score says nothing: all but the
                disagreement of draws is then taken from those that have not seen the example.
        """
        rows = np.sort(np.concatenate([part.calibrated for part in plan.parts]))
        compared = _above(self.origin, nll)
        theirs = None if groups is None else groups[rows]
        rarity = self._own_p_values(compared, plan)
        unseen = self._held_back(self._probability(compared, groups), rarity)
        if len(plan.parts) == 1:
            p = unseen[:, rows]
            return self.quantified(p, nll[:, rows], theirs, self._log_odds_variance(p, theirs))
        conversion = self.conversion.conversion
        seen = [compared[draws][:, part.trained] for draws, part in plan.slices()]
        p = conversion.fit(np.concatenate(seen)).probability(compared)
        if self.by_group is not None and groups is not None:
            members = [groups[part.trained] for part in plan.parts]
            among_seen = GroupConversions.fit(conversion, seen, members, self.by_group.smallest)
            p = among_seen.put_into(p, compared, groups)
        for draws, part in plan.slices():
            p[draws, part.calibrated] = unseen[draws, part.calibrated]
        p = self._held_back(p, rarity)[:, rows]
        found = self.quantified(p, nll[:, rows], theirs, self._log_odds_variance(p, theirs))
        return self._by_unseen_draws(found, unseen, nll, plan, rows, groups) if remembered else found

    def _by_unseen_draws(
        self,
        found: Uncertainty,
        p: Float[np.ndarray, "draws examples"],
        nll: Float[np.ndarray, "draws examples"],
        plan: Plan,
        rows: Int[np.ndarray, " reference"],
        groups: Shaped[np.ndarray, " examples"] | None,
    ) -> Uncertainty:
        """Uncertainties of the reference examples, with what one draw can say by those that have not seen them."""
        values = {name: getattr(found, name).copy() for name in ("probability", "aleatoric", "total", "exceed")}
        for draws, part in plan.slices():
            own, theirs = part.calibrated, None if groups is None else groups[part.calibrated]
            ours = p[draws][:, own]
            judged = self.quantified(ours, nll[draws][:, own], theirs, self._log_odds_variance(ours, theirs))
            for name, all_values in values.items():
                all_values[np.searchsorted(rows, own)] = getattr(judged, name)
        return replace(found, **values)

    def _probability(
        self, compared: Float[np.ndarray, "draws examples"], groups: Shaped[np.ndarray, " examples"] | None
    ) -> Float[np.ndarray, "draws examples"]:
        """What the CDFs say, of their own group where it has one."""
        p = self.conversion.probability(compared)
        return p if self.by_group is None else self.by_group.put_into(p, compared, groups)

    def _log_odds_variance(
        self, p: Float[np.ndarray, "draws examples"], groups: Shaped[np.ndarray, " examples"] | None
    ) -> Float[np.ndarray, "draws examples"] | None:
        """How unsure the log-odds are for so few reference scores; None for models that were saved without a rate."""
        if self.false_alarms is None:
            return None
        unsure = self.conversion.log_odds_variance(p)
        return unsure if self.by_group is None else self.by_group.variance_put_into(unsure, p, groups)

    def _agreeing(
        self,
        p: Float[np.ndarray, "draws examples"],
        part_nll: Float[np.ndarray, "parts examples"] | None,
        groups: Shaped[np.ndarray, " examples"] | None,
    ) -> Float[np.ndarray, "draws examples"]:
        """The probabilities, none of which contradicts the p-value among the examples that they come from."""
        if self.false_alarms is None or self.reference is None or part_nll is None or not self.reference.unseen:
            return p
        p_value, least = self.reference.pooled_p_values(part_nll)
        smallest = np.full(len(p_value), least)
        if self.by_group is not None and groups is not None:
            own, own_smallest = self.reference.p_values(part_nll, groups)
            judged = np.isin(groups.astype(str), self.by_group.names)
            p_value, smallest = np.where(judged, own, p_value), np.where(judged, own_smallest, smallest)
        return agreeing(p, p_value, smallest, self.false_alarms)

    def _own_p_values(
        self, compared: Float[np.ndarray, "draws examples"], plan: Plan
    ) -> Float[np.ndarray, " examples"] | None:
        """P-values of the reference examples among those of their part; NaN for other rows."""
        if self.false_alarms is None or self.reference is None or not self.reference.unseen:
            return None
        rarity = np.full(compared.shape[1], np.nan)
        for place, (draws, part) in enumerate(plan.slices()):
            rarity[part.calibrated] = self.reference.rank_in_part(place, mean_nll(compared[draws][:, part.calibrated]))
        return rarity

    def _held_back(
        self, p: Float[np.ndarray, "draws examples"], p_value: Float[np.ndarray, " examples"] | None
    ) -> Float[np.ndarray, "draws examples"]:
        """As `_agreeing`, for reference examples."""
        if p_value is None or self.false_alarms is None or self.reference is None:
            return p
        return agreeing(p, p_value, 1 / self.reference.scores.shape[1], self.false_alarms)


def needed_groups(groups: Shaped[np.ndarray, " examples"] | None) -> Shaped[np.ndarray, " examples"]:
    """The groups, which a detector that judges by group cannot do without."""
    if groups is None:
        raise ConfigError(
            "`smallest_group` is for examples with groups: pass `groups` to `fit`, or a table whose roles name the "
            "`group` column."
        )
    return groups


def _above(
    origin: Float[np.ndarray, " draws"] | None, nll: Float[np.ndarray, "draws examples"]
) -> Float[np.ndarray, "draws examples"]:
    """Scores as they are compared."""
    return nll if origin is None else np.asarray(nll - origin[:, None])


def _warn_of_high_level(fitted: FittedConversion) -> None:
    """Tell of reference examples that score so high that they alone make the average.

    The customised scaling gives no probability up to the average score: one score of a thousand times the others moves
    it beyond nearly all of them, and then hardly anything is ever called an anomaly.
    """
    if not fitted.conversion.is_scaled:
        return
    level = float(np.median(fitted.parameters["scaling_level"]))
    if HIGH_LEVEL <= level < FULL_LEVEL:
        warnings.warn(
            f"the average score of the examples that new ones are compared with lies above {level:.1%} of them: a few "
            "score far higher than the others. So only what scores above "
            f"{(1 + level) / 2:.1%} of them is called an anomaly. Look at these few, or choose "
            'level="mean_of_cdf" in the conversion, which does not mind them.',
            CalibrationWarning,
            stacklevel=5,
        )
