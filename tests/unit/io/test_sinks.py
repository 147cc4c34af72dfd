"""Results appear whole or not at all, in the format of the file's name."""

import json

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

from indubio.errors import ConfigError, DataError
from indubio.io import sink

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])
FIRST = pa.table({"a": [1, 2], "b": ["x", 'y "z"']}, SCHEMA)
SECOND = pa.table({"a": [3], "b": [None]}, SCHEMA)
WHOLE = pa.concat_tables([FIRST, SECOND])

READERS = {
    "out.csv": lambda path: arrow_csv.read_csv(
        path, convert_options=arrow_csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    ),
    "out.csv.gz": lambda path: READERS["out.csv"](pa.input_stream(path, compression="gzip")),
    "out.csv.zst": lambda path: READERS["out.csv"](pa.input_stream(path, compression="zstd")),
    "out.xlsx": lambda path: _first_sheet(path),
    "out.parquet": parquet.read_table,
    "out.jsonl": lambda path: pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()]),
}


def _first_sheet(path):
    header, *rows = pytest.importorskip("openpyxl").load_workbook(path).active.values
    return pa.Table.from_pylist([dict(zip(header, row, strict=True)) for row in rows])


@pytest.mark.parametrize("name", READERS)
def test_parts_are_read_back_as_one_table(tmp_path, name):
    with sink(tmp_path / name) as out:
        out.write(FIRST)
        out.write(SECOND)
    assert READERS[name](tmp_path / name).to_pydict() == WHOLE.to_pydict()


@pytest.mark.parametrize("name", READERS)
def test_after_an_error_nothing_is_left_and_what_was_there_stays(tmp_path, name):
    target = tmp_path / name
    target.write_text("before")

    def interrupted() -> None:
        with sink(target) as out:
            out.write(FIRST)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_standard_output_takes_csv_or_json_lines(capfdbinary):
    with sink("-") as out:
        out.write(FIRST)
    with sink("-", "jsonl") as out:
        out.write(SECOND)
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[0] == '"a","b"'
    assert json.loads(lines[-1]) == {"a": 3, "b": None}


def test_an_unknown_ending_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"\.xls.*Known are \.csv, \.parquet"), sink("out.xls"):
        pass


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be written"), sink(tmp_path / "no" / "out.csv"):
        pass


def test_text_is_no_formula_in_excel(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    texts = ["=1+1", "@x", "+1", "a\x01b"]
    with sink(tmp_path / "out.xlsx") as out:
        out.write(pa.table({"=id": texts}))
    cells = [row[0] for row in openpyxl.load_workbook(tmp_path / "out.xlsx").active.iter_rows()]
    assert [cell.data_type for cell in cells] == ["s"] * 5
    assert [cell.value for cell in cells][:4] == ["=id", *texts[:3]]


def test_more_rows_than_excel_has_are_refused(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    monkeypatch.setattr("indubio.io.excel_sink.MOST_ROWS", 3)
    with sink(tmp_path / "full.xlsx") as out:
        out.write(FIRST)
        with pytest.raises(DataError, match=r"an Excel sheet holds 2 rows and a header, .*\.csv or \.parquet"):
            out.write(SECOND)
