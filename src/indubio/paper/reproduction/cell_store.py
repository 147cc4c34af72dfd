"""The folder of results: two small files for every cell that is done.

    zema-fits/authors/valve/bae-ensemble/7.safetensors     raw scores of every example under every draw
    zema-fits/authors/valve/bae-ensemble/7.json            what was judged of them, and what it cost
    cells-zema-authors.jsonl                               the judgements of all cells, to keep without raw scores

A file appears only when it is whole, the raw scores before the judgement: a cell is done if its judgement is there, by
itself or among the others, and its fingerprint is that of the cell. So a run may be killed at any moment, and goes on
where it stopped.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import load, save

from indubio import __version__
from indubio.errors import DataError
from indubio.io.json_text import json_text
from indubio.io.whole_files import whole_file
from indubio.paper.reproduction.archive import Plain, key, read_archive, write_archive
from indubio.paper.reproduction.cells import Cell, CellOutcome, described
from indubio.paper.reproduction.judgements import Judgement, judge


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


class CellStore:
    """Results in a folder, by cell."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._archives: dict[Path, dict[str, Plain]] = {}

    def is_done(self, cell: Cell) -> bool:
        """Whether the cell was computed with the settings it would be computed with now."""
        return self._plain(cell) is not None

    def has_scores(self, cell: Cell) -> bool:
        """Whether the raw scores of a cell that is done are here, and not only what was judged of them."""
        return self._own(cell) is not None and self._path(cell, "safetensors").exists()

    def write(self, cell: Cell, outcome: CellOutcome) -> None:
        """Keep the outcome of a cell, judged."""
        raw = self._path(cell, "safetensors")
        raw.parent.mkdir(parents=True, exist_ok=True)
        arrays = {"train_nll": outcome.train_nll, "test_nll": outcome.test_nll, "labels": outcome.labels.astype("u1")}
        with whole_file(raw) as stream:
            stream.write(save(arrays))
        anomalies = int(outcome.labels.sum())
        record = {
            "cell": described(cell),
            "fingerprint": cell.fingerprint(),
            "version": __version__,
            "train": outcome.train_nll.shape[1],
            "inliers": len(outcome.labels) - anomalies,
            "anomalies": anomalies,
            "draws": len(outcome.train_nll),
            "cpu_seconds": round(outcome.cpu_seconds, 2),
            "generated": outcome.generated,
            "remarks": list(outcome.remarks),
            "judged": [list(asdict(one).values()) for one in judge(outcome)],
        }
        with whole_file(self._path(cell, "json")) as stream:
            stream.write(json_text(record).encode())

    def record(self, cell: Cell) -> Record:
        """What was judged of a cell that is done."""
        plain = self._plain(cell)
        if plain is None:
            raise DataError(f"{self.folder}: the cell {cell.name} is not done.")
        return _record(plain)

    def records(self, cells: Iterable[Cell]) -> Iterator[Record]:
        """The records of those of the cells that are done."""
        return (_record(plain) for plain in map(self._plain, cells) if plain is not None)

    def archive(self, cells: Iterable[Cell]) -> None:
        """Write what was judged of these cells to the files that are kept without raw scores."""
        files: dict[Path, list[Plain]] = defaultdict(list)
        for cell in cells:
            plain = self._own(cell)
            if plain is not None:
                files[self._archive(cell)].append(plain)
        for path, records in files.items():
            write_archive(path, records)

    def outcome(self, cell: Cell) -> CellOutcome:
        """The raw scores of a cell."""
        arrays = load(self._path(cell, "safetensors").read_bytes())
        record = self.record(cell)
        return CellOutcome(
            train_nll=arrays["train_nll"],
            test_nll=arrays["test_nll"],
            labels=arrays["labels"].astype(int),
            cpu_seconds=record.cpu_seconds,
            generated=record.generated,
            remarks=record.remarks,
        )

    def _plain(self, cell: Cell) -> Plain | None:
        own = self._own(cell)
        if own is not None:
            return own
        path = self._archive(cell)
        if path not in self._archives:
            self._archives[path] = read_archive(path)
        return _valid(self._archives[path].get(key(described(cell))), cell)

    def _own(self, cell: Cell) -> Plain | None:
        """What the cell's own file says, if it is there."""
        path = self._path(cell, "json")
        return _valid(_read(path), cell) if path.exists() else None

    def _path(self, cell: Cell, kind: str) -> Path:
        return self.folder / f"{cell.name}.{kind}"

    def _archive(self, cell: Cell) -> Path:
        return self.folder / f"cells-{cell.collection}-{cell.protocol}.jsonl"


def _valid(plain: Plain | None, cell: Cell) -> Plain | None:
    """What is still true of the cell."""
    return plain if plain is not None and plain.get("fingerprint") == cell.fingerprint() else None


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a result of a cell ({error}). Delete it, and the cell is run again.") from None


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
