"""Shards: what is assessed as one piece of work and written as one file.

Rows of a table are cut anywhere: a Parquet file falls into ranges of rows, a CSV file is one shard, since nobody knows
where its rows are before it is read. Windows need the rows of their group one after the other, and a group may go on
from one file to the next: a shard then has the groups that begin in one file, wherever they end.

Where the cuts are depends on the files alone, never on the workers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from indubio.io import ROWS_AT_ONCE, ParquetSource, Source, plain

SHARD_ROWS = 4 * ROWS_AT_ONCE  # some seconds of work, and an output of some ten MB


@dataclass(frozen=True)
class Looked:
    """What has to be known of a file before it can be cut into shards.

    Args:
        rows: how many it has, where that can be known without reading it.
        groups: the groups in it, in order, for windows.
    """

    rows: int | None = None
    groups: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Shard:
    """One piece of work.

    Args:
        name: of its output, without model and ending.
        file: name of the file that it begins in.
        sources: what to read.
        version: of all its files: other content gives another.
        size: about so many bytes of input, to tell how far a run is.
    """

    name: str
    file: str
    sources: tuple[Source, ...]
    version: str
    size: float


@dataclass(frozen=True)
class InputFile:
    """A file to assess.

    Args:
        name: its path below the folder that is assessed.
        source: how it is read.
        size: in bytes.
        version: changes with its content.
    """

    name: str
    source: Source
    size: int
    version: str


@dataclass(frozen=True, eq=False)
class OfGroups(Source):
    """The rows of some groups of a file.

    Args:
        name: for error messages.
        label: of the file, for the origin of a window.
        whole: the file.
        column: that names the group.
        groups: which.
    """

    whole: Source
    column: str
    groups: tuple[str, ...]

    def _read_schema(self) -> pa.Schema:
        return self.whole.schema

    def batches(self, types: Mapping[str, pa.DataType | None]) -> Iterator[pa.RecordBatch]:
        """The columns that are named, of the rows of these groups."""
        wanted = pa.array(self.groups, pa.string())
        for batch in self.whole.batches({self.column: pa.string(), **types}):
            chosen = pc.is_in(plain(batch.column(self.column)).cast(pa.string()), value_set=wanted)
            found = batch.filter(chosen)
            if found.num_rows:
                yield found.select(list(types))

    def refuse_doubtful(self, columns: Sequence[str]) -> None:
        """Refuse columns that the whole file would refuse."""
        self.whole.refuse_doubtful(columns)

    def number_text(self, column: pa.Array) -> pa.Array:
        """A number spelled as the file spells numbers."""
        return self.whole.number_text(column)

    def place(self, row: int) -> str:
        """Where a row is, as far as it is known."""
        return f"{self.name}: row {row} of the groups {self.groups[0]} to {self.groups[-1]}"


def look(source: Source, grouped_by: str | None, row_by_row: bool) -> Looked:
    """Read what has to be known of a file.

    Args:
        source: the file.
        grouped_by: column of the groups, for windows.
        row_by_row: whether it may be cut anywhere.
    """
    if grouped_by is not None:
        source.require([grouped_by])
        groups: dict[str, None] = {}
        for batch in source.batches({grouped_by: pa.string()}):
            names = plain(batch.column(0)).cast(pa.string()).drop_null()
            groups.update(dict.fromkeys(names.unique().to_pylist()))
        return Looked(groups=tuple(groups))
    if row_by_row and isinstance(source, ParquetSource):
        return Looked(rows=source.rows)
    return Looked()


def shards(files: Sequence[tuple[InputFile, Looked]], shard_rows: int, grouped_by: str | None) -> list[Shard]:
    """The shards of some files, in order.

    Args:
        files: in order, with what is known of them.
        shard_rows: rows of a shard, for a Parquet file of rows.
        grouped_by: column of the groups, for windows.
    """
    if grouped_by is not None:
        return _by_group(files, grouped_by)
    return [shard for file, looked in files for shard in _by_rows(file, looked, shard_rows)]


def _by_rows(file: InputFile, looked: Looked, shard_rows: int) -> Iterator[Shard]:
    source = file.source
    if looked.rows is None or not isinstance(source, ParquetSource) or looked.rows == 0:
        yield Shard(f"{file.name}.all", file.name, (source,), file.version, file.size)
        return
    digits = 12  # so that names sort as rows do
    for start in range(0, looked.rows, shard_rows):
        stop = min(start + shard_rows, looked.rows)
        cut = ParquetSource(source.name, source.label, source.path, start, stop)
        name = f"{file.name}.{start:0{digits}}-{stop:0{digits}}"
        yield Shard(name, file.name, (cut,), file.version, file.size * (stop - start) / looked.rows)


def _by_group(files: Sequence[tuple[InputFile, Looked]], column: str) -> list[Shard]:
    begins: dict[str, int] = {}
    for place, (_, looked) in enumerate(files):
        for group in looked.groups or ():
            begins.setdefault(group, place)
    found = []
    for place, (file, looked) in enumerate(files):
        own = [group for group in looked.groups or () if begins[group] == place]
        if not own and looked.groups:
            continue  # only the end of what began before
        used = [other for other in files[place:] if other[0] is file or not set(own).isdisjoint(other[1].groups or ())]
        sources = tuple(_restricted(one.source, column, known.groups or (), own) for one, known in used)
        version = "+".join(one.version for one, _ in used)
        found.append(Shard(f"{file.name}.groups", file.name, sources, version, file.size))
    return found


def _restricted(source: Source, column: str, there: Sequence[str], wanted: Sequence[str]) -> Source:
    chosen = tuple(group for group in there if group in set(wanted))
    if len(chosen) == len(there):
        return source
    return OfGroups(source.name, source.label, source, column, chosen)
