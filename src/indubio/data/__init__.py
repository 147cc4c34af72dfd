"""Stage 1, what comes in: tables (N, D) and windows (N, L, K), checked, filled in and scaled."""

from indubio.data.intake import Intake, Missing, Prepared, Rows, Unseen
from indubio.data.recordings import Long, Wide, read_windows, stream_windows
from indubio.data.scaling import FittedMinMax, MinMax
from indubio.data.schema import Column, Schema
from indubio.data.tables import Roles, Table, read_table, stream_tables
from indubio.data.windows import Windowing, Windows

__all__ = [
    "Column",
    "FittedMinMax",
    "Intake",
    "Long",
    "MinMax",
    "Missing",
    "Prepared",
    "Roles",
    "Rows",
    "Schema",
    "Table",
    "Unseen",
    "Wide",
    "Windowing",
    "Windows",
    "read_table",
    "read_windows",
    "stream_tables",
    "stream_windows",
]
