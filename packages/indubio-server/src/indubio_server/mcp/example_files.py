"""Files that an assistant may name: CSV and Parquet within one folder, of a bounded size."""

from pathlib import Path
from typing import Any

from indubio.data import read_table
from indubio.errors import DataError
from indubio.judge import Judge

SUFFIXES = (".csv", ".parquet")


class ExampleFiles:
    """The files of one folder, and nothing outside of it.

    Args:
        folder: where they are; None allows no file.
        largest: bytes a file may have.
    """

    def __init__(self, folder: Path | None, largest: int) -> None:
        self._folder, self._largest = None if folder is None else folder.resolve(), largest
        if self._folder is not None and not self._folder.is_dir():
            raise DataError(f"--folder {folder}: there is no such folder.")

    def path(self, name: str) -> Path:
        """The file of this name, relative to the folder; links are followed before it is looked where it lies."""
        if self._folder is None:
            raise DataError("no files are allowed here: start with --folder FOLDER, or give `rows`.")
        if "\0" in name or Path(name).is_absolute():
            raise DataError(f"`file` must be relative to the allowed folder, got {name!r}.")
        path = (self._folder / name).resolve()
        if self._folder not in path.parents:
            raise DataError(f"{name!r} is outside of the allowed folder. Give a file within it.")
        if path.suffix.lower() not in SUFFIXES:
            raise DataError(f"{name!r} is neither CSV nor Parquet: its name must end in .csv or .parquet.")
        if not path.is_file():
            raise DataError(f"there is no file {name!r} in the allowed folder.")
        if path.stat().st_size > self._largest:
            raise DataError(
                f"{name!r} has more than {self._largest:,} bytes. Use `indubio assess` for large files, or start "
                "with a larger --largest-file."
            )
        return path

    def examples(self, name: str, judge: Judge) -> Any:
        """The examples of a file, read as the training files were, or by the names of the columns."""
        path, reading, detector = self.path(name), judge.known_reading, judge.detector
        if reading is not None:
            files = judge.opened(str(path))
            return reading.for_new_data(files).read(files)
        if len(detector.input_shape_) != 1:
            raise DataError("this model was not fitted on files, so it does not know how to cut one. Give `rows`.")
        columns = detector.schema_.columns
        categories = {column.name: column.categories for column in columns if column.kind == "category"}
        return read_table(str(path), columns=[column.name for column in columns], categorical=categories)
