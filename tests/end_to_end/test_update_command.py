"""`indubio update` adds good examples to a model and writes a new one."""

import json

import numpy as np
import pandas as pd
import pytest

from indubio import load
from tests.end_to_end.test_commands import run


def rows(count: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    values = np.random.default_rng(seed).normal(shift, 1, size=(count, 4))
    return pd.DataFrame(values, columns=list("abcd")).assign(part=[f"{seed}-{row}" for row in range(count)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, what it was fitted on, and good rows of another level, two of which a label calls bad."""
    folder = tmp_path_factory.mktemp("update")
    rows(200, 0).assign(bad=0).to_csv(folder / "good.csv", index=False)
    rows(40, 1, shift=4.0).assign(bad=[1, 1, *[0] * 38]).to_csv(folder / "newer.csv", index=False)
    run("fit", folder / "good.csv", "--id", "part", "--label", "bad", "--out", folder / "model")
    return folder


def test_good_rows_are_added_and_bad_ones_left_out(folder):
    asked = ["update", folder / "newer.csv", "-m", folder / "model", "--training", folder / "good.csv"]
    done = run(*asked, "-o", folder / "new", "--json")
    told = json.loads(done.stdout)
    assert (told["added"], told["examples"]) == (38, 238)
    assert told["called_anomalies"]["before"] > told["called_anomalies"]["now"]
    assert "Left out 2 rows labelled as anomalies" in done.stderr
    values = [pd.read_csv(folder / name).query("bad == 0")[list("abcd")] for name in ("good.csv", "newer.csv")]
    in_python = load(folder / "model").update(values[1], training_data=values[0])
    new = load(folder / "new")
    assert new.reading_ is not None
    np.testing.assert_array_equal(new.nll(values[1]), in_python.nll(values[1]))
    run("assess", folder / "newer.csv", "-m", folder / "new", "-o", folder / "found.csv")


def test_a_model_that_keeps_nothing_asks_for_its_training_data_by_its_flag(folder, tmp_path):
    told = run("update", folder / "newer.csv", "-m", folder / "model", "-o", tmp_path / "new", code=1).stderr
    assert "pass --training" in told
    assert "posterior.keep_sums=true" in told
    assert not (tmp_path / "new").exists()


def test_kept_sums_need_no_training_data(folder, tmp_path):
    kept = ["--set", "posterior.kind=random_features", "--set", "posterior.keep_sums=true"]
    run("fit", folder / "good.csv", "--id", "part", "--label", "bad", "--out", tmp_path / "sums", *kept)
    told = json.loads(
        run("update", folder / "newer.csv", "-m", tmp_path / "sums", "-o", tmp_path / "new", "--json").stdout
    )
    assert told["examples"] == 238


def test_a_model_that_is_there_is_not_replaced_unasked(folder):
    asked = ["update", folder / "newer.csv", "-m", folder / "model", "--training", folder / "good.csv"]
    assert "--overwrite" in run(*asked, "-o", folder / "model", code=1).stderr
