"""Bytes in and out: files, folders and addresses as tables, and results as files that are whole or not there."""

from indubio.io.arrow_columns import Place, first_null, is_number, is_text, numbers, plain, times
from indubio.io.file_format import UNSAID, FileFormat
from indubio.io.json_format import json_text
from indubio.io.number_styles import NumberStyle, way_out
from indubio.io.remote import RemotePath, is_remote, local_path
from indubio.io.sinks import FORMATS, Format, Sink, format_of, sink
from indubio.io.sniffing import dict_rows
from indubio.io.source_base import COMPRESSIONS, ending, full_ending
from indubio.io.sources import (
    ENDINGS,
    ROWS_AT_ONCE,
    SURE_ENDINGS,
    FileSource,
    ParquetSource,
    Source,
    files_of,
    known_as,
    natural_order,
    opened,
)
from indubio.io.toml_file import read_toml
from indubio.io.whole_files import replacing, sync_folder, whole_file

__all__ = [
    "COMPRESSIONS",
    "ENDINGS",
    "FORMATS",
    "ROWS_AT_ONCE",
    "SURE_ENDINGS",
    "UNSAID",
    "FileFormat",
    "FileSource",
    "Format",
    "NumberStyle",
    "ParquetSource",
    "Place",
    "RemotePath",
    "Sink",
    "Source",
    "dict_rows",
    "ending",
    "files_of",
    "first_null",
    "format_of",
    "full_ending",
    "is_number",
    "is_remote",
    "is_text",
    "json_text",
    "known_as",
    "local_path",
    "natural_order",
    "numbers",
    "opened",
    "plain",
    "read_toml",
    "replacing",
    "sink",
    "sync_folder",
    "times",
    "way_out",
    "whole_file",
]
