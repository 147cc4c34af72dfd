"""Files as they are: any table in any dialect is read back the same, and what cannot be told is refused."""

import csv
import datetime
import gzip
import io
import itertools
import math
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indubio.data import Long, Wide, Windowing, read_table, read_windows
from indubio.errors import ConfigError, DataError, MissingExtraError
from indubio.io import FileFormat, dict_rows, opened


def source_of(folder, content, name="file.csv", **asked):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (source,) = opened(path, FileFormat(**asked))
    return source


def columns_of(source, **types):
    batches = list(source.batches(dict.fromkeys(source.schema.names) | types))
    return pa.Table.from_batches(batches).to_pydict()


def spelled(value, decimal, thousands):
    """A number as a person of that country writes it."""
    if value is None:
        return ""
    text = f"{value:,.3f}" if thousands else f"{value:.3f}"
    return text.replace(",", "T").replace(".", decimal).replace("T", thousands)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.floats(-1e7, 1e7), st.none() | st.floats(-2000, 2000), st.text('aé;,\t|\n" x', max_size=6)),
        min_size=3,
        max_size=20,
    ),
    separator=st.sampled_from([",", ";", "\t", "|"]),
    style=st.sampled_from([(".", ""), (",", ""), (",", "."), (".", ","), (".", "'"), (",", " ")]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    compressed=st.booleans(),
)
def test_any_table_in_any_dialect_that_is_named_is_read_back(
    tmp_path_factory, rows, separator, style, encoding, compressed
):
    decimal, thousands = style
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(["größe", "b", "id"])
    for number, other, word in rows:
        writer.writerow([spelled(number, *style), spelled(other, *style), word])
    content = text.getvalue().encode(encoding)
    source = source_of(
        tmp_path_factory.mktemp("dialect"),
        gzip.compress(content) if compressed else content,
        "file.csv.gz" if compressed else "file.csv",
        separator=separator,
        decimal=decimal,
        thousands=thousands,
        encoding="utf-8" if encoding == "utf-8-sig" else encoding,
        skip_lines=0,
    )
    found = columns_of(source, größe=pa.float64(), b=pa.float64(), id=pa.string())
    assert found["größe"] == [float(f"{number:.3f}") for number, _, _ in rows]
    assert found["b"] == [None if other is None else float(f"{other:.3f}") for _, other, _ in rows]


DIALECTS = list(
    itertools.product([",", ";", "\t", "|"], [(".", ""), (",", ""), (",", "."), (".", ","), (".", "'"), (",", " ")])
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize(("separator", "style"), DIALECTS)
def test_a_dialect_that_nobody_names_is_found_out(tmp_path, separator, style, encoding):
    values = [1234.5, -0.25, 1234567.125, 12.0]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\r\n")
    writer.writerow(["Größe", "id"])
    writer.writerows([spelled(value, *style), "n/a" if value < 0 else "é"] for value in values)
    source = source_of(tmp_path, text.getvalue().encode(encoding))
    assert columns_of(source) == {"Größe": values, "id": ["é", None, "é", "é"]}
    plain = separator == "," and style == (".", "") and encoding.startswith("utf-8")
    assert (source.said is None) == plain


def test_what_is_said_names_the_ways_and_the_flags(tmp_path):
    source = source_of(tmp_path, "a;b\n1,5;2\n")
    assert source.said == "read with ';' and decimal comma; `separator` and `decimal` to change."


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a;b\n1,234;0\n0,5;0\n", [1.234, 0.5]),  # another cell of the column is certain
        ("a;b\n1,234;0,5\n2,345;1\n", [1.234, 2.345]),  # another column is
        ("a;b\n1,234;1\n1234;2\n", [1.234, 1234.0]),  # who writes 1234 does not write 1,234 for it
        ("a;b\n1,234;0.5\n2,345;1\n", [1234.0, 2345.0]),
        ("a;b\n1,234;1,234,567\n2,345;1\n", [1234.0, 2345.0]),
        ("a;b\n1.234;0,5\n2.345;1\n", [1234.0, 2345.0]),
        ("a;b\n1.234;1\n2.345;1\n", [1.234, 2.345]),  # the plain reading works
        ("a;b\n-1,5e3;1\n+2,5E-1;1\n", [-1500.0, 0.25]),
        ("a;b\n-;1\n2,5;1\n", [None, 2.5]),
        ("a\n1,5\n2,5\n", [1.5, 2.5]),
    ],
)
def test_marks_are_told_by_the_evidence_of_the_whole_file(tmp_path, text, values):
    assert columns_of(source_of(tmp_path, text))["a"] == values


