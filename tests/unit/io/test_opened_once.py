"""A file is opened and looked at once, whatever a command does with it: here every opening is counted."""

from collections import Counter
from typing import ClassVar

import fsspec
import numpy as np
import pandas as pd
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from indubio import Detector, load, save
from indubio.data import Reading, Roles, read_table
from indubio.io.csv_files import BEGINNING
from indubio.judge import Judge
from tests.end_to_end.test_commands import run

NAMES = ["heat", "flow", "speed"]


class CountedFileSystem(MemoryFileSystem):
    """A file system in memory that counts how often each of its files is opened to read."""

    protocol = "counted"
    store, pseudo_dirs = {}, [""]
    openings: ClassVar[Counter[str]] = Counter()

    def _open(self, path, mode="rb", **options):
        if mode == "rb":
            self.openings[path.rpartition("/")[2]] += 1
        return super()._open(path, mode=mode, **options)


@pytest.fixture(autouse=True)
def counted():
    fsspec.register_implementation("counted", CountedFileSystem, clobber=True)
    CountedFileSystem.store.clear()
    CountedFileSystem.openings.clear()
    return CountedFileSystem.openings


def written(name: str, rows: int = 60, **more) -> str:
    values = np.random.default_rng(0).normal(size=(rows, 3))
    url = f"counted://data/{name}"
    with fsspec.open(url, "w") as file:
        pd.DataFrame(values, columns=NAMES).assign(**more).to_csv(file, index=False)
    return url


@pytest.fixture
def model(tmp_path):
    detector = Detector().fit(np.random.default_rng(1).normal(size=(60, 3)))
    reading = Reading(table=Roles(columns=tuple(NAMES), label="state", anomaly_values=("bad",)))
    table = read_table(pd.DataFrame(np.random.default_rng(1).normal(size=(60, 3)), columns=NAMES))
    save(detector.fit(table).read_by(reading), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("more", [{}, {"state": "good"}, {"colour": "red"}], ids=["plain", "label", "unused"])
def test_assess_opens_a_file_once(model, counted, tmp_path, more):
    url = written("new.csv", **more)
    run("assess", url, "--model", model, "--out", tmp_path / "out.csv")
    assert counted == {"new.csv": 1}
    assert len(pd.read_csv(tmp_path / "out.csv")) == 60


@pytest.mark.parametrize("flags", [[], ["--label", "state", "--anomaly", "bad"], ["--id", "state"]], ids=str)
def test_fit_opens_a_file_once(counted, tmp_path, flags):
    url = written("good.csv", state=["bad"] * 2 + ["good"] * 58)
    if not flags:
        flags = ["--columns", ",".join(NAMES)]
    run("fit", url, "--out", tmp_path / "model", *flags)
    assert counted == {"good.csv": 1}
    assert load(tmp_path / "model").n_training_ == (58 if "--label" in flags else 60)


def test_report_and_learn_open_each_file_once(model, counted, tmp_path):
    labelled = written("labelled.csv", state=["bad"] * 10 + ["good"] * 50)
    recent = written("recent.csv")
    run("report", labelled, "--model", model, "--out", tmp_path / "page.html")
    assert counted == {"labelled.csv": 1}
    run("learn", labelled, "-m", model, "--label", "state", "--recent", recent, "-o", tmp_path / "learned")
    assert counted == {"labelled.csv": 2, "recent.csv": 1}


def test_a_file_larger_than_its_beginning_is_opened_to_look_and_to_read(model, counted, tmp_path):
    url = written("large.csv", rows=60_000)
    assert len(fsspec.filesystem("counted").cat(url)) > BEGINNING
    run("assess", url, "--model", model, "--out", tmp_path / "out.csv")
    assert counted == {"large.csv": 2}
    assert len(pd.read_csv(tmp_path / "out.csv")) == 60_000


def test_what_was_opened_is_read_as_the_file_is(model):
    url = written("new.csv", rows=40_000, state="good", colour="red")
    judge = Judge.load(model)
    files = judge.opened(url)
    reading = judge.reading(files)
    once, again = (judge.detector.assess(reading.read(source)) for source in (files, url))
    np.testing.assert_array_equal(once.nll, again.nll)
    assert str(files) == url
