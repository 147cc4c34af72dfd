"""Folders of files to assess, a model that assesses them in a moment, and what a run left."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from indubio import Detector
from indubio.data import Reading, Roles
from indubio.storage import save
from tests.small_examples import NAMES, TRAINING, table

READING = Reading(table=Roles(columns=NAMES, ids=("part",)))


def saved_model(path: Path) -> Path:
    save(Detector().fit(table(TRAINING)).read_by(READING), path)
    return path


def rows(count: int, first: int = 0) -> pa.Table:
    """Rows with part numbers, of which some are anomalies; the same for the same numbers."""
    rng = np.random.default_rng(first)
    values = rng.normal(size=(count, 1)) + 0.3 * rng.normal(size=(count, 4)) + [0, 10, -5, 100]
    values[::7] += 3 * rng.normal(size=(len(values[::7]), 4))
    return pa.table(
        {"part": [f"{first + place:06}" for place in range(count)]} | dict(zip(NAMES, values.T, strict=True))
    )


def written(folder: Path, files: int, count: int, row_group: int = 300) -> Path:
    folder.mkdir(exist_ok=True)
    for place in range(files):
        parquet.write_table(rows(count, place * count), folder / f"{place}.parquet", row_group_size=row_group)
    return folder


def digests(folder: Path) -> dict[str, str]:
    """Of every file, the manifest too."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def results(folder: Path) -> pa.Table:
    """All results, in the order of their names."""
    return pa.concat_tables([parquet.read_table(path) for path in sorted(folder.glob("*.parquet"))])
