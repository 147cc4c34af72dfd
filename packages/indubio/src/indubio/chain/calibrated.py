"""Calibrated: what a score means, learned from the scores of the reference examples.

nll (M, N) -> CDFs, of the example's own group where it has one -> what labels taught -> uncertainties (N)
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from jaxtyping import Float, Int, Shaped

from indubio.calibration import Plan, thinned
from indubio.chain.scalars import ChainSettings
from indubio.errors import CalibrationWarning, ConfigError
from indubio.judging import (
    FULL_LEVEL,
    Conformal,
    Correction,
    FittedConversion,
    GroupConversions,
    Rarity,
    Reference,
    Uncertainty,
    agreeing,
    exceed,
    judged,
    mean_nll,
    quantify,
    var_nll,
)
from indubio.message import Message

HIGH_LEVEL = 0.95  # of the CDF at the mean: 0.63 for exponential scores, 0.91 at most where it was seen to serve well


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """What the scores of some examples say.

    Args:
        nll: mean score over the draws.
        conformal: p-values, and the scores that they are made of.
        uncertainty: mean probability and uncertainties.
        novelty: how far each is from what was seen.
    """

    nll: Float[np.ndarray, " examples"]
    conformal: Conformal
    uncertainty: Uncertainty
    novelty: Float[np.ndarray, " examples"]

    @classmethod
    def joined(cls, blocks: Sequence["Scored"]) -> "Scored":
        """Blocks of examples as one."""
        if len(blocks) == 1:
            return blocks[0]
        names = [field.name for field in fields(Uncertainty)]
        values = {
            name: np.concatenate([getattr(block.uncertainty, name) for block in blocks])
            for name in names
            if getattr(blocks[0].uncertainty, name) is not None
        }
        return cls(
            nll=np.concatenate([block.nll for block in blocks]),
            conformal=Conformal.joined([block.conformal for block in blocks]),
            uncertainty=Uncertainty(**values),
            novelty=np.concatenate([block.novelty for block in blocks]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibrated:
    """From scores to probabilities and uncertainties.

    Args:
        conversion: the CDF of every draw, fitted on the scores of the reference examples.
        reference: their mean scores, which p-values are made from.
        largest: the largest of these.
        n_reference: how many reference examples there are.
        by_group: CDFs of those groups that have enough reference examples; None where all are judged by the same.
        correction: what was learned from labels; None where nothing was.
        origin: where the scores of each draw begin, for scores of any kind: ties are relative to the size of a score,
            so 0 must mean something. None for a likelihood's, where it does.
        false_alarms: the rate that verdicts are given for: within a factor of two of it they agree with the p-value.
    """

    conversion: FittedConversion
    reference: Reference
    largest: float
    n_reference: int
    false_alarms: float
    by_group: GroupConversions | None = None
    correction: Correction | None = None
    origin: Float[np.ndarray, " draws"] | None = None

    @classmethod
    def fit(
        cls,
        nll: Float[np.ndarray, "draws examples"],
        plan: Plan,
        settings: ChainSettings,
        *,
        groups: Shaped[np.ndarray, " examples"] | None = None,
        origin: Float[np.ndarray, " draws"] | None = None,
    ) -> "Calibrated":
        """Learn from the scores of the training rows what follows from a score.

        Args:
            nll: of all training rows, under every draw.
            plan: says which of them count, for each fold.
            settings: of the detector.
            groups: the group of each training row, to give p-values by.
            origin: where the scores of each draw begin.
        """
        compared = _above(origin, nll)
        own = [compared[draws][:, fold.calibrated] for draws, fold in plan.slices()]
        reference = Reference.of(
            np.stack([mean_nll(scores) for scores in own]),
            plan.fold_of_draw,
            unseen=plan.unseen,
            groups=None if groups is None else np.stack([groups[fold.calibrated] for fold in plan.folds]),
            dropped=plan.dropped,
        )
        fitted = settings.conversion.fit(np.concatenate(own))
        _warn_of_high_level(fitted)
        by_group = None
        if settings.smallest_group is not None:
            members = [needed_groups(groups)[fold.calibrated] for fold in plan.folds]
            by_group = GroupConversions.fit(settings.conversion, own, members, settings.smallest_group)
        return cls(
            conversion=fitted,
            reference=reference,
            largest=reference.largest,
            n_reference=reference.examples,
            by_group=by_group,
            origin=origin,
            false_alarms=settings.false_alarms,
        )

    def scored(
        self,
        nll: Float[np.ndarray, "draws examples"],
        novelty: Float[np.ndarray, " examples"],
        groups: Shaped[np.ndarray, " examples"] | None = None,
        log_odds: Float[np.ndarray, " examples"] | None = None,
    ) -> Scored:
        """What the scores of new examples say.

        Args:
            nll: under every draw.
            novelty: of each.
            groups: the group of each example; None without.
            log_odds: how far labels move those of each; None where nothing was learned from labels.
        """
        compared = nll if self.origin is None else _above(self.origin, nll)
        conformal = Conformal.of(self.reference, self.reference.part_means(compared), groups)
        rarity = Rarity(p_value=conformal.p_value, smallest=conformal.smallest, rate=self.false_alarms)
        if conformal.pooled is not None and groups is not None:
            rarity = self._among_all(rarity, conformal.pooled, groups)
        p, unsure = judged(self.conversion, self.by_group, compared, groups, rarity)
        if self.correction is not None and log_odds is not None:
            p = self.correction.corrected(p, log_odds)
        return Scored(
            nll=mean_nll(nll),
            conformal=conformal,
            uncertainty=self.quantified(p, nll, groups, unsure),
            novelty=novelty,
        )

    def notes(self, groups: Shaped[np.ndarray, " examples"] | None) -> list[Shaped[np.ndarray, " examples"]]:
        """What is to be said of examples of these groups beside their verdicts."""
        told = (
            self.reference.notes(groups),
            None if groups is None or self.by_group is None else self.by_group.notes(groups),
        )
        return [notes for notes in told if notes is not None]

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
        if self.by_group is None or groups is None:
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
        rows = np.sort(np.concatenate([fold.calibrated for fold in plan.folds]))
        compared = _above(self.origin, nll)
        theirs = None if groups is None else groups[rows]
        rarity = self._own_rarity(compared, plan)
        unseen, unsure = judged(self.conversion, self.by_group, compared, groups)
        if self.by_group is None:
            for draws, fold in plan.slices():
                own = self.conversion.own_probability(compared[:, fold.calibrated])
                unseen[draws, fold.calibrated] = own[draws]
        if rarity is not None:
            unseen = agreeing(unseen, rarity.p_value, rarity.smallest, rarity.rate)
        if len(plan.folds) == 1:
            unsure = None if unsure is None else unsure[:, rows]
            return self.quantified(unseen[:, rows], nll[:, rows], theirs, unsure)
        conversion = self.conversion.conversion
        fewest = min(len(fold.trained) for fold in plan.folds)
        known = [thinned(fold.trained, fewest) for fold in plan.folds]
        seen = [compared[draws][:, rows] for (draws, _), rows in zip(plan.slices(), known, strict=True)]
        among_seen = None
        if self.by_group is not None and groups is not None:
            members = [groups[trained] for trained in known]
            among_seen = GroupConversions.fit(conversion, seen, members, self.by_group.smallest)
        p, _ = judged(conversion.fit(np.concatenate(seen)), among_seen, compared, groups, rarity)
        for draws, fold in plan.slices():
            p[draws, fold.calibrated] = unseen[draws, fold.calibrated]
        kept = None if unsure is None else unsure[:, rows]
        found = self.quantified(p[:, rows], nll[:, rows], theirs, kept)
        return self._by_unseen_draws(found, (unseen, unsure), nll, plan, rows, groups) if remembered else found

    def alarms_on_unseen(self, threshold: float) -> Float[np.ndarray, " parts"]:
        """Of each fold, the share that the others would call anomalies, as of new examples; empty without folds.

        Each fold is scored by the draws that have not seen it, and judged by what the others were calibrated on. So it
        is what a stretch, or a run, would have come to had it not been there.

        Args:
            threshold: an anomaly has at least this mean probability.
        """
        reference = self.reference
        if not reference.unseen or len(reference.scores) < 2:
            return np.zeros(0)
        found = []
        for place, scores in enumerate(reference.scores):
            p = self.conversion.probability(np.broadcast_to(scores, (len(reference.part), len(scores))).copy())
            others = [one for one in range(len(reference.scores)) if one != place]
            rank = np.mean([reference.rank_in_part(one, scores) for one in others], axis=0)
            smallest = 1 / (len(others) * len(scores) + 1)
            p = agreeing(p[reference.part != place], rank, smallest, self.false_alarms)
            found.append(np.mean(p.mean(axis=0) >= threshold))
        return np.array(found)

    def _by_unseen_draws(
        self,
        found: Uncertainty,
        unseen: tuple[Float[np.ndarray, "draws examples"], Float[np.ndarray, "draws examples"] | None],
        nll: Float[np.ndarray, "draws examples"],
        plan: Plan,
        rows: Int[np.ndarray, " reference"],
        groups: Shaped[np.ndarray, " examples"] | None,
    ) -> Uncertainty:
        """Uncertainties of the reference examples, with what one draw can say by those that have not seen them."""
        values = {name: getattr(found, name).copy() for name in ("probability", "aleatoric", "total", "exceed")}
        for draws, fold in plan.slices():
            own, theirs = fold.calibrated, None if groups is None else groups[fold.calibrated]
            p, unsure = unseen
            kept = None if unsure is None else unsure[draws][:, own]
            by_own = self if self.origin is None else replace(self, origin=self.origin[draws])
            by_these = by_own.quantified(p[draws][:, own], nll[draws][:, own], theirs, kept)
            for name, all_values in values.items():
                all_values[np.searchsorted(rows, own)] = getattr(by_these, name)
        return replace(found, **values)

    def _among_all(
        self,
        rarity: Rarity,
        pooled: tuple[Float[np.ndarray, " examples"], float],
        groups: Shaped[np.ndarray, " examples"],
    ) -> Rarity:
        """P-values among the examples that probabilities are made of: all groups, where a group has none of its own."""
        own = np.isin(groups.astype(str), () if self.by_group is None else self.by_group.names)
        p_value, smallest = np.where(own, rarity.p_value, pooled[0]), np.where(own, rarity.smallest, pooled[1])
        return replace(rarity, p_value=p_value, smallest=smallest)

    def _own_rarity(self, compared: Float[np.ndarray, "draws examples"], plan: Plan) -> Rarity | None:
        """How rare the reference examples are, each among those of its fold; NaN for other rows."""
        if not self.reference.unseen:
            return None
        p_value = np.full(compared.shape[1], np.nan)
        for place, (draws, fold) in enumerate(plan.slices()):
            scores = mean_nll(compared[draws][:, fold.calibrated])
            p_value[fold.calibrated] = self.reference.rank_in_part(place, scores)
        return Rarity(p_value=p_value, smallest=1 / self.reference.scores.shape[1], rate=self.false_alarms)


def needed_groups(groups: Shaped[np.ndarray, " examples"] | None) -> Shaped[np.ndarray, " examples"]:
    """The groups, which a detector that judges by group cannot do without."""
    if groups is None:
        raise ConfigError(
            Message(
                "`smallest_group` is for examples with groups: pass `groups` to `fit`, or a table whose roles name the "
                "`group` column."
            )
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
            Message(
                "the average score of the examples that new ones are compared with lies above {level:.1%} of them: a "
                "few score far higher than the others. So only what scores above {called:.1%} of them is called an "
                'anomaly. Look at these few, or choose `level="mean_of_cdf"` in the conversion, which does not mind '
                "them.",
                level=level,
                called=(1 + level) / 2,
            ),
            CalibrationWarning,
            stacklevel=6,  # of `fit`
        )
