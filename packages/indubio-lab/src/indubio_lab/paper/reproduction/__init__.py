"""The paper's experiments: a grid of cells, their results, and the tables and figures made of them.

    cells -> run -> raw scores and judgements in a folder -> tables, tests, figures, one page

Everything here uses what a user has: the detector, its presets, the conversions and the evaluation.
"""

from indubio_lab.grids import GridAdvance, run_grid
from indubio_lab.paper.reproduction.cell_store import CellStore, Record
from indubio_lab.paper.reproduction.cells import Cell, CellOutcome, grid, run
from indubio_lab.paper.reproduction.result_folder import experiments, quick_grid, write_results

__all__ = [
    "Cell",
    "CellOutcome",
    "CellStore",
    "GridAdvance",
    "Record",
    "experiments",
    "grid",
    "quick_grid",
    "run",
    "run_grid",
    "write_results",
]
