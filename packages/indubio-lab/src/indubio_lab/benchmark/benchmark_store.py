"""The folder of results of a benchmark: a small file for every cell."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial

from indubio import __version__
from indubio_lab.benchmark.benchmark_cell import BenchmarkCell, BenchmarkOutcome, run
from indubio_lab.benchmark.measures import MEASURES, Measures
from indubio_lab.grids import CellFolder, Plain

DIGITS = 6  # of what is kept


@dataclass(frozen=True, kw_only=True)
class BenchmarkRecord:
    """A cell that is done.

    Args:
        collection: of the set.
        task: the set.
        detector: by name.
        seed: of the cell.
        outcome: sizes and measures.
    """

    collection: str
    task: str
    detector: str
    seed: int
    outcome: BenchmarkOutcome


class BenchmarkStore(CellFolder[BenchmarkCell]):
    """Results of a benchmark in a folder."""

    def job(self, cell: BenchmarkCell) -> Callable[[], None]:
        """Run the cell and keep what was measured."""
        return partial(run_and_keep, cell, str(self.folder.absolute()))

    def write(self, cell: BenchmarkCell, outcome: BenchmarkOutcome) -> None:
        """Keep the outcome of a cell."""
        measures = outcome.measures
        cost = 0.0 if measures is None else measures.fit_seconds + measures.score_seconds
        plain = asdict(outcome)
        if measures is not None:
            plain["measures"] = {name: round(value, DIGITS) for name, value in asdict(measures).items()}
        self.keep(cell, cost, {"version": __version__} | plain)

    def records(self, cells: Iterable[BenchmarkCell]) -> list[BenchmarkRecord]:
        """The records of those of the cells that are done."""
        return [_record(plain) for plain in map(self.found, cells) if plain is not None]


def run_and_keep(cell: BenchmarkCell, folder: str) -> None:
    """What one worker does with one cell."""
    BenchmarkStore(folder).write(cell, run(cell))


def _record(plain: Plain) -> BenchmarkRecord:
    measured = plain["measures"]
    undefined = float("nan")  # JSON has none
    measures = None
    if measured is not None:
        measures = Measures(**{n: undefined if measured.get(n) is None else float(measured[n]) for n in MEASURES})
    sizes = {name: plain[name] for name in ("train", "features", "inliers", "anomalies", "left_out")}
    return BenchmarkRecord(**plain["cell"], outcome=BenchmarkOutcome(measures=measures, **sizes))
