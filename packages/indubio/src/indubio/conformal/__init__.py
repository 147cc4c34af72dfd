"""Conformal p-values: how rare a score is among good examples, with a promise; selection at a false-discovery rate."""

from indubio.conformal.p_values import Conformal
from indubio.conformal.reference_scores import Reference
from indubio.conformal.selection import alarms, fewest_selected, select_anomalies

__all__ = ["Conformal", "Reference", "alarms", "fewest_selected", "select_anomalies"]
