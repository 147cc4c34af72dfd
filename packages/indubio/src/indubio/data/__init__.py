"""Examples and where they come from: tables (N, D), windows (N, L, K), images (N, H, W, C), from files or from memory.

examples            what all kinds answer: select, join, labels, groups, rows, names
tables, windows, images, numeric_rows       the kinds
recordings          sensors over time, cut into windows
reading             how a file is to be read; `labels` and `row_places` are what is kept beside the values
arrays, frames      what Python hands over
example_streams     examples that are larger than memory, block by block
schema              what an example looks like: columns, or shape and sensors
"""

from indubio.data.arrays import checked_array, examples_of
from indubio.data.checks import require_finite, require_numbers
from indubio.data.example_streams import ExampleStream, StreamBlock, drawn, mixed, named_errors
from indubio.data.examples import Examples
from indubio.data.frames import table_of_frame
from indubio.data.images import ImageFiles, Images, are_images
from indubio.data.known_labels import good_ones
from indubio.data.labels import is_named, label_texts
from indubio.data.numeric_rows import Rows
from indubio.data.pauses import longest_pauses, pause_notes
from indubio.data.reading import Reading, opened_for, reading_for
from indubio.data.recordings.cutting import Cutter, Samples, Tally
from indubio.data.recordings.filling import RowSampler
from indubio.data.recordings.layouts import LAYOUTS, Long, Wide
from indubio.data.recordings.resampling import GridSampler
from indubio.data.recordings.sampling import Piece
from indubio.data.recordings.window_stream import array_windows, read_windows, stream_windows
from indubio.data.schema import Column, Schema
from indubio.data.spoilt_numbers import spoilt_number
from indubio.data.tables import Roles, Table, read_table, stream_tables
from indubio.data.windows import TICKS, Windowing, WindowReport, Windows

__all__ = [
    "LAYOUTS",
    "TICKS",
    "Column",
    "Cutter",
    "ExampleStream",
    "Examples",
    "GridSampler",
    "ImageFiles",
    "Images",
    "Long",
    "Piece",
    "Reading",
    "Roles",
    "RowSampler",
    "Rows",
    "Samples",
    "Schema",
    "StreamBlock",
    "Table",
    "Tally",
    "Wide",
    "WindowReport",
    "Windowing",
    "Windows",
    "are_images",
    "array_windows",
    "checked_array",
    "drawn",
    "examples_of",
    "good_ones",
    "is_named",
    "label_texts",
    "longest_pauses",
    "mixed",
    "named_errors",
    "opened_for",
    "pause_notes",
    "read_table",
    "read_windows",
    "reading_for",
    "require_finite",
    "require_numbers",
    "spoilt_number",
    "stream_tables",
    "stream_windows",
    "table_of_frame",
]
