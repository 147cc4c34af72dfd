"""The folder of results: two small files for every cell that is done.

    zema-fits/authors/valve/bae-ensemble/7.safetensors     raw scores of every example under every draw
    zema-fits/authors/valve/bae-ensemble/7.json            what was judged of them, and what it cost
    cells-zema-authors.jsonl                               the judgements of all cells, to keep without raw scores

The raw scores are written before the judgement, which makes the cell done. Judgements alone make all tables and tests;
only figures of single examples need raw scores. In the file of all cells numbers are rounded to a thousandth of a
percent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from safetensors.numpy import load, save

from indubio import __version__
from indubio.grids import CellFolder, Plain
from indubio.io.whole_files import whole_file
from indubio.paper.reproduction.cells import Cell, CellOutcome, run
from indubio.paper.reproduction.judgements import Judgement, judge
from indubio.uncertainty import UncertaintyName

DIGITS = 5  # of what an archive keeps


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

    def archive_name(self, cell: Cell) -> str:
        """The judgements of a collection and protocol are kept together."""
        return f"cells-{cell.collection}-{cell.protocol}.jsonl"

    def packed(self, plain: Plain) -> Plain:
        """W by metric and conversion as plain lists, Base first: names of uncertainties would be most of the file."""
        names = list(dict.fromkeys(uncertainty for _, uncertainty, *_ in plain["judged"]))
        judged: dict[str, dict[str, list[float | None]]] = {}
        for conversion, uncertainty, metric, weighted_average, base in plain["judged"]:
            of = judged.setdefault(metric, {}).setdefault(conversion, [_rounded(base), *[None] * len(names)])
            of[1 + names.index(uncertainty)] = _rounded(weighted_average)
        return plain | {"uncertainties": names, "judged": judged}

    def unpacked(self, packed: Plain) -> Plain:
        """The judgements as a cell's own file has them."""
        names = packed["uncertainties"]
        judged = [
            [conversion, uncertainty, metric, weighted_average, base]
            for metric, conversions in packed["judged"].items()
            for conversion, (base, *averages) in conversions.items()
            for uncertainty, weighted_average in zip(names, averages, strict=True)
        ]
        return {name: value for name, value in packed.items() if name != "uncertainties"} | {"judged": judged}

    def has_scores(self, cell: Cell) -> bool:
        """Whether the raw scores of a cell that is done are here, and not only what was judged of them."""
        return self.own(cell) is not None and self.path(cell, "safetensors").exists()

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

    def records(self, cells: Iterable[Cell], more: Sequence[UncertaintyName] = ()) -> Iterator[Record]:
        """The records of those of the cells that are done.

        Args:
            cells: which.
            more: uncertainties beside the paper's five; judged where the raw scores are there.
        """
        for record in (_record(plain) for plain in map(self.found, cells) if plain is not None):
            if more and self.path(record.cell, "safetensors").is_file():
                record = replace(record, judged=(*record.judged, *judge(self.outcome(record.cell), more)))
            yield record

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


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


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
