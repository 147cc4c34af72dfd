"""Stage 6, the verdict: INLIER, ANOMALY, or REFER to a person, and why.

A referral rule is a small frozen dataclass; all that it learns is one threshold, so it can be changed without training
again. `REFERRALS` names every rule; a new one is one file here and one line in it.
"""

from indubio.decision.at_most import AtMost
from indubio.decision.budget import Budget
from indubio.decision.cost import Cost
from indubio.decision.exceed import Exceed
from indubio.decision.no_referral import NoReferral
from indubio.decision.referral import (
    EVEN,
    Evidence,
    Labelled,
    LimitedReviews,
    Referral,
    Uncertainties,
    uncertainty_values,
)
from indubio.decision.rejex import RejEx
from indubio.decision.target_risk import TargetRisk
from indubio.decision.threshold import REFER_ALL, UncertaintyThreshold
from indubio.decision.verdict import ANOMALY_THRESHOLD, IN_SHORT, Reason, Verdict, judged, predictions
from indubio.families import Family

REFERRALS = Family[Referral](
    "indubio.referrals",
    Referral,
    {
        "none": NoReferral,
        "threshold": UncertaintyThreshold,
        "budget": Budget,
        "at_most": AtMost,
        "cost": Cost,
        "target_risk": TargetRisk,
        "exceed": Exceed,
        "rejex": RejEx,
    },
)
__all__ = [
    "ANOMALY_THRESHOLD",
    "EVEN",
    "IN_SHORT",
    "REFERRALS",
    "REFER_ALL",
    "AtMost",
    "Budget",
    "Cost",
    "Evidence",
    "Exceed",
    "Labelled",
    "LimitedReviews",
    "NoReferral",
    "Reason",
    "Referral",
    "RejEx",
    "TargetRisk",
    "Uncertainties",
    "UncertaintyThreshold",
    "Verdict",
    "judged",
    "predictions",
    "uncertainty_values",
]
