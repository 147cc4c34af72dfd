"""Is the detector right, and does its uncertainty know when it is not? On anybody's scores: plain arrays in.

```
evaluate                    everything below in one call
compare                     the same of several detectors, for one table and one plot
accuracy_rejection_curve    a metric of what is retained at every threshold; W, Base, Gain
area_under_risk_coverage    the error rate of the most certain, over all coverages
error_detection_auroc       does uncertainty rank errors above correct predictions
auroc, METRICS              without rejection
cost_per_example            what verdicts and referrals have cost
average_ranks               several detectors over many sets; with critical_difference, signed_rank_p and holm
```

Labels and predictions: 1 is an anomaly. High scores mean anomalous, high uncertainty means unsure.
"""

from indubio.evaluation.argument_checks import checked_binary
from indubio.evaluation.comparison import Comparison, compare
from indubio.evaluation.metrics import METRICS, Confusion, auroc, cost_per_example, error_detection_auroc
from indubio.evaluation.rejection import CURVE_METRICS, RATE_TOLERANCE, RejectionCurve, accuracy_rejection_curve
from indubio.evaluation.risk_coverage import area_under_risk_coverage
from indubio.evaluation.significance import average_ranks, critical_difference, holm, signed_rank_p
from indubio.evaluation.summary import Evaluation, evaluate
from indubio.evaluation.verdict_errors import TruthByVerdict, VerdictErrors

__all__ = [
    "CURVE_METRICS",
    "METRICS",
    "RATE_TOLERANCE",
    "Comparison",
    "Confusion",
    "Evaluation",
    "RejectionCurve",
    "TruthByVerdict",
    "VerdictErrors",
    "accuracy_rejection_curve",
    "area_under_risk_coverage",
    "auroc",
    "average_ranks",
    "checked_binary",
    "compare",
    "cost_per_example",
    "critical_difference",
    "error_detection_auroc",
    "evaluate",
    "holm",
    "signed_rank_p",
]
