"""A folder of the user's own tables: CSV, Parquet, spreadsheet or NPZ files, each with a label for every row."""

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indubio.data import read_table
from indubio.errors import DataError, quoted
from indubio.io import ENDINGS as TABLES
from indubio.io import SURE_ENDINGS, natural_order, opened
from indubio_lab.collections.collection import LabelledTable

ENDINGS = (*TABLES, ".npz")
ROWS, LABELS = "X", "y"  # of an NPZ file, as ADBench has them


def own_files(folder: str | Path) -> list[Path]:
    """The tables in a folder, or the one file that was named."""
    place = Path(folder)
    found = [place] if place.is_file() else sorted(place.glob("*"), key=natural_order) if place.is_dir() else []
    # As elsewhere, notes and summaries beside the tables of a folder are none.
    known = ENDINGS if place.is_file() else (*SURE_ENDINGS, ".npz")
    chosen = [path for path in found if path.name.lower().endswith(known)]
    if not chosen:
        raise DataError(f"{place}: there is no table here; a folder or a file (.csv, .parquet, .npz, ...) is needed.")
    return chosen


def own_table(
    path: str | Path, *, label: str | None, anomaly: Sequence[str] | None = None, ignore: Sequence[str] = ()
) -> LabelledTable:
    """A table of numbers with its labels.

    Args:
        path: a CSV, Parquet, spreadsheet or NPZ file.
        label: the column of labels; of an NPZ file the array, None is "y".
        anomaly: values of it that mean anomaly, where it does not hold 0 and 1.
        ignore: columns that are no features, such as serial numbers.
    """
    place = Path(path)
    if place.suffix.lower() == ".npz":
        return read_npz(place, labels=label or LABELS, anomaly=anomaly)
    there = check_labelled(place, label)
    ids = tuple(name for name in ignore if name in there)
    read = read_table(place, label=label, anomaly_values=anomaly, ids=ids)
    assert read.labels is not None
    return LabelledTable(
        rows=np.column_stack([_numbers(read.features, name, place) for name in read.features.column_names]),
        anomalous=read.labels,
        names=tuple(read.features.column_names),
    )


def check_labelled(path: Path, label: str | None) -> list[str]:
    """The columns or arrays of a table, without reading it; refused without its labels."""
    if path.suffix.lower() == ".npz":
        with _npz(path) as content:
            there = list(content)
        needed = [ROWS, label or LABELS]
    else:
        (file,) = opened(path)
        there = list(file.schema.names)
        if label is None:
            raise DataError(f"{path}: which column holds the labels? Name it by `label`: {quoted(there)}.")
        needed = [label]
    missing = [name for name in needed if name not in there]
    if missing:
        raise DataError(f"{path} has no {quoted(missing)}; it has {quoted(there)}. Name its labels by `label`.")
    return there


def read_npz(path: Path, *, labels: str = LABELS, anomaly: Sequence[str] | None = None) -> LabelledTable:
    """X and its labels of an NPZ file; nothing in it is executed.

    Args:
        path: the file.
        labels: the array of labels.
        anomaly: values of it that mean anomaly, where it does not hold 0 and 1.
    """
    check_labelled(path, labels)
    with _npz(path) as content:
        rows, given = content[ROWS], content[labels].ravel()
    if rows.ndim != 2 or rows.dtype.kind not in "fiub" or len(given) != len(rows):
        raise DataError(
            f"{path}: {ROWS} must be numbers (rows, features) with a label for each row, got {rows.dtype} "
            f"{rows.shape} and {len(given)} labels."
        )
    names = tuple(f"x{number}" for number in range(rows.shape[1]))
    return LabelledTable(rows=rows.astype(np.float64), anomalous=_anomalous(given, path, anomaly), names=names)


def _anomalous(given: np.ndarray, path: Path, anomaly: Sequence[str] | None) -> np.ndarray:
    if anomaly is not None:
        return np.isin(given.astype(str), list(anomaly))
    if not np.isin(given, [0, 1]).all():
        raise DataError(
            f"{path}: labels must be 0 and 1, but there are {quoted(np.unique(given)[:5])}. Say which values mean "
            "anomaly by `anomaly`."
        )
    return given.astype(bool)


@contextmanager
def _npz(path: Path) -> Iterator[Any]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise DataError(f"{path}: not an NPZ file.")
            yield content
    except DataError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not an NPZ file that can be read ({error}).") from None


def _numbers(features: pa.Table, name: str, path: Path) -> np.ndarray:
    try:
        values = pc.cast(features.column(name), pa.float64())
    except pa.ArrowException:
        raise DataError(
            f"{path}: column {name!r} does not hold numbers. Encode it, or leave it out by `ignore`."
        ) from None
    return np.asarray(values.to_numpy(), dtype=np.float64)
