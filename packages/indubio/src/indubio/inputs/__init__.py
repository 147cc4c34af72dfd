"""Stage 1, what comes in: tables (N, D), windows (N, L, K) and images (N, H, W, C), checked, filled in and scaled."""

from indubio.inputs.examples import Examples
from indubio.inputs.images import ImageFiles, Images
from indubio.inputs.numeric_rows import Rows
from indubio.inputs.preparation import Missing, Preparation, PreparationSettings, Unseen
from indubio.inputs.prepared import Prepared
from indubio.inputs.recordings import Long, Wide, array_windows, read_windows, stream_windows
from indubio.inputs.scaling import FittedScaling, MinMax, Robust, Scaling, ZScore
from indubio.inputs.schema import Column, Schema
from indubio.inputs.spectra import FittedSpectra, Spectra
from indubio.inputs.tables import Roles, Table, read_table, stream_tables
from indubio.inputs.windows import Windowing, Windows
from indubio.io.file_format import FileFormat

__all__ = [
    "SCALINGS",
    "Column",
    "Examples",
    "FileFormat",
    "FittedScaling",
    "FittedSpectra",
    "ImageFiles",
    "Images",
    "Long",
    "MinMax",
    "Missing",
    "Preparation",
    "PreparationSettings",
    "Prepared",
    "Robust",
    "Roles",
    "Rows",
    "Scaling",
    "Schema",
    "Spectra",
    "Table",
    "Unseen",
    "Wide",
    "Windowing",
    "Windows",
    "ZScore",
    "array_windows",
    "read_table",
    "read_windows",
    "stream_tables",
    "stream_windows",
]

SCALINGS: dict[str, type[Scaling]] = {"min_max": MinMax, "z_score": ZScore, "robust": Robust}
