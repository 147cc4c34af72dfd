"""Detectors compared: any of ours and any of scikit-learn's and PyOD's, on many sets, with ranks, tests and costs.

    sets x contenders x seeds -> cells -> run_grid -> BenchmarkStore -> Standings -> tables, figures, one page

    from indubio.benchmark import BenchmarkStore, Standings, benchmark_cells, benchmark_sets, contenders, write_results
    from indubio.grids import run_grid

    taking_part = contenders(["default", "knn", "lof"])
    cells = benchmark_cells(benchmark_sets(["odds"]), taking_part, seeds=5)
    store = BenchmarkStore("results")
    run_grid(cells, store)
    write_results(Standings.of(taking_part, store.records(cells)), "default", store.folder, cells=len(cells))

`indubio benchmark` does this from the command line.
"""

from indubio.benchmark.benchmark_cell import BenchmarkCell, BenchmarkSet, benchmark_cells, benchmark_sets
from indubio.benchmark.benchmark_page import (
    cells_csv,
    detection_sheet,
    uncertainty_sheet,
    write_markdown,
    write_results,
)
from indubio.benchmark.benchmark_store import BenchmarkRecord, BenchmarkStore
from indubio.benchmark.contender import OURS, PEERS, Contender, contenders
from indubio.benchmark.measures import MEASURES, Measures
from indubio.benchmark.one_class import OneClass
from indubio.benchmark.standings import PairTest, Standings

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
