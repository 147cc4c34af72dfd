r"""Conformal p-values: how rare a score this high is among good examples, with a promise.

p(x) = (1 + #{i: s(i) >= s(x)}) / (n + 1),   s: mean NLL over the draws, i: the n calibration examples

If x is exchangeable with calibration examples that no draw was trained on, then P(p <= a) <= a for every a, whatever
the network: raising an alarm at p <= 0.05 raises it for at most 5 % of good examples, on average over calibration sets
(Vovk et al. 2005; Bates et al. 2023). Scores that tie count as "at least as high", which errs on the safe side. The
smallest p there can be is 1 / (n + 1). With cross-fitted draws x is compared with fold k by the draws that did not see
fold k, and what is proven is a bound above 2a, 2a + 2 (1 - a) (K - 1) / (n + K) for K folds (see
`calibration.cross_fit`). Against training scores nothing is proven, and no p-value is given.

With groups (machines, products) an example is compared with its own group alone, so that the promise holds within every
group (Mondrian: Vovk et al. 2005) and not only on average over them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from indubio.conformal.reference_scores import Reference
from indubio.texts import english

FEW = 64  # examples; for fewer, one call that keeps every partial sum is quicker than a loop over the draws
NOT_CALIBRATED = english("no p-value: nothing was calibrated for group {group}")
NO_REFERENCE = english(
    "There is no p-value: the model was saved by an older version, without the scores to compare with."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Conformal:
    """The p-values of some examples.

    Args:
        part_nll: mean score over each part of the draws; None where the model has no reference scores.
        p_value: NaN where there is none.
        smallest: the smallest that each could be.
        notes: per example, why it has none where others have, else ""; None where there is nothing to say.
        promise: what they promise, in words.
        pooled: p-values among all groups together, and the smallest of these; None without groups.
    """

    part_nll: Float[np.ndarray, "parts examples"] | None
    p_value: Float[np.ndarray, " examples"]
    smallest: Float[np.ndarray, " examples"]
    notes: Shaped[np.ndarray, " examples"] | None
    promise: str
    pooled: tuple[Float[np.ndarray, " examples"], float] | None = None

    @classmethod
    def joined(cls, blocks: Sequence["Conformal"]) -> "Conformal":
        """Blocks of examples as one; the pooled ones are no longer needed."""
        notes = [block.notes for block in blocks if block.notes is not None]
        parts = [block.part_nll for block in blocks if block.part_nll is not None]
        return cls(
            part_nll=np.concatenate(parts, axis=1) if parts else None,
            p_value=np.concatenate([block.p_value for block in blocks]),
            smallest=np.concatenate([block.smallest for block in blocks]),
            notes=np.concatenate(notes) if notes else None,
            promise=blocks[0].promise,
        )


def conformal_of(
    reference: Reference | None,
    nll: Float[np.ndarray, "draws examples"] | None,
    groups: Shaped[np.ndarray, " examples"] | None = None,
    *,
    part_nll: Float[np.ndarray, "parts examples"] | None = None,
    examples: int = 0,
) -> Conformal:
    """P-values and what they promise.

    Args:
        reference: None where a model has none, since an older version saved it.
        nll: scores under every draw; None where their means are known.
        groups: names of the examples' groups, where the reference has groups.
        part_nll: what `Reference.part_means` makes of the scores.
        examples: how many, where the scores are not given.
    """
    if reference is None:
        none = np.full(examples if nll is None else nll.shape[1], np.nan)
        return Conformal(part_nll=None, p_value=none, smallest=none, notes=None, promise=NO_REFERENCE)
    if nll is not None:
        part_nll = reference.part_means(nll)
    assert part_nll is not None
    notes = None
    if reference.unseen and reference.groups is not None and groups is not None:
        unknown = ~np.isin(groups.astype(str), reference.groups)
        notes = np.array(
            [
                english(NOT_CALIBRATED, group=one) if new else ""
                for one, new in zip(groups.astype(str), unknown, strict=True)
            ],
            dtype=object,
        )
    p_value, smallest = reference.p_values(part_nll, groups)
    return Conformal(
        part_nll=part_nll,
        p_value=p_value,
        smallest=smallest,
        notes=notes,
        promise=reference.promise,
        pooled=None if reference.groups is None or not reference.unseen else reference.pooled_p_values(part_nll),
    )
