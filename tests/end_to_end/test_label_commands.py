"""Labels on the command line: which rows count as bad is never a matter of spelling, and never left unsaid."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

from tests.end_to_end.test_commands import run
from tests.labelled_files import arrow, labelled

LABEL = ("--label", "defect")


def written(path, labels, seed=0):
    """A table with these texts for good and bad, in a CSV file."""
    rows, bad = labelled(seed)
    arrow_csv.write_csv(arrow(rows, np.array(labels, dtype=object)[bad]), path)
    return path


def fitted(folder, source, *more, code=0):
    return run("fit", source, *LABEL, "--id", "serial", *more, "-o", folder / "model", "--overwrite", code=code)


@pytest.fixture
def model(tmp_path):
    fitted(tmp_path, written(tmp_path / "train.csv", ("ok", "nok")), "--anomaly", "nok")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("spelled", "named"),
    [(("0.0", "1.0"), "1"), (("1", "2"), "2.0"), (("false", "true"), "True"), (("ok", "nok"), "nok")],
)
def test_a_label_is_the_same_however_it_is_spelled_and_bad_rows_left_out_are_told(tmp_path, spelled, named):
    told = fitted(tmp_path, written(tmp_path / "train.csv", spelled), "--anomaly", named, "--json")
    assert json.loads(told.stdout)["examples"] == 80
    assert "Left out 12 rows labelled as anomalies" in told.stderr
    assert "80 rows with" in told.stderr


def test_numbers_of_a_spreadsheet_are_compared_as_numbers(tmp_path):
    rows, bad = labelled(0)
    parquet.write_table(arrow(rows, bad + 1.0), tmp_path / "train.parquet")  # 1.0 and 2.0, as a spreadsheet has them
    told = fitted(tmp_path, tmp_path / "train.parquet", "--anomaly", "2", "--json")
    assert json.loads(told.stdout)["examples"] == 80


@pytest.mark.parametrize("spelled", ["NOK", "nok ", "N OK"])
def test_a_label_that_differs_by_case_or_spaces_only_is_refused(tmp_path, model, spelled):
    other = written(tmp_path / "other.csv", ("ok", spelled))
    for said in (
        fitted(tmp_path, other, "--anomaly", "nok", code=1).stderr,
        run("assess", other, "-m", model, "-o", tmp_path / "found.csv", code=1).stderr,  # the model knows nok
    ):
        assert f'label column "defect" has "{spelled}"' in said
        assert '--anomaly has "nok"' in said


def test_a_label_that_no_row_has_is_refused_unless_all_rows_are_alike(tmp_path):
    said = fitted(tmp_path, written(tmp_path / "train.csv", ("ok", "scrap")), "--anomaly", "nok", code=1).stderr
    assert 'no row has "nok" in the label column "defect"; there are "ok", "scrap"' in said
    told = fitted(tmp_path, written(tmp_path / "good.csv", ("ok", "ok")), "--anomaly", "nok")
    assert 'No row has "nok" in the label column "defect": all 92 have "ok", and are taken for good.' in told.stderr


def test_assess_says_when_no_row_has_the_label_of_an_anomaly(tmp_path, model):
    other = written(tmp_path / "other.csv", ("ok", "scrap"))
    said = run("assess", other, "-m", model, "-o", tmp_path / "found.csv").stderr
    assert 'No row has "nok" in the label column "defect"; there are "ok", "scrap", and all are labelled 0.' in said


def test_evaluate_takes_the_labels_that_assess_wrote(tmp_path, model):
    new, found = written(tmp_path / "new.csv", ("ok", "nok"), seed=1), tmp_path / "found.csv"
    run("assess", new, "-m", model, "-o", found)
    plain = run("evaluate", found, *LABEL, "--json")
    named = run("evaluate", found, *LABEL, "--anomaly", "nok", "--json")
    assert named.stdout == plain.stdout
    assert '"defect" holds 0 and 1, as `assess` writes them' in named.stderr


@pytest.mark.parametrize(("role", "name"), [("--label", "prediction"), ("--id", "verdict"), ("--id", "top_features")])
def test_a_column_named_like_one_of_the_output_is_refused_at_fit(tmp_path, role, name):
    rows, bad = labelled(0)
    arrow_csv.write_csv(arrow(rows, bad, name), tmp_path / "train.csv")
    said = run("fit", tmp_path / "train.csv", "--id", "serial", role, name, "-o", tmp_path / "m", code=1).stderr
    assert f'columns "{name}" of the input have names of the output' in said
    assert not (tmp_path / "m").exists()


def test_a_label_named_like_one_of_the_output_is_refused_at_assess(tmp_path, model):
    rows, bad = labelled(1)
    arrow_csv.write_csv(arrow(rows, bad, "prediction"), tmp_path / "new.csv")
    told = ("assess", tmp_path / "new.csv", "-m", model, "--label", "prediction", "-o", tmp_path / "found.csv")
    assert 'columns "prediction" of the input have names of the output' in run(*told, code=1).stderr
    assert not (tmp_path / "found.csv").exists()


@pytest.fixture
def partly(tmp_path):
    """New parts, of which the first five are not inspected yet."""
    rows, bad = labelled(1)
    labels = ["", *[None] * 4, *np.array(["ok", "nok"])[bad][5:].tolist()]
    arrow_csv.write_csv(arrow(rows, pa.array(labels)), tmp_path / "partly.csv")
    return tmp_path / "partly.csv"


def test_parts_without_a_label_are_assessed_and_left_out_of_the_evaluation(tmp_path, model, partly):
    found = tmp_path / "found.parquet"
    said = run("assess", partly, "-m", model, "-o", found).stderr
    assert '5 of 92 rows have no label in "defect": it stays empty in the output.' in said
    labels = parquet.read_table(found)["defect"]
    assert labels.to_pylist() == [None] * 5 + [0] * 75 + [1] * 12
    judged = run("evaluate", found, *LABEL, "--json")
    assert 'Left out 5 of 92 rows that have no label in "defect".' in judged.stderr
    assert json.loads(judged.stdout)["total"]["examples"] == 87
    run("report", partly, "-m", model, "-o", tmp_path / "report.html")
    assert "5 of 92 rows have no label in" in (tmp_path / "report.html").read_text("utf-8")


def test_workers_keep_an_empty_label_empty(tmp_path, model, partly):
    run("assess", partly, "-m", model, "-o", tmp_path / "found", "--workers", "1", "--format", "parquet")
    (shard,) = (tmp_path / "found").rglob("*.parquet")
    assert parquet.read_table(shard)["defect"].null_count == 5


def test_parts_without_a_label_do_not_train(tmp_path, partly):
    said = fitted(tmp_path, partly, "--anomaly", "nok", code=1).stderr
    assert 'label column "defect" is empty (5 rows are), and what is not labelled is not known to be good' in said


def test_the_label_that_a_model_knows_can_be_ignored(tmp_path, model, partly):
    found = tmp_path / "found.parquet"
    run("assess", partly, "-m", model, "--label", "", "-o", found)
    assert "defect" not in parquet.read_table(found).column_names


def test_learn_knows_the_labels_that_the_model_keeps(tmp_path, model, partly):
    told = run(
        "learn",
        partly,
        "-m",
        model,
        *LABEL,
        "--recent",
        partly,
        "-o",
        tmp_path / "learned",
        "--json",
        "--set",
        "hold_out=false",
    )
    assert json.loads(told.stdout)["labels"] == 87
    assert json.loads(told.stdout)["anomalies"] == 12
    assert 'Left out 5 of 92 rows that have no label in "defect".' in told.stderr


def test_windows_have_labels_as_numbers_too(tmp_path):
    values = np.random.default_rng(0).normal(size=400)
    bad = np.repeat([0.0, 1.0, 0.0], [200, 20, 180])
    parquet.write_table(pa.table({"s": values, "anomaly": bad}), tmp_path / "run.parquet")
    cut = ("--label", "anomaly", "--anomaly", "1")
    told = run("fit", tmp_path / "run.parquet", "--window", "10", *cut, "-o", tmp_path / "m", "--json")
    assert json.loads(told.stdout)["examples"] == 38
    run("assess", tmp_path / "run.parquet", "-m", tmp_path / "m", *cut, "-o", tmp_path / "found.parquet")
    assert sum(parquet.read_table(tmp_path / "found.parquet")["anomaly"].to_pylist()) == 2
