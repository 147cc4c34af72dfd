"""How long a plain CSV of 100 MB takes to read, against Arrow's reader alone; and the same numbers in other dialects.

    python benchmarks/reading_text.py [megabytes]

Ratios within one run.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from indubio.io import opened
from indubio.io.csv_files import CSV_BLOCK

COLUMNS = 20


def best(works: dict[str, Callable[[], int]], rounds: int = 5) -> dict[str, float]:
    """Seconds of the fastest run of each, taken in turns, so that a busy machine is busy for all."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - begun)
    return {name: min(found) for name, found in times.items()}


def by_arrow(path: Path) -> int:
    """Arrow's reader with our block and thread, and nothing else."""
    reading = arrow_csv.ReadOptions(block_size=CSV_BLOCK, use_threads=False)
    types = {f"c{number}": pa.float64() for number in range(COLUMNS)}
    reader = arrow_csv.open_csv(path, reading, convert_options=arrow_csv.ConvertOptions(column_types=types))
    return sum(batch.num_rows for batch in reader)


def by_us(path: Path) -> int:
    """All columns as numbers."""
    (source,) = opened(path)
    return sum(batch.num_rows for batch in source.batches(dict.fromkeys(source.schema.names, pa.float64())))


def main() -> None:
    """Write the files, read them, print the ratios."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    values = np.random.default_rng(0).normal(size=(2000, COLUMNS)) * 100
    header = ",".join(f"c{number}" for number in range(COLUMNS))
    block = "".join(",".join(f"{value:.6f}" for value in row) + "\n" for row in values)
    times = max(1, megabytes * 2**20 // len(block))
    with tempfile.TemporaryDirectory() as folder:
        plain, german, utf16 = (Path(folder) / name for name in ("plain.csv", "german.csv", "utf16.csv"))
        plain.write_text(f"{header}\n" + block * times)
        semicolons = (f"{header}\n" + block * times).replace(",", ";").replace(".", ",")
        german.write_text(semicolons)
        utf16.write_bytes(semicolons.encode("utf-16"))
        found = best(
            {
                "Arrow alone": partial(by_arrow, plain),
                "plain": partial(by_us, plain),
                "';' and decimal comma": partial(by_us, german),
                "the same in UTF-16": partial(by_us, utf16),
            }
        )
        print(f"{plain.stat().st_size / 1e6:.0f} MB, in times of Arrow's reader alone:")
        for name, seconds in found.items():
            print(f"{name}: {seconds / found['Arrow alone']:.2f}")


if __name__ == "__main__":
    main()
