"""The uncertainties of the reference examples, in a size that does not grow with them.

`Detector.refer_by` fits a rule on them. Of many examples some are kept, evenly spaced by their probability: a budget is
then kept to within a fraction of a percent of the examples. The threshold of the rule that a model was saved with is
stored by itself.
"""

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float

from indubio.judging import Uncertainty

MOST = 4000  # examples


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptUncertainty:
    """The fields of `Uncertainty` that every example has, of the examples that are kept."""

    probability: Float[np.ndarray, " kept"]
    epistemic: Float[np.ndarray, " kept"]
    aleatoric: Float[np.ndarray, " kept"]
    total: Float[np.ndarray, " kept"]
    exceed: Float[np.ndarray, " kept"]
    var_nll: Float[np.ndarray, " kept"]

    @classmethod
    def of(cls, known: Uncertainty) -> "KeptUncertainty":
        """All examples, or evenly spaced ones of them."""
        count, chosen = len(known.total), np.arange(len(known.total))
        if count > MOST:
            places = (np.arange(MOST) * 2 + 1) * count // (2 * MOST)
            chosen = np.argsort(known.probability, kind="stable")[places]
        return cls(**{name: getattr(known, name)[chosen] for name in NAMES})

    @property
    def uncertainty(self) -> Uncertainty:
        """What a referral rule is fitted on."""
        return Uncertainty(**{name: getattr(self, name) for name in NAMES})


NAMES = tuple(field.name for field in fields(KeptUncertainty))
