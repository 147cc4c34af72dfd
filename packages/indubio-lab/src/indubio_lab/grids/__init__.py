"""Grids of cells: what is computed once for every cell, kept in a folder, and gone on with after a stop.

    cells -> run_grid over workers -> one small file for every cell that is done

What a cell computes is not known here: a `CellFolder` says it.
"""

from indubio_lab.grids.cell_folder import CellFolder, GridCell, Plain
from indubio_lab.grids.grid_run import GridAdvance, run_grid

__all__ = ["CellFolder", "GridAdvance", "GridCell", "Plain", "run_grid"]
