"""JudgesScores: what a score means, learned from the scores of the reference examples.

nll (M, N) -> CDFs, of the example's own group where it has one -> what labels taught -> uncertainties
"""

import dataclasses
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from indubio.assessment import Scored
from indubio.calibration import Plan, TrainScores
from indubio.conformal import Reference
from indubio.decision import Referral
from indubio.errors import CalibrationWarning, ConfigError
from indubio.inputs import Prepared
from indubio.pipeline.taking import TakesExamples
from indubio.probability import Conversion, Correction, FittedConversion, GroupConversions
from indubio.probability.scaling import FULL_LEVEL
from indubio.settings import Settings
from indubio.uncertainty import Uncertainty, exceed, mean_nll, quantify

HIGH_LEVEL = 0.95  # of the CDF at the mean: 0.63 for exponential scores, 0.91 at most where it was seen to serve well


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoringSettings(Settings):
    """What every scoring model is set to, the defaults put in, and checked."""

    conversion: Conversion
    referral: Referral


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """What is known of examples beside their scores.

    Args:
        log_odds: how far labels move their log-odds; None where nothing was learned from labels.
        groups: their groups; None without.
    """

    log_odds: Float[np.ndarray, " examples"] | None
    groups: Shaped[np.ndarray, " examples"] | None

    def part(self, start: int, count: int) -> "Known":
        """The same of so many examples from there on."""
        block = slice(start, start + count)
        return Known(
            log_odds=None if self.log_odds is None else self.log_odds[block],
            groups=None if self.groups is None else self.groups[block],
        )


