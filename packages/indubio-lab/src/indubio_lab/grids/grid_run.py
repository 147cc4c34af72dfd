"""Runs the cells that are not done yet, over processes or a cluster, and tells how far it is.

Any `concurrent.futures` executor will do: cells are plain values, and each writes its own files when it is done. The
workers of a cluster must see the folder of results.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass

from indubio.errors import IndubioError, TrainingError
from indubio.workers import Workers
from indubio_lab.grids.cell_folder import CellFolder, CellT, GridCell


@dataclass(frozen=True)
class GridAdvance:
    """How far a run is.

    Args:
        done: cells that are done, with those of earlier runs.
        total: cells in all.
        cpu_left: estimate of the processor seconds that are left; None until a cell was timed.
        latest: the cell that was done last.
    """

    done: int
    total: int
    cpu_left: float | None
    latest: GridCell | None


def run_grid(
    cells: Sequence[CellT],
    store: CellFolder[CellT],
    *,
    executor: Executor | None = None,
    workers: Workers | None = None,
    tell: Callable[[GridAdvance], None] = lambda _: None,
) -> None:
    """Run what is not done. A cell that cannot be trained does not stop the others; it is named at the end.

    Args:
        cells: all that should be there in the end.
        store: where results are and go.
        executor: runs the cells; None takes that of `workers`.
        workers: where they run; None is a process for each core.
        tell: called at the start and after every cell.
    """
    waiting = [cell for cell in cells if not store.is_done(cell)]
    estimate = _Estimate(cells, store)
    tell(estimate.advance(None))
    if not waiting:
        return
    if executor is not None:
        _run(executor, waiting, store, estimate, tell)
        return
    with (workers or Workers()).executor() as pool:
        _run(pool, waiting, store, estimate, tell)


def _run(
    executor: Executor,
    waiting: Sequence[CellT],
    store: CellFolder[CellT],
    estimate: "_Estimate",
    tell: Callable[[GridAdvance], None],
) -> None:
    jobs: dict[Future[object], CellT] = {executor.submit(store.job(cell)): cell for cell in waiting}
    failures: dict[CellT, IndubioError] = {}
    try:
        for job in as_completed(jobs):
            cell = jobs[job]
            try:
                job.result()
            except IndubioError as error:
                failures[cell] = error
            else:
                estimate.add(cell, store.kept(cell)["cpu_seconds"])
                tell(estimate.advance(cell))
    except BaseException:  # Ctrl-C, or a worker that was killed: what is written stays, the rest need not start
        for job in jobs:
            job.cancel()
        raise
    if failures:
        first, why = next(iter(failures.items()))
        raise TrainingError(f"{len(failures)} of {len(waiting)} cells failed, first {first.name}: {why}")


class _Estimate:
    """Processor time that is left: cells of one task and model cost about the same with every seed."""

    def __init__(self, cells: Sequence[CellT], store: CellFolder[CellT]) -> None:
        self._cells: Sequence[GridCell] = cells
        self._costs: dict[Hashable, list[float]] = defaultdict(list)
        self._done: set[GridCell] = set()
        for cell in cells:
            if store.is_done(cell):
                self.add(cell, store.kept(cell)["cpu_seconds"])

    def add(self, cell: GridCell, cpu_seconds: float) -> None:
        self._done.add(cell)
        self._costs[cell.series].append(cpu_seconds)

    def advance(self, latest: GridCell | None) -> GridAdvance:
        return GridAdvance(len(self._done), len(self._cells), self._left(), latest)

    def _left(self) -> float | None:
        known = {series: sum(costs) / len(costs) for series, costs in self._costs.items()}
        if not known:
            return None
        usual = sum(known.values()) / len(known)
        return sum(known.get(cell.series, usual) for cell in self._cells if cell not in self._done)