def test_numbers_that_may_be_two_are_refused_with_the_flags(tmp_path):
    path = tmp_path / "file.csv"
    path.write_text("id;a\n7;1,234\n8;2,345\n")
    with pytest.raises(DataError, match=r"column \"a\": '1,234' may be 1\.234 or 1234\. Pass `decimal=\",\"` or `thou"):
        read_table(path, ids=["id"])
    comma = read_table(path, ids=["id"], file_format=FileFormat(decimal=","))
    assert comma.features.column("a").to_pylist() == [1.234, 2.345]
    marks = read_table(path, ids=["id"], file_format=FileFormat(thousands=","))
    assert marks.features.column("a").to_pylist() == [1234.0, 2345.0]
    as_text = read_table(path, ids=["a"])  # nothing is in doubt of an id
    assert as_text.passed.column("a").to_pylist() == ["1,234", "2,345"]
    guessed = read_table(path, ids=["id"], file_format=FileFormat(decimal=",").as_guess())
    assert guessed.features.column("a").to_pylist() == [1.234, 2.345]


def test_a_guess_gives_way_to_what_the_file_shows(tmp_path):
    usual = FileFormat(separator=";", decimal=",", encoding="cp1252").as_guess()
    path = tmp_path / "plain.csv"
    path.write_text("a,ü\n1.5,2\n")
    assert read_table(path, file_format=usual).features.to_pydict() == {"a": [1.5], "ü": [2.0]}


def test_lines_before_the_header_are_left_out_and_counted(tmp_path):
    text = 'Report 17\n\nSerial;4711\nt;a;b\n31.12.2026 14:05:33;1,5;"x\ny"\n\n31.12.2026 14:05:34;2,5;z\n'
    source = source_of(tmp_path, gzip.compress(text.encode()), "r.csv.gz")
    assert "3 lines before the header" in source.said
    assert columns_of(source)["a"] == [1.5, 2.5]
    assert source.place(0).endswith("line 5")
    assert source.place(1).endswith("line 8")


def test_lines_that_were_skipped_in_training_are_a_guess(tmp_path):
    text = "a;b;c;d\nx;y;z;w\np;q\n1,5;2\n"  # the first lines are wider than the table: nothing tells the header
    path = tmp_path / "odd.csv"
    path.write_text(text)
    usual = FileFormat(separator=";", decimal=",", skip_lines=2)
    for wanted in (usual, usual.as_guess()):
        assert read_table(path, file_format=wanted).features.to_pydict() == {"p": [1.5], "q": [2.0]}
    path.write_text("p;q\n1,5;2\n2,5;3\n3,5;4\n")
    assert len(read_table(path, file_format=usual.as_guess())) == 3


UNITS = {
    "commas": "t,flow,p\ns,l/min,bar\n0,1.5,2\n1,2.5,x\n",
    "semicolons": "t;flow;p\n;l/min;bar\n0;1,5;2\n1;2,5;x\n",
    "preamble": "Logger 3000, serial 17\n\nt;flow;p\n\n[s];[l/min];[-]\n0;1,5;2\n1;2,5;x\n",
    "two lines": 't;flow;p\nTS;"l/\nmin";bar\n;Avg;Smp\n0;1,5;2\n1;2,5;x\n',
}


