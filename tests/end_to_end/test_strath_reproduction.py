"""STRATH from traces to figures. The traces are generated, and every figure says so."""

from concurrent.futures import ThreadPoolExecutor

import matplotlib as mpl
import numpy as np
import pytest

from indubio_lab.grids import run_grid
from indubio_lab.paper import CellStore
from indubio_lab.paper.reproduction.cells import grid
from indubio_lab.paper.reproduction.figures import FIGURES, write_figures
from indubio_lab.paper.reproduction.figures.results import Results
from tests.strath_traces import write_measurements, write_traces

DEFECTIVE = (55, 64, 65, 66, 67, 69, 71)
SHORTEST = 303


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    off = [0.2 if part in DEFECTIVE else 0.01 + 0.0002 * part for part in range(1, 82)]
    write_measurements(folder / "strath", off)
    write_traces(folder / "strath", rows=400, shortest=SHORTEST, anomalies=DEFECTIVE, filler=False)
    return folder


@pytest.fixture(scope="module")
def results(folder, tmp_path_factory) -> Results:
    models = ["Deterministic AE", "BAE-Ensemble"]
    cells = grid(
        ["strath"], models=models, tasks=["all"], seeds=range(2), variants=["training.epochs=2"], folder=str(folder)
    )
    store = CellStore(tmp_path_factory.mktemp("results"))
    with ThreadPoolExecutor(1) as executor:
        run_grid(cells, store, executor=executor)
    return Results(store=store, cells=tuple(cells))


def texts(figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(mpl.text.Text))


def test_a_grid_on_generated_traces_is_marked_from_the_record_to_the_figure(results):
    assert len(results.records) == 4
    assert all(record.generated and record.anomalies == 7 and record.train == 51 for record in results.records)
    for name in ("boxes", "gss-curves", "auroc-curves", "conversion-curves", "training-size"):
        figure = FIGURES[name](results)
        assert "STRATH (generated traces, not the real data)" in texts(figure)
        assert "no result on them is a result on STRATH" in texts(figure)
    titles = [axes.get_title() for axes in FIGURES["gss-curves"](results).axes if axes.get_visible()]
    assert titles == ["(iv) All sensors"]


def test_the_pipeline_is_drawn_of_the_files_in_the_folder(results, folder):
    figure = FIGURES["strath-pipeline"](results)
    lines = (folder / "strath" / "Scope0001.csv").read_text("cp1252").splitlines()
    place = [name.strip('"') for name in lines[0].split(",")].index("L_ACTpos [mm]")
    raw = np.array([float(row.split(",")[place]) for row in lines[1:]])
    by_column = np.array(figure.axes[2:]).reshape(4, 3)
    np.testing.assert_array_equal(by_column[0, 0].lines[0].get_ydata(), raw)
    assert len(by_column[2, 0].lines[0].get_ydata()) == SHORTEST // 10
    said = texts(figure)
    assert "generated traces, not the real data" in said
    assert "anomaly (7)" in said


def test_the_figures_are_written_as_files(results, tmp_path):
    names = ["boxes", "strath-pipeline"]
    written = write_figures(results.store, results.cells, tmp_path, names=names, formats=["svg"])
    for name in names:
        (path,) = written[name]
        assert "generated traces, not the real data" in path.read_text()
