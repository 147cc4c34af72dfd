"""The paper: its settings as presets, and the reproduction of its tables and figures.

Nothing else imports it but the command line and the experiments.
"""

from indubio_lab.paper.presets import CollectionName
from indubio_lab.paper.reproduction.cell_store import CellStore
from indubio_lab.paper.reproduction.result_folder import experiments, quick_grid, write_results

__all__ = ["CellStore", "CollectionName", "experiments", "quick_grid", "write_results"]
