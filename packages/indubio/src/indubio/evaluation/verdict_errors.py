"""How wrong verdicts are, with and without referral, and truth by verdict."""

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
        return _ratio(self.wrong, self.verdicts)

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


@dataclass(frozen=True, kw_only=True)
class TruthByVerdict:
    """How many good examples and anomalies have which verdict.

    Args:
        good: good examples that pass as inliers, are called anomalies, and are referred.
        anomalies: the same of anomalies.
    """

    good: tuple[int, int, int]
    anomalies: tuple[int, int, int]

    @classmethod
    def of(
        cls,
        labels: Bool[np.ndarray, " examples"],
        predictions: Bool[np.ndarray, " examples"],
        referred: Bool[np.ndarray, " examples"],
    ) -> "TruthByVerdict":
        """Count them."""

        def counts(truth: Bool[np.ndarray, " examples"]) -> tuple[int, int, int]:
            kinds = (~predictions & ~referred, predictions & ~referred, referred)
            inliers, anomalies, unsaid = (int(np.count_nonzero(kind & truth)) for kind in kinds)
            return inliers, anomalies, unsaid

        return cls(good=counts(~labels), anomalies=counts(labels))

    @property
    def missed(self) -> int:
        """Anomalies that pass as inliers."""
        return self.anomalies[0]

    @property
    def false_alarms(self) -> int:
        """Good examples that are called anomalies."""
        return self.good[1]

    @property
    def false_alarms_in_1000(self) -> float:
        """False alarms among a thousand good examples; NaN where there are none."""
        return _ratio(1000 * self.false_alarms, sum(self.good))

    @property
    def precision(self) -> float:
        """The share of what is called an anomaly that is one; NaN where nothing is."""
        return _ratio(self.anomalies[1], self.good[1] + self.anomalies[1])

    @property
    def recall(self) -> float:
        """The share of the anomalies that are called so; NaN where there are none."""
        return _ratio(self.anomalies[1], sum(self.anomalies))

    @property
    def found_or_referred(self) -> float:
        """The share of the anomalies that are called so or referred; NaN where there are none."""
        return _ratio(self.anomalies[1] + self.anomalies[2], sum(self.anomalies))


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
