"""Stage 1, what comes in: tables (N, D) and windows (N, L, K), checked, filled in and scaled."""

from indubio.data.intake import Intake, Missing, Prepared, Rows, Unseen
from indubio.data.scaling import FittedMinMax, MinMax
from indubio.data.schema import Column, Schema
from indubio.data.tables import Roles, Table, as_arrow

__all__ = [
    "Column",
    "FittedMinMax",
    "Intake",
    "MinMax",
    "Missing",
    "Prepared",
    "Roles",
    "Rows",
    "Schema",
    "Table",
    "Unseen",
    "as_arrow",
]
