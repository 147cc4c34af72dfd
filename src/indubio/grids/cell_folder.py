"""A folder of results, by cell.

    <name of the cell>.json      what is kept of it
    cells-....jsonl              the same of all cells, a line each, to keep without the other files

A file appears only when it is whole: a cell is done if its record is there, by itself or among the others, and its
fingerprint is that of the cell. So a run may be killed at any moment, and goes on where it stopped.
"""

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from indubio.errors import DataError
from indubio.grids.archive import Plain, key, read_archive, write_archive
from indubio.io.json_text import json_text
from indubio.io.whole_files import whole_file


class GridCell(Hashable, Protocol):
    """What is computed by itself, anywhere and in any order."""

    @property
    def name(self) -> str:
        """Where its results are, below the folder of results."""

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
        self._archives: dict[Path, dict[str, Plain]] = {}

    @abstractmethod
    def job(self, cell: CellT) -> Callable[[], object]:
        """What a worker does with a cell: computes it and keeps it here; can be sent to another process."""

    @abstractmethod
    def archive_name(self, cell: CellT) -> str:
        """The file that the cell's record is kept in, with others."""

    def packed(self, plain: Plain) -> Plain:
        """A record as it stands in an archive."""
        return plain

    def unpacked(self, packed: Plain) -> Plain:
        """A record from an archive."""
        return packed

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
        own = self.own(cell)
        if own is not None:
            return own
        path = self._archive(cell)
        if path not in self._archives:
            self._archives[path] = read_archive(path, self.unpacked)
        return _valid(self._archives[path].get(key(cell.described())), cell)

    def own(self, cell: CellT) -> Plain | None:
        """What the cell's own file says, if it is there."""
        path = self.path(cell, "json")
        return _valid(_read(path), cell) if path.exists() else None

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

    def archive(self, cells: Iterable[CellT]) -> None:
        """Write what is kept of these cells to the files that have a line for each."""
        files: dict[Path, list[Plain]] = defaultdict(list)
        for cell in cells:
            plain = self.own(cell)
            if plain is not None:
                files[self._archive(cell)].append(plain)
        for path, records in files.items():
            write_archive(path, records, packed=self.packed, unpacked=self.unpacked)

    def path(self, cell: CellT, kind: str) -> Path:
        """Where a file of a cell is, by what it holds."""
        return self.folder / f"{cell.name}.{kind}"

    def _archive(self, cell: CellT) -> Path:
        return self.folder / self.archive_name(cell)


def _valid(plain: Plain | None, cell: GridCell) -> Plain | None:
    """What is still true of the cell."""
    return plain if plain is not None and plain.get("fingerprint") == cell.fingerprint() else None


def _read(path: Path) -> Plain:
    try:
        return dict(json.loads(path.read_text()))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a result of a cell ({error}). Delete it, and the cell is run again.") from None
