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

from indubio.judging.reference_scores import Reference


@dataclass(frozen=True, kw_only=True, eq=False)
class Conformal:
    """The p-values of some examples.

    Args:
        part_nll: mean score over each part of the draws.
        p_value: NaN where there is none.
        smallest: the smallest that each could be.
        pooled: p-values among all groups together, and the smallest of these; None without groups.
    """

    part_nll: Float[np.ndarray, "parts examples"]
    p_value: Float[np.ndarray, " examples"]
    smallest: Float[np.ndarray, " examples"]
    pooled: tuple[Float[np.ndarray, " examples"], float] | None = None

    @classmethod
    def of(
        cls,
        reference: Reference,
        part_nll: Float[np.ndarray, "parts examples"],
        groups: Shaped[np.ndarray, " examples"] | None = None,
    ) -> "Conformal":
        """The p-values of examples with these scores.

        Args:
            reference: what they are compared with.
            part_nll: what `Reference.part_means` makes of the scores.
            groups: names of the examples' groups, where the reference has groups.
        """
        p_value, smallest = reference.p_values(part_nll, groups)
        pooled = None if reference.groups is None or not reference.unseen else reference.pooled_p_values(part_nll)
        return cls(part_nll=part_nll, p_value=p_value, smallest=smallest, pooled=pooled)

    @classmethod
    def joined(cls, blocks: Sequence["Conformal"]) -> "Conformal":
        """Blocks of examples as one; the pooled ones are no longer needed."""
        return cls(
            part_nll=np.concatenate([block.part_nll for block in blocks], axis=1),
            p_value=np.concatenate([block.p_value for block in blocks]),
            smallest=np.concatenate([block.smallest for block in blocks]),
        )
