"""Results as an Excel file, row by row.

Text is written as text whatever it begins with: an id such as "=1+1" is no formula.
"""

import datetime
import math
from typing import IO, Any

import pyarrow as pa

from indubio.errors import MissingExtraError, OutputError
from indubio.io.sink_base import Sink

MOST_ROWS = 1_048_576  # of a sheet, with the header; a limit of Excel
MOST_COLUMNS = 16_384
SHEET = "indubio"


class ExcelSink(Sink):
    """Writes all rows into one sheet of a workbook."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream)
        try:
            from openpyxl import Workbook
        except ImportError:
            raise MissingExtraError('writing .xlsx needs the excel extra: pip install "indubio[excel]".') from None
        self._book = Workbook(write_only=True)
        self._sheet = self._book.create_sheet(SHEET)
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        """Add the rows of a table to the sheet."""
        if not self._rows:
            if table.num_columns > MOST_COLUMNS:
                raise OutputError(f"an Excel sheet holds {MOST_COLUMNS:,} columns. Write .csv or .parquet.")
            self._append(table.column_names)
        if self._rows + table.num_rows > MOST_ROWS:
            raise OutputError(
                f"an Excel sheet holds {MOST_ROWS - 1:,} rows and a header, and there are more. Write .csv or .parquet."
            )
        for batch in table.to_batches():
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                self._append(row)

    def close(self) -> None:
        """Write the workbook into the stream."""
        self._book.save(self._stream)

    def _append(self, row: Any) -> None:
        self._sheet.append([_cell(self._sheet, value) for value in row])
        self._rows += 1


def _cell(sheet: Any, value: Any) -> Any:
    """What openpyxl takes for a value; None for an empty cell."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.isoformat()  # Excel knows no time zones
    if not isinstance(value, str):
        return value
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.utils.escape import escape

    cell = WriteOnlyCell(sheet)
    cell._value, cell.data_type = escape(value), "s"
    return cell
