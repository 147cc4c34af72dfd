"""Parquet files as sources of rows."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from indubio.errors import DataError
from indubio.io.source_base import ROWS_AT_ONCE, FileSource, Source, content_of

PARQUET_BUFFER = 2**20  # bytes of a column, so that a large row group is not read whole


@dataclass(frozen=True, eq=False)
class ParquetSource(FileSource):
    """A Parquet file, or some of its rows.

    Args:
        name: for error messages.
        label: for the origin of a window.
        path: the file.
        start: first row to read.
        stop: the row to end before; None for all.
    """

    start: int = 0
    stop: int | None = None

    def _read_schema(self) -> pa.Schema:
        with self._opened() as file:
            return file.schema_arrow

    def batches(self, types: Mapping[str, pa.DataType | None]) -> Iterator[pa.RecordBatch]:
        """The columns that are named."""
        with self._opened() as file:
            groups, first = self._row_groups(file)
            if not groups:
                return
            batches = file.iter_batches(batch_size=ROWS_AT_ONCE, row_groups=groups, columns=list(types))
            while True:
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                except (pa.ArrowException, OSError) as error:
                    raise DataError(f"{self.name}: the file is damaged: {error}") from None
                begin, end = max(self.start - first, 0), batch.num_rows
                end = end if self.stop is None else min(end, self.stop - first)
                first += batch.num_rows
                if begin < end:
                    yield batch.slice(begin, end - begin).select(list(types))

    def units(self) -> list[Source]:
        """The row groups of the file, each as a source."""
        with self._opened() as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        bounds = [0, *accumulate(sizes)]
        return [replace(self, start=start, stop=stop) for start, stop in pairwise(bounds)]

    def place(self, row: int) -> str:
        """Where a row is in the whole file."""
        return super().place(self.start + row)

    @property
    def rows(self) -> int:
        """How many rows the whole file has."""
        with self._opened() as file:
            return int(file.metadata.num_rows)

    @property
    def value_count(self) -> int:
        """How many values there are."""
        return self.rows * len(self.schema.names)

    def _row_groups(self, file: Any) -> tuple[list[int], int]:
        """The row groups that hold the rows asked for, and the first row of the first of them."""
        bounds = [0]
        for group in range(file.num_row_groups):
            bounds.append(bounds[-1] + file.metadata.row_group(group).num_rows)
        stop = bounds[-1] if self.stop is None else self.stop
        groups = [place for place, (a, b) in enumerate(pairwise(bounds)) if a < stop and b > self.start]
        return groups, bounds[groups[0]] if groups else 0

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            # With pre_buffer, what was read would be kept until the file is closed: all of it, in the end.
            file = parquet.ParquetFile(content_of(self.path), pre_buffer=False, buffer_size=PARQUET_BUFFER)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.name}: not a Parquet file that can be read: {error}") from None
        with file:
            yield file
