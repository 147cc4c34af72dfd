"""Where tables and recordings come from: text, Parquet and spreadsheet files, many or a folder, and tables in memory.

Files are read batch by batch, and only the columns that are asked for. They may be remote: see `io.remote`. What the
columns mean is not known here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from indubio.errors import DataError
from indubio.io.csv_files import TEXT_ENDINGS, CsvSource
from indubio.io.excel_files import EXCEL_ENDINGS, ExcelSource
from indubio.io.file_format import UNSAID, FileFormat
from indubio.io.parquet_files import ParquetSource
from indubio.io.remote import RemotePath, is_remote, local_path
from indubio.io.source_base import COMPRESSIONS, ROWS_AT_ONCE, FileSource, Source, ending
from indubio.texts import english

__all__ = [
    "ENDINGS",
    "ROWS_AT_ONCE",
    "SURE_ENDINGS",
    "CsvSource",
    "ExcelSource",
    "FileSource",
    "OpenedFiles",
    "ParquetSource",
    "Source",
    "TableSource",
    "files_of",
    "known_as",
    "natural_order",
    "opened",
]

_COMPRESSED = tuple(text + how for text in TEXT_ENDINGS for how in COMPRESSIONS)
ENDINGS = (*TEXT_ENDINGS, ".parquet", *EXCEL_ENDINGS, *_COMPRESSED)
# What in a folder is a table only if there is no other: a .txt may be a note, a spreadsheet a summary.
PERHAPS = (".txt", ".tsv", *EXCEL_ENDINGS, *(one for one in _COMPRESSED if not one.startswith(".csv")))
SURE_ENDINGS = tuple(one for one in ENDINGS if one not in PERHAPS)


_KNOWN_AS: dict[str, str] = {}  # files of ours, by the name that people know their content by


@contextmanager
def known_as(path: Path, name: str) -> Iterator[None]:
    """For as long as the block runs, messages call this file so: people never heard of a temporary one."""
    _KNOWN_AS[str(path)] = name
    try:
        yield
    finally:
        del _KNOWN_AS[str(path)]


class OpenedFiles(list[Source]):
    """What a source names, opened once. It is a source itself, so that it can be read again as it was opened.

    Args:
        files: that were opened.
        called: the source, as it was named.
    """

    def __init__(self, files: Sequence[Source], called: str) -> None:
        super().__init__(files)
        self._called = called

    def __str__(self) -> str:
        return self._called


@dataclass(frozen=True, eq=False)
class TableSource(Source):
    """An Arrow table in memory."""

    table: pa.Table

    def _read_schema(self) -> pa.Schema:
        return self.table.schema

    def batches(self, types: Mapping[str, pa.DataType | None]) -> Iterator[pa.RecordBatch]:
        """The columns that are named."""
        yield from self.table.select(list(types)).to_batches(max_chunksize=ROWS_AT_ONCE)


def opened(source: Any, file_format: FileFormat | None = None) -> OpenedFiles:
    """What a source names: a path, a folder, a pattern such as "runs/*.csv", several paths, or a table in memory.

    Paths may be URLs that fsspec knows, such as s3://bucket/runs. What was opened already is taken as it is.

    Args:
        source: what to read.
        file_format: how files are read; None finds it out for each.
    """
    if isinstance(source, OpenedFiles):
        return source
    if isinstance(source, Sequence) and source and all(isinstance(item, Source) for item in source):
        return OpenedFiles(source, ", ".join(file.name for file in source))
    if isinstance(source, str | Path):
        paths = files_of(source, ENDINGS, alike=True)
    elif isinstance(source, Sequence) and source and all(isinstance(item, str | Path) for item in source):
        paths = [path for item in source for path in files_of(item, ENDINGS, alike=True)]
    else:
        return OpenedFiles([TableSource("the table", None, _as_table(source))], "the table")
    unique = len({path.name for path in paths}) == len(paths)
    files = [_file(path, path.name if unique else str(path), file_format or UNSAID) for path in paths]
    return OpenedFiles(files, _KNOWN_AS.get(str(source), str(source)))


def _file(path: Path | RemotePath, label: str, wanted: FileFormat) -> FileSource:
    kind, compression = ending(path.name)
    name = _KNOWN_AS.get(str(path), str(path))
    if kind in TEXT_ENDINGS:
        return CsvSource(name, label, path, wanted)
    if kind == ".parquet" and compression is None:
        return ParquetSource(name, label, path)
    if kind in EXCEL_ENDINGS and compression is None:
        return ExcelSource(name, label, path, wanted)
    raise DataError(
        english(
            "{file}: unknown file type {kind!r}. Known are {known}, and text with {compressions} behind it.",
            file=path,
            kind=path.suffix,
            known=", ".join(one for one in ENDINGS if one not in _COMPRESSED),
            compressions=", ".join(COMPRESSIONS),
        )
    )


def files_of(
    source: str | Path, suffixes: Sequence[str], *, called: str = "recordings", alike: bool = False
) -> Sequence[Path | RemotePath]:
    """The files that a path, folder or pattern names, in their natural order.

    Args:
        source: also a URL that fsspec knows.
        suffixes: of the files that are meant in a folder.
        called: what they are, for messages.
        alike: refuse a folder with files of several of these suffixes.
    """
    if is_remote(source):
        remote = RemotePath(str(source))
        there = remote.found()
        return (
            there if [one.url for one in there] == [remote.url] else _meant(there, str(source), suffixes, called, alike)
        )
    path = local_path(source)
    if path.is_dir():
        return _meant(list(path.iterdir()), str(path), suffixes, called, alike)
    if path.is_file():
        return [path]
    if re.search(r"[*?\[]", str(path)):
        root = Path(path.anchor)
        found = [item for item in root.glob(str(path.relative_to(root))) if item.is_file()]
        if not found:
            raise DataError(f"{source}: no file matches this pattern.")
        return sorted(found, key=natural_order)
    raise DataError(english("{file}: no such file or folder.", file=path))


def _meant(
    paths: Sequence[Path | RemotePath], folder: str, suffixes: Sequence[str], called: str, alike: bool
) -> Sequence[Path | RemotePath]:
    """Those of a folder that are meant by it, in their natural order."""
    shown = [item for item in paths if not item.name.startswith(".")]
    # A folder of .csv files may have notes beside them: what is only perhaps a table is read where nothing else is.
    sure = [item for item in shown if _ends(item, [one for one in suffixes if one not in PERHAPS])]
    found = sure or [item for item in shown if _ends(item, suffixes)]
    kinds = sorted({_ends(item, suffixes) or "" for item in found})
    if alike and len(kinds) > 1:
        raise DataError(f'{folder}: holds {" and ".join(kinds)} files. Choose with a pattern: "{folder}/*{kinds[0]}".')
    if not found:
        known = [one for one in suffixes if one.count(".") == 1]
        raise DataError(f"{folder}: holds no {called} ({', '.join(known)}).")
    return sorted(found, key=natural_order)


def _ends(path: Path | RemotePath, suffixes: Sequence[str]) -> str | None:
    """The longest of the endings that it has."""
    return max((one for one in suffixes if path.name.lower().endswith(one)), key=len, default=None)


def natural_order(name: str | Path | RemotePath) -> list[str | int]:
    """A key that sorts run2 before run10."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"(\d+)", str(name)))]


def _as_table(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if type(frame).__module__.split(".")[0] == "pandas":
        table = pa.Table.from_pandas(frame)  # a named index is a column like the others, a nameless one is none
        return table.select([name for name in table.column_names if not name.startswith("__index_level_")])
    if hasattr(frame, "__arrow_c_stream__"):
        table = pa.table(frame)
        return pa.table({name: _without_views(table.column(name)) for name in table.column_names})
    raise DataError(
        f"cannot read {type(frame).__name__} as a recording. Give paths, a folder, a DataFrame or an Arrow table."
    )


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as text: polars hands it over as views, also in dictionaries, and many of Arrow's functions take none."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not pa.types.is_string_view(kind):
        return column
    if not pa.types.is_dictionary(column.type):
        return column.cast(pa.string())
    chunks = [chunk.dictionary.cast(pa.string()).take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(chunks, pa.string())
