"""Cells and their folder: the same split for all, computed once, and again when something changed."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from indubio import AnchoredEnsemble, Detector, Training
from indubio.errors import ConfigError, DataError, TrainingError
from indubio.evaluation import auroc
from indubio_lab.benchmark import (
    BenchmarkStore,
    OneClass,
    Standings,
    benchmark_cells,
    benchmark_sets,
    contenders,
    write_results,
)
from indubio_lab.benchmark.benchmark_cell import run
from indubio_lab.grids import run_grid
from tests.labelled_files import write_folder

SMALL = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=2))


@pytest.fixture
def sets(tmp_path):
    return benchmark_sets([str(write_folder(tmp_path / "parts"))], label="defect", ignore=["serial"])


def test_the_sets_of_a_folder_are_named_by_their_files(sets):
    assert [(one.collection, one.name) for one in sets] == [("parts", name) for name in ("drill", "lathe", "press")]


def test_files_that_differ_in_their_endings_only_keep_them(tmp_path):
    folder = write_folder(tmp_path / "parts")
    (folder / "drill.csv").rename(folder / "press.csv")
    named = benchmark_sets([str(folder)], label="defect")
    assert [one.name for one in named] == ["lathe", "press.csv", "press.npz"]


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (
            {"collections": ["nowhere"]},
            ConfigError,
            r'no collection or folder \'nowhere\'; there are "odds", "adbench"',
        ),
        ({"collections": ["odds"], "sets": ["mnist"]}, ConfigError, r'no set \'mnist\'; there are "cardio"'),
    ],
)
def test_what_is_not_there_is_refused(asked, error, message):
    with pytest.raises(error, match=message):
        benchmark_sets(**asked)


def test_a_folder_without_the_label_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(DataError, match=r'drill.csv has no "broken"; it has "serial".*by `label`'):
        benchmark_sets([str(write_folder(tmp_path))], label="broken")


def test_a_plain_peer_is_the_packages_own_on_z_scores(sets):
    (cell,) = benchmark_cells(sets[:1], contenders(["knn"], refits=False), seeds=1)
    rows = OneClass().parted(sets[0].read(), seed=0)
    scaler = StandardScaler().fit(rows.train)
    model = NearestNeighbors(n_neighbors=5).fit(scaler.transform(rows.train))
    distances, _ = model.kneighbors(scaler.transform(rows.test))
    found = run(cell)
    assert found.measures.auroc == pytest.approx(auroc(rows.anomalous, distances[:, -1]))
    assert np.isnan(found.measures.gss_w)
    assert (found.train, found.inliers, found.anomalies, found.features) == (40, 40, 12, 3)


def test_ours_get_raw_rows_and_the_seed(sets):
    (cell,) = benchmark_cells(sets[:1], contenders([], own={"small": SMALL}), seeds=1)
    seeded = replace(cell, seed=4)
    rows = OneClass().parted(sets[0].read(), seed=4)
    found = Detector(posterior=SMALL.posterior, training=SMALL.training, seed=4).fit(rows.train).assess(rows.test)
    measures = run(seeded).measures
    assert measures.auroc == auroc(rows.anomalous, found.nll)
    assert measures.error == np.mean(found.prediction != rows.anomalous)
    assert measures.model_bytes > 0


def test_a_slow_one_is_left_out_of_a_large_set_and_done(tmp_path):
    large = benchmark_sets([str(write_folder(tmp_path / "p", good=2100))], label="defect", ignore=["serial"])
    (cell,) = benchmark_cells(large[:1], contenders(["lunar"], refits=False), seeds=1)
    store = BenchmarkStore(tmp_path / "out")
    run_grid([cell], store, executor=ThreadPoolExecutor(1))
    assert store.is_done(cell)
    (record,) = store.records([cell])
    assert record.outcome.left_out == "1050 training rows, more than 1000"


def test_a_run_goes_on_where_it_stopped(sets, tmp_path):
    taking_part = contenders(["knn", "lof"])
    cells = benchmark_cells(sets, taking_part, seeds=2)
    store, told = BenchmarkStore(tmp_path / "out"), []
    run_grid(cells[:5], store, executor=ThreadPoolExecutor(1))
    run_grid(cells, store, executor=ThreadPoolExecutor(1), tell=told.append)
    assert told[0].done == 5
    assert told[-1].done == len(cells) == 24


def test_the_same_cell_gives_the_same_numbers(sets):
    cells = benchmark_cells(sets[:1], contenders(["iforest", "kmeans"]), seeds=1)
    for cell in cells:
        first, second = run(cell).measures, run(cell).measures
        for name in ("auroc", "aupr", "gss", "gss_w", "log_loss"):
            np.testing.assert_equal(getattr(first, name), getattr(second, name))


def test_a_changed_setting_protocol_or_file_is_computed_again(sets, tmp_path):
    few, many = (
        contenders([], own={"small": Detector(posterior=AnchoredEnsemble(members=members))}) for members in (2, 3)
    )
    prints = {benchmark_cells(sets[:1], who, seeds=1)[0].fingerprint() for who in (few, many)}
    prints.add(benchmark_cells(sets[:1], few, seeds=1, protocol=OneClass(most_train=30))[0].fingerprint())
    write_folder(tmp_path / "parts", good=90)
    prints.add(benchmark_cells(sets[:1], few, seeds=1)[0].fingerprint())
    assert len(prints) == 4


def test_what_a_package_cannot_do_is_named_and_the_others_are_done(tmp_path):
    few = benchmark_sets([str(write_folder(tmp_path / "p", good=20))], label="defect", ignore=["serial"])
    cells = benchmark_cells(few[:1], contenders(["lof", "kmeans", "gmm", "nn"], refits=False), seeds=1)
    broken = replace(cells[1].contender, make=lambda: NearestNeighbors(n_neighbors=1000))
    cells[1] = replace(cells[1], contender=broken)
    store = BenchmarkStore(tmp_path / "out")
    with pytest.raises(TrainingError, match=r"1 of 4 cells failed, first p/drill/kmeans/0: "):
        run_grid(cells, store, executor=ThreadPoolExecutor(1))
    assert len(store.records(cells)) == 3


def test_all_files_are_written(sets, tmp_path):
    taking_part = contenders(["knn", "lof"], own={"small": SMALL})
    cells, store = benchmark_cells(sets, taking_part, seeds=1), BenchmarkStore(tmp_path / "out")
    run_grid(cells, store, executor=ThreadPoolExecutor(1))
    standings = Standings.of(taking_part, store.records(cells))
    written = write_results(standings, "small", store.folder, cells=len(cells))
    assert [path.name for path in written] == ["benchmark.md", "benchmark.html", "cells.csv"]
    page, text = written[1].read_text(), written[0].read_text()
    assert page.count("<svg") == 5
    assert "http" not in page.replace("http://www.w3.org", "")  # it needs nothing else
    assert "## small against the others: AUROC" in text
    assert "## False alarms" in text
    assert len(written[2].read_text().splitlines()) == 1 + len(cells)
