"""Stage 1, what comes in: checks, missing values and scaling of tables (N, D) and windows (N, L, K)."""

from indubio.data.checks import require_finite, require_numbers
from indubio.data.missing import Missing, filled, medians
from indubio.data.scaling import FittedMinMax, MinMax

__all__ = ["FittedMinMax", "MinMax", "Missing", "filled", "medians", "require_finite", "require_numbers"]
