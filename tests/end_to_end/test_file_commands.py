"""Files as people have them, by commands: whatever they are written in, the verdicts are those of the plain file."""

import gzip
import json

import numpy as np
import pyarrow.csv as arrow_csv
import pytest

from tests.end_to_end.test_commands import run

NAMES = ("teil", "druck", "größe", "kraft")
WRITTEN = {
    "semicolon.csv": "read with ';' and decimal comma; --set file.separator and --set file.decimal to change.",
    "latin.csv": "read with encoding cp1252; --set file.encoding to change.",
    "excel.csv": "read with ';', decimal comma and encoding utf-16;",
    "packed.csv.gz": None,
    "sheet.xlsx": None,
    "report.txt": "'.' between thousands and 2 lines before the header left out;",
}


def rows_of(count: int, seed: int) -> list[list[str]]:
    values = np.random.default_rng(seed).normal(size=(count, 3)) * [1, 100, 10_000]
    return [[f"{number:04}", *(f"{value:.3f}" for value in row)] for number, row in enumerate(values)]


def text_of(rows: list[list[str]], separator: str, spelled=lambda text: text) -> str:
    lines = [list(NAMES), *([row[0], *map(spelled, row[1:])] for row in rows)]
    return "".join(f"{separator.join(line)}\n" for line in lines)


def german(text: str) -> str:
    return f"{float(text):,.3f}".replace(",", "_").replace(".", ",").replace("_", ".")


def write(folder, rows: list[list[str]]) -> None:
    """The same table in many ways."""
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    folder.mkdir()
    plain, comma = text_of(rows, ","), text_of(rows, ";", lambda text: text.replace(".", ","))
    (folder / "plain.csv").write_text(plain, encoding="utf-8")
    (folder / "semicolon.csv").write_text(comma, encoding="utf-8")
    (folder / "latin.csv").write_bytes(plain.encode("cp1252"))
    (folder / "excel.csv").write_bytes(comma.encode("utf-16"))
    (folder / "packed.csv.gz").write_bytes(gzip.compress(plain.encode()))
    (folder / "report.txt").write_text("Prüfstand 3\nDatum: 31.12.2026\n" + text_of(rows, ";", german), "utf-8")
    book = openpyxl.Workbook()
    book.active.append(NAMES)
    for row in rows:
        book.active.append([row[0], *map(float, row[1:])])
    book.save(folder / "sheet.xlsx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write(folder / "good", rows_of(80, 1))
    write(folder / "new", rows_of(30, 2))
    run("fit", folder / "good" / "plain.csv", "-o", folder / "model", "--id", "teil")
    run("assess", folder / "new" / "plain.csv", "-m", folder / "model", "-o", folder / "plain.csv")
    return folder


@pytest.mark.parametrize("name", WRITTEN)
def test_verdicts_are_those_of_the_plain_file_to_the_bit(folder, name, tmp_path):
    told = run("assess", folder / "new" / name, "-m", folder / "model", "-o", tmp_path / "found.csv").stderr
    assert (tmp_path / "found.csv").read_bytes() == (folder / "plain.csv").read_bytes()
    said = WRITTEN[name]
    assert (said in told) if said else ("read with" not in told)


@pytest.mark.parametrize("name", ["semicolon.csv", "sheet.xlsx"])
def test_a_model_of_such_a_file_judges_the_plain_one_alike(folder, name, tmp_path):
    run("fit", folder / "good" / name, "-o", tmp_path / "model", "--id", "teil")
    run("assess", folder / "new" / "plain.csv", "-m", tmp_path / "model", "-o", tmp_path / "found.csv")
    assert (tmp_path / "found.csv").read_bytes() == (folder / "plain.csv").read_bytes()


def test_a_model_keeps_how_its_files_were_written_as_a_guess(folder, tmp_path):
    run("fit", folder / "good" / "semicolon.csv", "-o", tmp_path / "model", "--id", "teil")
    fitted = json.loads(run("inspect", tmp_path / "model", "--json").stdout)["fitted"]
    kept = fitted["preparation_"]["reading"]["file_format"]
    assert (kept["separator"], kept["decimal"]) == (";", ",")
    assert {"separator", "decimal"} <= set(kept["guesses"])
    (tmp_path / "unclear.csv").write_text("teil;druck;größe;kraft\n1;1,234;2,345;3,456\n", "utf-8")
    arguments = ("assess", tmp_path / "unclear.csv", "-o", tmp_path / "found.csv", "-m")
    assert "'1,234' may be 1.234 or 1234" in run(*arguments, folder / "model", code=1).stderr
    run(*arguments, tmp_path / "model")
    kept_guess = (tmp_path / "found.csv").read_bytes()
    run(*arguments, folder / "model", "--set", "file.decimal=,")
    assert (tmp_path / "found.csv").read_bytes() == kept_guess


def test_standard_input_takes_the_options(folder, tmp_path):
    text = (folder / "new" / "semicolon.csv").read_text("utf-8")
    flags = ("--set", "file.separator=;", "--set", "file.decimal=,")
    run("assess", "-", "-m", folder / "model", "-o", tmp_path / "found.csv", *flags, stdin=text)
    assert (tmp_path / "found.csv").read_bytes() == (folder / "plain.csv").read_bytes()


def test_an_empty_file_is_called_empty(folder, tmp_path):
    (tmp_path / "empty.csv").write_bytes(b"")
    told = run("assess", tmp_path / "empty.csv", "-m", folder / "model", "-o", tmp_path / "x.csv", code=1)
    assert told.stderr.strip().endswith("empty.csv: the file is empty.")


def test_a_title_over_a_sheet_is_refused_with_the_flag_that_leaves_it_out(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    for row in (["Prüfstand 3"], [], list(NAMES), *rows_of(20, 1)):
        book.active.append(row)
    book.save(tmp_path / "titled.xlsx")
    arguments = ("fit", tmp_path / "titled.xlsx", "-o", tmp_path / "model", "--id", "teil")
    told = run(*arguments, code=1).stderr
    assert told.strip().endswith("Pass --set file.skip_lines=2.")
    run(*arguments, "--set", "file.skip_lines=2")


def test_results_as_excel_and_compressed(folder, tmp_path):
    for name in ("found.xlsx", "found.csv.gz"):
        run("assess", folder / "new" / "plain.csv", "-m", folder / "model", "-o", tmp_path / name)
    assert gzip.decompress((tmp_path / "found.csv.gz").read_bytes()) == (folder / "plain.csv").read_bytes()
    told = run("evaluate", tmp_path / "found.xlsx", "--label", "prediction", "--json").stdout
    assert told == run("evaluate", folder / "plain.csv", "--label", "prediction", "--json").stdout


@pytest.mark.slow
def test_workers_read_a_folder_of_such_files_as_one_process_does(folder, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        content = (folder / "new" / "semicolon.csv").read_bytes()
        (tmp_path / "in" / f"run{number}.csv").write_bytes(content)
    for workers in ("1", "2"):
        out = ("-o", tmp_path / workers, "--workers", workers, "--format", "csv")
        run("assess", tmp_path / "in", "-m", folder / "model", *out)
    shards = sorted(path.name for path in (tmp_path / "2").glob("*.csv"))
    assert len(shards) == 3
    assert shards == sorted(path.name for path in (tmp_path / "1").glob("*.csv"))
    for shard in shards:
        assert (tmp_path / "2" / shard).read_bytes() == (tmp_path / "1" / shard).read_bytes()
        assert arrow_csv.read_csv(tmp_path / "2" / shard).equals(arrow_csv.read_csv(folder / "plain.csv"))
