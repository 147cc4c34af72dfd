"""How wrong verdicts are, with and without referral."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool


@dataclass(frozen=True, kw_only=True)
class VerdictErrors:
    """How wrong some verdicts are.

    Args:
        verdicts: how many there are.
        missed: anomalies that pass as normal.
        false_alarms: normal examples that are called anomalies.
    """

    verdicts: int
    missed: int
    false_alarms: int

    @property
    def wrong(self) -> int:
        """Missed anomalies and false alarms together."""
        return self.missed + self.false_alarms

    @property
    def share(self) -> float:
        """The share of the verdicts that is wrong; NaN where there are none."""
        return self.wrong / self.verdicts if self.verdicts else float("nan")

    @classmethod
    def of(
        cls,
        labels: Bool[np.ndarray, " examples"],
        predictions: Bool[np.ndarray, " examples"],
        accepted: Bool[np.ndarray, " examples"] | None = None,
    ) -> "VerdictErrors":
        """Count the errors of the verdicts that are accepted; None accepts all."""
        kept = np.ones(len(labels), dtype=bool) if accepted is None else accepted
        return cls(
            verdicts=int(np.count_nonzero(kept)),
            missed=int(np.count_nonzero(kept & labels & ~predictions)),
            false_alarms=int(np.count_nonzero(kept & ~labels & predictions)),
        )
