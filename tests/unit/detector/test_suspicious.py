"""Rows for a person to look at, and what the person said: by the library and by the command."""

import csv

import numpy as np
import pandas as pd
import pytest

from indubio import AnchoredEnsemble, Detector, ExampleStream, Training, Trimming, load
from indubio.data import read_table
from indubio.detector import suspects, without_bad
from indubio.detector.suspicious import found_bad
from indubio.errors import ConfigError, DataError
from indubio.io import sink
from tests.end_to_end.test_commands import run
from tests.small_examples import SIGNALS, SMALL_NETWORK, windows

QUICK = {"posterior": AnchoredEnsemble(members=3), "training": Training(epochs=20)}
BAD = (3, 40, 77)


@pytest.fixture
def rows() -> np.ndarray:
    random = np.random.default_rng(0)
    found = random.normal(size=(103, 1)) + 0.3 * random.normal(size=(103, 3))
    found[list(BAD)] = [[9, -9, 9], [-9, 9, 0], [0, 9, -9]]
    return found


@pytest.fixture
def file(rows, tmp_path):
    frame = pd.DataFrame(rows, columns=["heat", "flow", "speed"])
    frame.insert(0, "serial", [f"{place:04}" for place in range(len(frame))])
    frame.to_csv(tmp_path / "good.csv", index=False)
    return tmp_path / "good.csv"


def labelled(path, said):
    """Fill in the column `bad` by serial number."""
    with path.open(newline="") as given:
        lines = list(csv.DictReader(given))
    for line in lines:
        line["bad"] = said.get(line["serial"], "")
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, lines[0].keys())
        writer.writeheader()
        writer.writerows(lines)


def test_what_lies_outside_of_the_bulk_is_suspect(rows):
    suspicion = Detector().suspicion(rows)
    assert suspicion.shape == (103,)
    assert set(np.argsort(-suspicion)[:3]) == set(BAD)


def test_the_highest_come_first_with_their_ids_and_values(file):
    found = suspects(Detector(**QUICK), read_table(file, ids=["serial"]), most=5).to_pandas()
    assert list(found.columns) == ["suspect", "bad", "score", "serial", "heat", "flow", "speed"]
    assert set(found.serial[:3]) == {"0003", "0040", "0077"}
    assert found.score.is_monotonic_decreasing
    assert (found.bad == "").all()


def test_what_was_found_bad_is_left_out_in_any_order_of_the_rows(file, tmp_path):
    table = read_table(file, ids=["serial"])
    with sink(tmp_path / "suspects.csv") as out:
        out.write(suspects(Detector(**QUICK), table, most=5))
    labelled(tmp_path / "suspects.csv", {"0003": "1", "0077": "bad", "0040": "0"})
    turned = file.with_name("turned.csv")
    pd.read_csv(file, dtype={"serial": str})[::-1].to_csv(turned, index=False)
    for path in (file, turned):
        left = without_bad(read_table(path, ids=["serial"]), tmp_path / "suspects.csv")
        assert len(left) == 101
        assert not {"0003", "0077"} & set(left.passed["serial"].to_pylist())


def test_arrays_and_windows_have_suspects_too(rows, tmp_path):
    given = windows(np.concatenate([SIGNALS, SIGNALS[:1] * 10]))
    detector = Detector(architecture=SMALL_NETWORK, **QUICK)
    found = suspects(detector, given, most=1)
    assert found["file"].to_pylist() == ["run_40.csv"]
    with sink(tmp_path / "suspects.csv") as out:
        out.write(found.set_column(1, "bad", [["1"]]))
    assert len(without_bad(given, tmp_path / "suspects.csv")) == 40
    with sink(tmp_path / "rows.csv") as out:
        out.write(suspects(Detector(**QUICK), rows, most=1).set_column(1, "bad", [["1"]]))
    assert found_bad(rows, tmp_path / "rows.csv").sum() == 1


def test_rows_that_are_not_there_and_labels_that_say_nothing_are_refused(rows, tmp_path):
    path = tmp_path / "suspects.csv"
    path.write_text("suspect,bad\nffff,1\n")
    with pytest.raises(DataError, match="1 of 1 labelled examples are not among the training examples"):
        found_bad(rows, path)
    path.write_text("suspect,bad\nffff,perhaps\n")
    with pytest.raises(DataError, match='must hold 1, 0 or nothing, but has "perhaps"'):
        found_bad(rows, path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match='the columns "suspect" and "bad"'):
        found_bad(rows, path)
    with pytest.raises(DataError, match="cannot be read"):
        found_bad(rows, tmp_path / "nothing.csv")
    with pytest.raises(ConfigError, match="`most` must be at least 1"):
        suspects(Detector(), rows, most=0)


def test_a_stream_has_no_suspects(file):
    with pytest.raises(ConfigError, match="streamed are too many"):
        Detector().suspicion(ExampleStream(file, buffer=10))


def test_by_commands_suspects_are_written_labelled_and_left_out(file, tmp_path):
    common = [file, "--id", "serial", "--set", "posterior.draws=2"]
    said = run("fit", *common, "--out", tmp_path / "first", "--suspects", "4").stdout
    path = tmp_path / "first-suspects.csv"
    assert "first-suspects.csv" in said.replace("\n", "")
    assert len(pd.read_csv(path)) == 4
    labelled(path, {"0003": "1", "0040": "1", "0077": "1"})
    run("fit", *common, "--out", tmp_path / "second", "--labelled", path, "--set", "trimming=true")
    second = load(tmp_path / "second")
    assert second.n_training_ == 100
    assert second.trimming == Trimming()
    run("fit", *common, "--out", tmp_path / "third", "--set", "trimming.share=0.05")
    assert load(tmp_path / "third").trimming.share == 0.05
    some = run("fit", *common, "--out", tmp_path / "no", "--set", "trimming.share=some", code=1).stderr
    assert "--set trimming.share" in some
    streamed = run("fit", *common, "--out", tmp_path / "no", "--labelled", path, "--set", "buffer=10", code=1).stderr
    assert "--set stream=false" in streamed