@pytest.mark.parametrize(
    ("kind", "line", "lines", "skip"),
    [
        ("commas", "line 2", 1, 1),
        ("semicolons", "line 2", 1, 1),
        ("preamble", "line 5", 2, 4),
        ("two lines", "2 to", 2, 0),
    ],
)
def test_units_below_the_header_are_asked_for_and_left_out_when_told(tmp_path, kind, line, lines, skip):
    with pytest.raises(DataError) as refused:
        source_of(tmp_path, UNITS[kind]).schema  # noqa: B018
    assert line in str(refused.value)
    assert "l/min" in str(refused.value).replace("l/\nmin", "l/min")
    assert f"`units_lines={lines}`" in str(refused.value)
    assert (f"`skip_lines={skip}`" if skip else "`skip_lines`") in str(refused.value)
    told = source_of(tmp_path, UNITS[kind], units_lines=lines)
    assert columns_of(told)["flow"] == [1.5, 2.5]
    assert "below the header left out" in told.said
    assert "`units_lines`" in told.said
    number = UNITS[kind].splitlines().index(next(row for row in UNITS[kind].splitlines() if row.startswith("1"))) + 1
    assert told.place(1).endswith(f"line {number}")
    with pytest.raises(DataError, match=rf"line {number}, column \"p\": 'x' is not a number"):
        columns_of(told, p=pa.float64())


def test_a_model_that_knows_units_leaves_them_out_where_they_are(tmp_path):
    known = source_of(tmp_path, UNITS["semicolons"], units_lines=1).found_format.as_guess()
    path = tmp_path / "new.csv"
    path.write_text("a,b\nbar,s\n1.5,2\n")  # one row, and another dialect
    assert read_table(path, file_format=known).features.to_pydict() == {"a": [1.5], "b": [2.0]}
    path.write_text("a,b\n0.5,1\n1.5,2\n")
    assert len(read_table(path, file_format=known)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "id,a\nA1,NaN\n17,1.5\n18,2.5\n",  # a row without a value is none of units: no column of numbers has a word
        "a;b\nn/a;-\n1,5;2\n2,5;3\n",
        "colour;size\nred;big\nblue;small\ngreen;3\ngrey;small\n",
        "t;word\n31.12.2026;x\n1.1.2027;y\n",
        "a;b\ninf;inf\n1;2\n3;4\n",
    ],
)
def test_rows_that_are_no_units_are_rows(tmp_path, text):
    source = source_of(tmp_path, text, units_lines=0 if text.startswith("id") else None)
    assert len(columns_of(source)[source.schema.names[0]]) == text.count("\n") - 1


def test_a_word_among_numbers_is_no_line_of_units(tmp_path):
    path = tmp_path / "w.csv"
    path.write_text("a,b\nbroken,2\n1,2\n3,4\n")
    with pytest.raises(DataError, match=r"line 2: column \"a\" holds 'broken' among numbers"):
        read_table(path)


def test_a_preamble_saved_by_a_spreadsheet_is_left_out(tmp_path):
    source = source_of(tmp_path, "Report 17;;\n;;\nt;a;b\n0;1,5;2\n1;2,5;3\n")
    assert columns_of(source) == {"t": [0, 1], "a": [1.5, 2.5], "b": [2, 3]}
    assert "2 lines before the header left out" in source.said
    assert source.place(1).endswith("line 5")


@pytest.mark.parametrize("first", ["Logger 3000;serial 17;hall 3", "TOA5;CR1000;17;std;prog;1"])
def test_a_preamble_that_is_as_wide_as_the_table_is_refused_with_the_line_of_the_header(tmp_path, first):
    path = tmp_path / "p.csv"
    path.write_text(f"{first}\nStart: today\nt;a;b\n0;1,5;2\n1;2,5;3\n")
    with pytest.raises(DataError, match=r"line 2: Expected .* If line 3 is the header, pass `skip_lines=2`"):
        read_table(path)
    assert len(read_table(path, file_format=FileFormat(skip_lines=2))) == 2
    path.write_text(f"{first.rsplit(';', first.count(';') - 2)[0]}\nt;a;b\n0;1,5;2\n1;2,5;3\n")
    with pytest.raises(DataError, match=r'line 2 holds no number: "t", "a", "b"\. .*header, pass `skip_lines=1`'):
        read_table(path)


