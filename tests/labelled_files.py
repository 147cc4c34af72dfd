"""Small tables with labels, made up: a cloud of good rows and bad ones away from it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet


def labelled(seed: int, good: int = 80, bad: int = 12, features: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    rows = np.concatenate([random.normal(size=(good, features)), random.normal(6, 1, size=(bad, features))])
    return rows, np.repeat([0, 1], [good, bad])


def arrow(rows: np.ndarray, labels: np.ndarray, label: str = "defect") -> pa.Table:
    columns = {f"s{number}": column for number, column in enumerate(rows.T)}
    return pa.table({"serial": [f"p{number}" for number in range(len(rows))], **columns, label: labels})


def write_folder(folder: Path, **sizes: int) -> Path:
    """A CSV, a Parquet and an NPZ file; the column of labels is "defect" in all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    pa.csv.write_csv(arrow(*labelled(0, **sizes)), folder / "drill.csv")
    pa.parquet.write_table(arrow(*labelled(1, **sizes)), folder / "lathe.parquet")
    rows, labels = labelled(2, **sizes)
    np.savez(folder / "press.npz", X=rows, defect=labels)
    return folder
