"""Stage 1, what comes in: tables (N, D) and windows (N, L, K), checked, filled in and scaled."""

from indubio.inputs.preparation import Intake, Missing, Prepared, Rows, Unseen
from indubio.inputs.recordings import Long, Wide, read_windows, stream_windows
from indubio.inputs.scaling import FittedMinMax, MinMax
from indubio.inputs.schema import Column, Schema
from indubio.inputs.spectra import FittedSpectra, Spectra
from indubio.inputs.tables import Roles, Table, read_table, stream_tables
from indubio.inputs.windows import Windowing, Windows

__all__ = [
    "Column",
    "FittedMinMax",
    "FittedSpectra",
    "Intake",
    "Long",
    "MinMax",
    "Missing",
    "Prepared",
    "Roles",
    "Rows",
    "Schema",
    "Spectra",
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
