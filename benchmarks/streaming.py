"""Streamed training against training in memory: python -m benchmarks.streaming [--rows 300000 1000000]

Every fit is a process of its own. Added memory is the peak beyond that of a process that has fitted a few rows.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from rich.console import Console
from rich.table import Table as Printed

from benchmarks.memory import peak
from indubio import AnchoredEnsemble, Detector, ExampleStream, Training

FEATURES, MEMBERS, ROW_GROUP, BUFFER = 21, 10, 100_000, 200_000


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.streaming", description=__doc__)
    options.add_argument("--rows", type=int, nargs="+", default=[300_000, 1_000_000, 3_000_000])
    options.add_argument("--in-memory-up-to", type=int, default=1_000_000, help="rows; more are only streamed")
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--child", nargs=2, metavar=("FILE", "HOW"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.child:
        print(json.dumps(_fit(*chosen.child, epochs=chosen.epochs)))
        return
    table = Printed("rows", "how", "CPU s", "of in memory", "added MB", "data as float64, MB")
    with tempfile.TemporaryDirectory() as folder:
        for rows in chosen.rows:
            path = _written(Path(folder) / f"{rows}.parquet", rows)
            hows = ["memory", "stream"] if rows <= chosen.in_memory_up_to else ["stream"]
            found = {how: _child(path, how, chosen.epochs) for how in hows}
            for how, one in found.items():
                ratio = f"{one['cpu'] / found['memory']['cpu']:.2f}" if "memory" in found else ""
                data = f"{rows * FEATURES * 8 / 1e6:.0f}"
                table.add_row(f"{rows:,}", how, f"{one['cpu']:.1f}", ratio, f"{one['added']:.0f}", data)
            path.unlink()
    Console(width=None if sys.stdout.isatty() else 150).print(table)


def _written(path: Path, rows: int) -> Path:
    random, mixing = np.random.default_rng(0), np.random.default_rng(1).normal(size=(8, FEATURES))
    schema = pa.schema([(f"x{place}", pa.float64()) for place in range(FEATURES)])
    with parquet.ParquetWriter(path, schema) as writer:
        for _ in range(0, rows, ROW_GROUP):
            values = random.normal(size=(ROW_GROUP, 8)) @ mixing + 0.1 * random.normal(size=(ROW_GROUP, FEATURES))
            writer.write_table(pa.table(dict(zip(schema.names, values.T, strict=True))))
    return path


def _child(path: Path, how: str, epochs: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.streaming", "--epochs", str(epochs), "--child", str(path), how]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def _fit(path: str, how: str, *, epochs: int) -> dict[str, float]:
    torch.set_num_threads(1)
    posterior, training = AnchoredEnsemble(members=MEMBERS), Training(epochs=epochs, threads=1)
    few = np.random.default_rng(0).random((3000, FEATURES))
    Detector(posterior=posterior, training=training).fit(few)  # compiles what there is to compile
    before, start = peak(), time.process_time()
    stream = ExampleStream(path, buffer=BUFFER)
    Detector(posterior=posterior, training=training).fit(stream.read() if how == "memory" else stream)
    return {"cpu": time.process_time() - start, "added": peak() - before}


if __name__ == "__main__":
    main()
