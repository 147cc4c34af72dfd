"""What people's labels do to a model: two thirds teach it, and old and new are compared on the third that never does.

The one policy of `indubio learn`, of Python and of the server. Which examples are held out is decided by a digest of
each, so that an example that taught nothing once never teaches, however many come after it.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Shaped

from indubio.chain import SPREAD, ChainEstimator
from indubio.data import Examples, Schema
from indubio.decision import Verdict, uncertainty_values
from indubio.detector.suspicious import row_digest
from indubio.evaluation import evaluate

HELD_OUT = 3  # every third example
D = TypeVar("D", bound=ChainEstimator)
Measured = dict[str, float | None]


def held_out(digest: str) -> bool:
    """Whether the example with this digest, in hexadecimal digits, never teaches."""
    return int(digest[:8], 16) % HELD_OUT == 0


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledExamples:
    """Examples that people decided.

    Args:
        data: the examples.
        anomaly: what people say.
        held_out: never to be learned from.
        as_they_come: chosen by chance and by nothing that is known of them: among these, anomalies and referrals are as
            frequent as among all.
        groups: of each, where the model is calibrated by group.
    """

    data: Examples
    anomaly: Bool[np.ndarray, " examples"]
    held_out: Bool[np.ndarray, " examples"]
    as_they_come: Bool[np.ndarray, " examples"]
    groups: Shaped[np.ndarray, " examples"]

    @classmethod
    def of(cls, data: Examples, schema: Schema) -> "LabelledExamples":
        """Of examples with labels, which are held out by their values."""
        assert data.labels is not None
        values = data.rows(schema).values
        groups = np.full(len(data), "", dtype=object) if data.groups is None else data.groups
        return cls(
            data=data,
            anomaly=data.labels,
            held_out=np.array([held_out(row_digest(row)) for row in values]),
            as_they_come=np.zeros(len(data), dtype=bool),
            groups=groups,
        )

    def __len__(self) -> int:
        return len(self.anomaly)

    def teach(self, detector: D, *, recent: Examples | None = None, spread: float = SPREAD) -> D:
        """The detector corrected by the labels that are not held out.

        Args:
            detector: stays as it is.
            recent: examples as they come; None takes the labelled ones that came so.
            spread: how far labels may move the log-odds.
        """
        teaching = ~self.held_out
        coming, groups = recent, self.groups[self.as_they_come]
        if coming is None:
            coming = self.data.select(self.as_they_come)
        elif coming.groups is not None:
            groups = coming.groups
        else:
            groups = np.full(len(coming), "", dtype=object)
        return detector.learn(
            self.data.select(teaching),
            self.anomaly[teaching],
            recent=coming,
            groups=np.concatenate([self.groups[teaching], groups]),
            spread=spread,
        )

    def compared(
        self, present: ChainEstimator, new: ChainEstimator, which: Bool[np.ndarray, " examples"]
    ) -> dict[str, Any]:
        """Measure two models on some of these examples, the same for both."""
        if not which.any():
            return {"cases": 0, "anomalies": 0, "present": None, "new": None}
        return {
            "cases": int(which.sum()),
            "anomalies": int(self.anomaly[which].sum()),
            "present": self._measured(present, which),
            "new": self._measured(new, which),
        }

    def _measured(self, detector: ChainEstimator, which: Bool[np.ndarray, " examples"]) -> Measured:
        """What a model does with some of the examples; None for what so few cannot show."""
        anomaly = self.anomaly[which]
        assessment = detector.assess(self.data.select(which), groups=self.groups[which])
        referred = assessment.verdict == Verdict.REFER
        wrong = assessment.prediction != anomaly
        numbers = {
            "referred": float(referred.mean()),
            "wrong": float(wrong.mean()),
            "wrong_accepted": float((wrong & ~referred).mean()),
            "referral_threshold": float(detector.referral_threshold_),
        }
        if anomaly.any() and not anomaly.all():
            by = uncertainty_values(assessment.to_dict(), detector.settings_in_use().referral.by)
            ranking = assessment.nll if detector.correction_ is None else assessment.probability
            curves = evaluate(anomaly, assessment.prediction, by, scores=ranking)
            numbers |= {
                "gss": float(curves.metrics["gss"]),
                "auroc": float(curves.metrics["auroc"]),
                "w": curves.gss.weighted_average,
                "gain": curves.gss.gain,
            }
        return {name: value if np.isfinite(value) else None for name, value in numbers.items()}