def test_a_ragged_row_makes_no_header_of_the_next_one(tmp_path):
    source = source_of(tmp_path, "a,b\n1,2\n1\nx,y\n1,2\n")
    with pytest.raises(DataError, match=r"line 3: Expected 2 columns, got 1"):
        columns_of(source)


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "e.csv", r"e\.csv: the file is empty"),
        (b"\xef\xbb\xbf\r\n", "e.csv", r"e\.csv: the file is empty"),
        (gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-9], "z.csv.gz", r"z\.csv\.gz: .*damaged or cut short"),
        ("a;b\n1;2\n".encode("utf-16-le"), "u.csv", r"encoding=\"utf-16-le\""),
        (b"a,b\n1,2\n1,2,3\n1,2\n", "r.csv", r"r\.csv: line 3: Expected 2 columns, got 3"),
        (b"a;b\n1,5;2\n1,5;x\n2,5;4\n1,5;4\n", "w.csv", r"w\.csv: line 3: column \"b\" holds 'x' among numbers"),
        (b"a;b\n1,5;2\n2.5;2\n3,5;4\n", "m.csv", r"m\.csv: column \"a\": '1,5' has a decimal comma.*`decimal`"),
    ],
)
def test_a_bad_file_is_named_with_the_way_out(tmp_path, content, name, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_table(path)


def test_a_mark_that_comes_late_is_refused_with_its_line_and_the_way_out(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("a;b\n" + "1,5;2\n" * 200_000 + "1.234,5;2\n")
    with pytest.raises(DataError, match=r"line 200002, column \"a\": '1\.234,5' is not a number\. .*`thousands`"):
        read_table(path)
    found = read_table(path, file_format=FileFormat(thousands=".")).features.column("a")
    assert found[-1].as_py() == 1234.5


def test_the_bad_file_of_a_folder_is_named(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("x,y\n1,2\n3,4\n")
    (tmp_path / "b.csv").write_text("x\n1\n")
    with pytest.raises(DataError, match=r'b\.csv: no column "y", which .*a\.csv has'):
        read_table(tmp_path)
    (tmp_path / "b.csv").write_text("x,y\n1,red\n")
    with pytest.raises(DataError, match=r'b\.csv: column "y" holds text, and in .*a\.csv numbers'):
        read_table(tmp_path)


def test_a_note_in_a_folder_of_tables_is_no_table(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "readme.txt").write_text("about the files")
    assert len(read_table(tmp_path)) == 1


@pytest.mark.parametrize("layout", ["wide", "long"])
def test_a_german_recording_is_the_plain_one(tmp_path, layout):
    stamps = [(f"2026-12-31T14:05:{s:02d}.250", f"31.12.2026 14:05:{s:02d},250") for s in range(8)]
    if layout == "wide":
        plain = "t,p\n" + "".join(f"{iso},{n}.5\n" for n, (iso, _) in enumerate(stamps))
        german = "t;p\n" + "".join(f"{dots};{n},5\n" for n, (_, dots) in enumerate(stamps))
        columns, windowing = Wide(time="t"), Windowing(length=4)
    else:
        plain = "t,tag,v\n" + "".join(f"{iso},p,{n}.5\n" for n, (iso, _) in enumerate(stamps))
        german = "t;tag;v\n" + "".join(f"{dots};p;{n},5\n" for n, (_, dots) in enumerate(stamps))
        columns, windowing = Long(time="t", tag="tag", value="v"), Windowing(length=4, rate=1.0)
    (tmp_path / "plain.csv").write_text(plain)
    (tmp_path / "german.csv").write_text(german)
    first, second = (read_windows(tmp_path / name, columns, windowing) for name in ("plain.csv", "german.csv"))
    np.testing.assert_array_equal(first.values, second.values)
    assert first.origin.column("start").equals(second.origin.column("start"))


def excel(path, rows, sheet="Daten", other=None):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = sheet
    for row in rows:
        book.active.append(row)
    if other is not None:
        book.create_sheet("Andere").append(other)
    book.save(path)
    return path


def test_a_spreadsheet_is_a_table(tmp_path):
    pytest.importorskip("python_calamine")
    rows = [["id", "x", "y"], [7, 1.5, "1,5"], [8, None, "2,25"], [], [9, 3, "0,5"]]
    path = excel(tmp_path / "t.xlsx", rows, other=["z"])
    table = read_table(path, ids=["id"])
    assert table.features.to_pydict() == {"x": [1.5, None, 3.0], "y": [1.5, 2.25, 0.5]}
    assert table.passed.to_pydict() == {"id": ["7", "8", "9"]}
    (source,) = opened(path)
    assert source.said == 'read sheet "Daten" of 2; `sheet` to change.'
    assert source.place(2).endswith('row 5 of sheet "Daten"')
    for sheet in ("Andere", "2", 2):
        assert opened(path, FileFormat(sheet=sheet))[0].schema.names == ["z"]
    with pytest.raises(DataError, match=r"no sheet 'Ende'; there are \"Daten\", \"Andere\""):
        read_table(path, file_format=FileFormat(sheet="Ende"))


def test_text_that_spells_numbers_is_read_as_in_a_text_file(tmp_path):
    pytest.importorskip("python_calamine")
    rows = [["id", "x", "y"], ["007", "1,5", 1], ["008", "-", "n/a"], ["009", "1.234,5", 2]]
    table = read_table(excel(tmp_path / "t.xlsx", rows), ids=["id"])
    assert table.passed.to_pydict() == {"id": ["007", "008", "009"]}
    assert table.features.to_pydict() == {"x": [1.5, None, 1234.5], "y": [1.0, None, 2.0]}


def test_a_title_over_a_sheet_is_named_and_left_out_when_told(tmp_path):
    pytest.importorskip("python_calamine")
    path = excel(tmp_path / "t.xlsx", [["Report", None, None], [], ["x", "y", "z"], [1, 2, 3]])
    with pytest.raises(DataError, match=r"the first 2 rows hold a title, 'Report', and no header\. .*`skip_lines=2`"):
        read_table(path)
    assert read_table(path, file_format=FileFormat(skip_lines=2)).features.to_pydict() == {
        "x": [1.0],
        "y": [2.0],
        "z": [3.0],
    }


def test_units_and_notes_in_a_sheet_are_asked_for(tmp_path):
    pytest.importorskip("python_calamine")
    start = datetime.datetime(2026, 5, 3)
    rows = [["t", "flow", "p"], [], ["", "l/min", "bar"], [start, 1.5, 2], [start, "x", 3], [start, 2.5, 4]]
    path = excel(tmp_path / "u.xlsx", rows)
    asked = r'sheet "Daten": row 3 holds no number: "", "l/min", "bar"\. If .*, pass `units_lines=2`'
    with pytest.raises(DataError, match=asked):
        read_table(path)
    with pytest.raises(DataError, match=r"row 5 of sheet \"Daten\": column \"flow\" holds 'x'"):
        read_table(path, ids=["t"], columns=["flow"], file_format=FileFormat(units_lines=2))
    (source,) = opened(path, FileFormat(units_lines=2).as_guess())
    assert source.said == "read with 2 rows below the header left out; `units_lines` to change."
    assert source.found_format == FileFormat(units_lines=2)
    assert columns_of(source)["p"] == [2, 3, 4]
    path = excel(tmp_path / "n.xlsx", [["Serial", 17], [], ["t", "flow", "p"], ["s", "l/min", "bar"], [0, 1.5, 2]])
    with pytest.raises(DataError, match=r"column C has no name\. If row 3 is the header, pass `skip_lines=2`"):
        read_table(path)


def open_document(path, *rows):
    """A minimal .ods with one sheet; rows are cells as XML, and many empty ones follow, as programs write them."""
    kinds = ("office", "table", "text")
    spaces = " ".join(f'xmlns:{kind}="urn:oasis:names:tc:opendocument:xmlns:{kind}:1.0"' for kind in kinds)
    body = "".join(f"<table:table-row>{''.join(row)}</table:table-row>" for row in rows)
    rest = '<table:table-row table:number-rows-repeated="1048572"><table:table-cell/></table:table-row>'
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        file.writestr("META-INF/manifest.xml", "<manifest/>")
        file.writestr(
            "content.xml",
            f'<office:document-content {spaces}><office:body><office:spreadsheet><table:table table:name="Daten">'
            f"{body}{rest}</table:table></office:spreadsheet></office:body></office:document-content>",
        )


def cell(kind, text="", **more):
    named = "".join(f' {name.replace("_", ":", 1).replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<table:table-cell office:value-type="{kind}"{named}><text:p>{text}</text:p></table:table-cell>'


def test_an_open_document_is_a_table(tmp_path):
    pytest.importorskip("python_calamine")
    open_document(
        tmp_path / "t.ods",
        [cell("string", name) for name in ("id", "t", "x", "y")],
        [
            cell("string", "007"),
            cell("date", office_date_value="2026-05-03T12:00:01"),
            cell("float", "1,5", office_value=1.5, table_number_columns_repeated=2),
        ],
        ["<table:table-cell/>"],
        [
            cell("string", "008"),
            cell("date", office_date_value="2026-05-04"),
            "<table:table-cell/>",
            cell("string", "Err:502"),
        ],
    )
    table = read_table(tmp_path / "t.ods", ids=["id"], time="t")
    assert table.features.to_pydict() == {"x": [1.5, None], "y": [1.5, None]}
    stamps = [datetime.datetime(2026, 5, 3, 12, 0, 1), datetime.datetime(2026, 5, 4)]
    assert table.passed.to_pydict() == {"id": ["007", "008"], "t": stamps}
    assert table.places(1).endswith('row 4 of sheet "Daten"')


def test_a_spreadsheet_that_is_none_is_refused_with_the_way_out(tmp_path):
    pytest.importorskip("python_calamine")
    for ending in ("xlsx", "xls", "xlsb", "ods"):
        (tmp_path / f"t.{ending}").write_bytes(b"PK no sheet at all")
        with pytest.raises(DataError, match=rf"t\.{ending}: not a spreadsheet .* Save it as \.xlsx or \.csv"):
            read_table(tmp_path / f"t.{ending}")


def test_a_spreadsheet_needs_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(MissingExtraError, match=r'pip install "indubio\[excel\]"'):
        read_table(tmp_path / "t.xlsx")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_small_tables_of_text_are_read_in_any_dialect(separator, encoding):
    lines = [["reference", "label", "comment"], ["17", "N", "schön, gut; ja"], ["18", "A", ""]]
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows(lines)
    rows = list(dict_rows(text.getvalue().encode(encoding)))
    assert [list(row.values()) for row in rows] == lines[1:]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"encoding": "latin-99"}, "`encoding` 'latin-99' is not known"),
        ({"decimal": ",", "thousands": ","}, "`thousands` and `decimal` must differ"),
        ({"separator": "x"}, "`separator` must be a mark"),
    ],
)
def test_a_format_that_cannot_be_is_refused(wrong, message):
    with pytest.raises(ConfigError, match=message):
        FileFormat(**wrong)


def test_numbers_are_the_same_to_the_bit_as_of_the_plain_file(tmp_path):
    values = np.random.default_rng(0).normal(size=500) * 10.0 ** np.arange(-5, 5).repeat(50)
    texts = [repr(float(value)) for value in values]
    german = source_of(tmp_path, "a;b\n" + "".join(f"{text.replace('.', ',')};0\n" for text in texts))
    assert columns_of(german)["a"] == [float(text) for text in texts]
    assert not any(math.isnan(value) for value in columns_of(german)["a"])
