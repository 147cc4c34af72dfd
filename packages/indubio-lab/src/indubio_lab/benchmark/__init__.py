"""Detectors compared: any of ours and any of scikit-learn's and PyOD's, on many sets, with ranks, tests and costs.

    sets x contenders x seeds -> cells -> run_grid -> BenchmarkStore -> Standings -> tables, figures, one page

    from indubio_lab.benchmark import BenchmarkStore, Standings, benchmark_cells, benchmark_sets
    from indubio_lab.benchmark import contenders, write_results
    from indubio_lab.grids import run_grid

    taking_part = contenders(["default", "knn", "lof"])
    cells = benchmark_cells(benchmark_sets(["odds"]), taking_part, seeds=5)
    store = BenchmarkStore("results")
    run_grid(cells, store)
    write_results(Standings.of(taking_part, store.records(cells)), "default", store.folder, cells=len(cells))

`indubio benchmark` does this from the command line.
"""

from indubio_lab.benchmark.benchmark_cell import BenchmarkCell, BenchmarkSet, benchmark_cells, benchmark_sets
from indubio_lab.benchmark.benchmark_page import (
    cells_csv,
    detection_sheet,
    uncertainty_sheet,
    write_markdown,
    write_results,
)
from indubio_lab.benchmark.benchmark_store import BenchmarkRecord, BenchmarkStore
from indubio_lab.benchmark.contender import OURS, PEERS, Contender, contenders
from indubio_lab.benchmark.measures import MEASURES, Measures
from indubio_lab.benchmark.one_class import OneClass
from indubio_lab.benchmark.standings import PairTest, Standings

__all__ = [
    "MEASURES",
    "OURS",
    "PEERS",
    "BenchmarkCell",
    "BenchmarkRecord",
    "BenchmarkSet",
    "BenchmarkStore",
    "Contender",
    "Measures",
    "OneClass",
    "PairTest",
    "Standings",
    "benchmark_cells",
    "benchmark_sets",
    "cells_csv",
    "contenders",
    "detection_sheet",
    "uncertainty_sheet",
    "write_markdown",
    "write_results",
]
