"""The folder of results: two small files for every cell that is done.

    zema-fits/authors/valve/bae-ensemble/7.safetensors     raw scores of every example under every draw
    zema-fits/authors/valve/bae-ensemble/7.json            what was judged of them, and what it cost

The raw scores are written before the judgement, which makes the cell done. Judgements alone make all tables; only
figures of single examples need raw scores.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from safetensors.numpy import load, save

from indubio import __version__
from indubio.io import whole_file
from indubio_lab.grids import CellFolder
from indubio_lab.paper.reproduction.cells import Cell, CellOutcome, run
from indubio_lab.paper.reproduction.judgements import Judgement, judge


@dataclass(frozen=True, kw_only=True)
class Record:
    """A cell that is done, without its raw scores.

    Args:
        cell: which.
        train: training examples.
        inliers: test inliers.
        anomalies: test anomalies.
        draws: draws of the model.
        cpu_seconds: of fitting and scoring.
        generated: whether the data was made up.
        remarks: what must be said beside it.
        judged: W and Base under every conversion, uncertainty and metric.
    """

    cell: Cell
    train: int
    inliers: int
    anomalies: int
    draws: int
    cpu_seconds: float
    generated: bool
    remarks: tuple[str, ...]
    judged: tuple[Judgement, ...]


class CellStore(CellFolder[Cell]):
    """Results of the paper's cells: raw scores, and what was judged of them."""

    def job(self, cell: Cell) -> Callable[[], None]:
        """Train, score, judge and keep."""
        return partial(run_and_write, cell, str(self.folder.absolute()))

    def has_scores(self, cell: Cell) -> bool:
        """Whether the raw scores of a cell that is done are here, and not only what was judged of them."""
        return self.is_done(cell) and self.path(cell, "safetensors").exists()

    def write(self, cell: Cell, outcome: CellOutcome) -> None:
        """Keep the outcome of a cell, judged."""
        raw = self.path(cell, "safetensors")
        raw.parent.mkdir(parents=True, exist_ok=True)
        arrays = {"train_nll": outcome.train_nll, "test_nll": outcome.test_nll, "labels": outcome.labels.astype("u1")}
        with whole_file(raw) as stream:
            stream.write(save(arrays))
        anomalies = int(outcome.labels.sum())
        self.keep(
            cell,
            outcome.cpu_seconds,
            {
                "version": __version__,
                "train": outcome.train_nll.shape[1],
                "inliers": len(outcome.labels) - anomalies,
                "anomalies": anomalies,
                "draws": len(outcome.train_nll),
                "generated": outcome.generated,
                "remarks": list(outcome.remarks),
                "judged": [list(asdict(one).values()) for one in judge(outcome)],
            },
        )

    def record(self, cell: Cell) -> Record:
        """What was judged of a cell that is done."""
        return _record(self.kept(cell))

    def records(self, cells: Iterable[Cell]) -> Iterator[Record]:
        """The records of those of the cells that are done."""
        return (_record(plain) for plain in map(self.found, cells) if plain is not None)

    def outcome(self, cell: Cell) -> CellOutcome:
        """The raw scores of a cell."""
        arrays = load(self.path(cell, "safetensors").read_bytes())
        record = self.record(cell)
        return CellOutcome(
            train_nll=arrays["train_nll"],
            test_nll=arrays["test_nll"],
            labels=arrays["labels"].astype(int),
            cpu_seconds=record.cpu_seconds,
            generated=record.generated,
            remarks=record.remarks,
        )


def run_and_write(cell: Cell, folder: str) -> None:
    """What one worker does with one cell."""
    CellStore(folder).write(cell, run(cell))


def _record(plain: dict[str, Any]) -> Record:
    return Record(
        cell=Cell(**plain["cell"]),
        judged=tuple(_judged(*one) for one in plain["judged"]),
        remarks=tuple(plain["remarks"]),
        **{name: plain[name] for name in ("train", "inliers", "anomalies", "draws", "cpu_seconds", "generated")},
    )


def _judged(
    conversion: str, uncertainty: str, metric: str, weighted_average: float | None, base: float | None
) -> Judgement:
    undefined = float("nan")  # JSON has none
    return Judgement(
        conversion,
        uncertainty,
        metric,
        undefined if weighted_average is None else weighted_average,
        undefined if base is None else base,
    )