class JudgesScores(TakesExamples, ABC):
    """Base of the detectors: from scores to probabilities and uncertainties."""

    smallest_group: int | None

    conversion_: FittedConversion
    group_conversions_: GroupConversions  # only with `smallest_group`
    correction_: Correction  # only where something was learned from labels
    reference_: Reference | None
    reference_uncertainty_: Uncertainty
    referral_threshold_: float
    largest_reference_nll_: float
    n_reference_: int

    @abstractmethod
    def settings_in_use(self) -> ScoringSettings:
        """The settings with the defaults put in, checked."""

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
        self.__dict__.pop("correction_", None)
        self.__dict__.pop("group_conversions_", None)
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
        _warn_of_high_level(self.conversion_)
        if self.smallest_group is not None:
            self._refuse_ranks(settings.referral)
            members = [self._needed(groups)[part.calibrated] for part in plan.parts]
            self.group_conversions_ = GroupConversions.fit(settings.conversion, own, members, self.smallest_group)
        self.reference_uncertainty_ = self._reference_uncertainty(nll, plan, settings.conversion, groups)
        self.referral_threshold_ = settings.referral.fit(self.reference_uncertainty_)

    def _reference_uncertainty(
        self,
        nll: Float[np.ndarray, "draws examples"],
        plan: Plan,
        conversion: Conversion,
        groups: Shaped[np.ndarray, " examples"] | None,
    ) -> Uncertainty:
        """Uncertainties of the reference examples, as new examples would have them: under all draws.

        In a plan of several parts most draws have seen a reference example. To those it is what it is among the rows
        they have seen: their probability for it is taken from the CDF of these, so that a low score for having been
        seen does not pass as certainty. Nothing is promised by it; it is what referral budgets are fitted on.
        """
        rows = np.sort(np.concatenate([part.calibrated for part in plan.parts]))
        compared = self._above_origin(nll)
        theirs = None if groups is None else groups[rows]
        unseen = self._probability(compared, groups)
        if len(plan.parts) == 1:
            return self._quantified(unseen[:, rows], nll[:, rows], theirs)
        seen = [compared[draws][:, part.trained] for draws, part in plan.slices()]
        p = conversion.fit(np.concatenate(seen)).probability(compared)
        if self.smallest_group is not None and groups is not None:
            members = [groups[part.trained] for part in plan.parts]
            among_seen = GroupConversions.fit(conversion, seen, members, self.smallest_group)
            p = among_seen.put_into(p, compared, groups)
        for draws, part in plan.slices():
            p[draws, part.calibrated] = unseen[draws, part.calibrated]
        return self._quantified(p[:, rows], nll[:, rows], theirs)

    def _probability(
        self, compared: Float[np.ndarray, "draws examples"], groups: Shaped[np.ndarray, " examples"] | None
    ) -> Float[np.ndarray, "draws examples"]:
        """What the CDFs say, of their own group where it has one."""
        p = self.conversion_.probability(compared)
        by_group = getattr(self, "group_conversions_", None)
        return p if by_group is None else by_group.put_into(p, compared, groups)

    def _needed(self, groups: Shaped[np.ndarray, " examples"] | None) -> Shaped[np.ndarray, " examples"]:
        if groups is None:
            raise ConfigError(
                "`smallest_group` is for examples with groups: pass `groups` to `fit`, or a table whose roles name the "
                "`group` column."
            )
        return groups

    def _refuse_ranks(self, rule: Referral) -> None:
        if rule.NEEDS_RANKS and self.smallest_group is not None:
            raise ConfigError(
                f"{type(rule).__name__} ranks an example among all groups, and this detector judges by group. Choose "
                "another rule, or leave out `smallest_group`."
            )

    def _quantified(
        self,
        p: Float[np.ndarray, "draws examples"],
        nll: Float[np.ndarray, "draws examples"],
        groups: Shaped[np.ndarray, " examples"] | None = None,
    ) -> Uncertainty:
        compared = self._above_origin(nll)
        found = quantify(p, compared, self.largest_reference_nll_, self.n_reference_)
        by_group = getattr(self, "group_conversions_", None)
        if by_group is None or groups is None or self.reference_ is None:
            return found
        names, compared_with, doubt = groups.astype(str), self.reference_.by_group, found.exceed.copy()
        for name in by_group.names:  # U_exceed is the one that looks at the reference examples themselves
            members = names == name
            doubt[members] = exceed(found.probability[members], mean_nll(compared[:, members]), *compared_with[name])
        return dataclasses.replace(found, exceed=doubt)

    def _known(self, prepared: Prepared, groups: Shaped[np.ndarray, " examples"] | None) -> Known:
        correction = getattr(self, "correction_", None)
        moved = None if correction is None else correction.log_odds(self._unit_values(prepared))
        return Known(log_odds=moved, groups=groups)

    def _unit_values(self, prepared: Prepared) -> Float[np.ndarray, "examples ..."]:
        """The examples in units of the training range."""
        return prepared.values

    def _scored(self, nll: Float[np.ndarray, "draws examples"], known: Known) -> Scored:
        compared = self._above_origin(nll)
        p = self._probability(compared, known.groups)
        if known.log_odds is not None:
            p = self.correction_.corrected(p, known.log_odds)
        return Scored(
            nll=mean_nll(nll),
            part_nll=None if self.reference_ is None else self.reference_.part_means(compared),
            uncertainty=self._quantified(p, nll, known.groups),
            notes=self._group_notes(known.groups),
        )

    def _group_notes(self, groups: Shaped[np.ndarray, " examples"] | None) -> Shaped[np.ndarray, " examples"] | None:
        by_group = getattr(self, "group_conversions_", None)
        return None if by_group is None or groups is None else by_group.notes(groups)


def _warn_of_high_level(fitted: FittedConversion) -> None:
    """Tell of reference examples that score so high that they alone make the average.

    The customised scaling gives no probability up to the average score: one score of a thousand times the others moves
    it beyond nearly all of them, and then hardly anything is ever called an anomaly.
    """
    if not fitted.conversion.scaled:
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


def joined_scores(blocks: Sequence[Scored]) -> Scored:
    """Blocks of examples as one."""
    if len(blocks) == 1:
        return blocks[0]
    names = [field.name for field in dataclasses.fields(Uncertainty)]
    parts = [block.part_nll for block in blocks if block.part_nll is not None]
    notes = [block.notes for block in blocks if block.notes is not None]
    joined = {name: np.concatenate([getattr(block.uncertainty, name) for block in blocks]) for name in names}
    return Scored(
        nll=np.concatenate([block.nll for block in blocks]),
        part_nll=np.concatenate(parts, axis=1) if parts else None,
        uncertainty=Uncertainty(**joined),
        notes=np.concatenate(notes) if notes else None,
    )
