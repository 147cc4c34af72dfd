"""A folder of results, by cell: <name of the cell>.json is what is kept of it.

A file appears only when it is whole: a cell is done if its record is there and its fingerprint is that of the cell. So
a run may be killed at any moment, and goes on where it stopped.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from indubio.errors import DataError
from indubio.io import json_text, whole_file

Plain = dict[str, Any]  # a cell's record as plain values


class GridCell(Hashable, Protocol):
    """What is computed by itself, anywhere and in any order."""

    @property
    def name(self) -> str:
        """Where the results of the cell are, below the folder of results."""

    @property
    def series(self) -> Hashable:
        """What it shares with the cells that cost about the same: those of other seeds."""

    def described(self) -> dict[str, Any]:
        """The cell as plain values, for a file."""

    def fingerprint(self) -> str:
        """Changes with any setting that its results depend on."""


CellT = TypeVar("CellT", bound=GridCell)


class CellFolder(ABC, Generic[CellT]):
    """Results in a folder, by cell. A subclass says how a cell is computed."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @abstractmethod
    def job(self, cell: CellT) -> Callable[[], object]:
        """What a worker does with a cell: computes it and keeps it here; can be sent to another process."""

    def is_done(self, cell: CellT) -> bool:
        """Whether the cell was computed with the settings it would be computed with now."""
        return self.found(cell) is not None

    def kept(self, cell: CellT) -> Plain:
        """What is kept of a cell that is done."""
        plain = self.found(cell)
        if plain is None:
            raise DataError(f"{self.folder}: the cell {cell.name} is not done.")
        return plain

    def found(self, cell: CellT) -> Plain | None:
        """What is kept of a cell, None if it is not done."""
        path = self.path(cell, "json")
        if not path.exists():
            return None
        plain = _read(path)
        return plain if plain.get("fingerprint") == cell.fingerprint() else None

    def keep(self, cell: CellT, cpu_seconds: float, content: Plain) -> None:
        """Write the record of a cell: it is done then.

        Args:
            cell: which.
            cpu_seconds: what it cost.
            content: what is kept, as plain values; with the version that computed it.
        """
        path = self.path(cell, "json")
        path.parent.mkdir(parents=True, exist_ok=True)
        of_cell = {"cell": cell.described(), "fingerprint": cell.fingerprint()}
        with whole_file(path) as stream:
            stream.write(json_text(of_cell | {"cpu_seconds": round(cpu_seconds, 2)} | content).encode())

    def path(self, cell: CellT, kind: str) -> Path:
        """Where a file of a cell is, by what it holds."""
        return self.folder / f"{cell.name}.{kind}"


def _read(path: Path) -> Plain:
    try:
        return dict(json.loads(path.read_text()))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a result of a cell ({error}). Delete it, and the cell is run again.") from None
