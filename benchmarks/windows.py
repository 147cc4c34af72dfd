"""A recording larger than one wants in memory, to windows and to verdicts: python -m benchmarks.windows

The recording is generated into a temporary folder, as Parquet in row groups: 10 million rows of 8 sensors at 100 Hz.
Every measurement runs in a process of its own, so that its peak memory is its own.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

MEGABYTE = 1e6
SENSORS, LENGTH, RATE = 8, 60, 100.0
ROW_GROUP = 250_000
TRAINING_WINDOWS, MEMBERS, EPOCHS = 500, 3, 5
HOW = {
    "read": "wide, only read",
    "wide": "wide to windows",
    "resample": "wide, resampled to 50 Hz, to windows",
    "long": "long (one value a row) to windows",
    "score": "wide to windows to verdicts",
}


def main() -> None:
    options = argparse.ArgumentParser(description="Rows per second and peak memory of windowing and scoring.")
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--measure", choices=["generate", *HOW], help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.measure == "generate":
        generate(chosen.folder, chosen.rows)
        return
    if chosen.measure:
        measure(chosen.measure, chosen.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        run("generate", folder, chosen.rows)
        sizes = [(Path(folder) / f"{name}.parquet").stat().st_size / MEGABYTE for name in ("wide", "long")]
        print(
            f"{chosen.rows:,} rows x {SENSORS} sensors: {chosen.rows * (SENSORS + 1) * 8 / MEGABYTE:.0f} MB in memory, "
            f"{sizes[0]:.0f} MB as wide, {sizes[1]:.0f} MB as long Parquet (same number of rows)"
        )
        for how in HOW:
            run(how, folder, chosen.rows)


def run(how: str, folder: str, rows: int) -> None:
    """In a process of its own, generating too: Linux lets a child begin with the peak memory of its parent."""
    command = [sys.executable, "-m", "benchmarks.windows", "--measure", how, "--folder", folder, "--rows", str(rows)]
    subprocess.run(command, check=True)


def generate(folder: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    names = [f"s{number}" for number in range(SENSORS)]
    wide = pa.schema([("t", pa.float64()), *((name, pa.float64()) for name in names)])
    long = pa.schema([("t", pa.float64()), ("tag", pa.string()), ("value", pa.float64())])
    random = np.random.default_rng(0)
    with (
        parquet.ParquetWriter(folder / "wide.parquet", wide) as wide_file,
        parquet.ParquetWriter(folder / "long.parquet", long) as long_file,
    ):
        for first in range(0, rows, ROW_GROUP):
            t = np.arange(first, min(first + ROW_GROUP, rows)) / RATE
            phases = np.linspace(0, np.pi, SENSORS)
            values = np.sin(2 * np.pi * t[:, None] + phases) + 0.05 * random.standard_normal((len(t), SENSORS))
            wide_file.write_table(pa.table([t, *values.T], schema=wide))
            tag = pa.array(names).take(pa.array(np.arange(first, first + len(t)) % SENSORS))
            long_file.write_table(pa.table([t / SENSORS, tag, values[:, 0]], schema=long))


def measure(how: str, folder: Path) -> None:
    """Stream in this process and print speed and memory; imports and training are not counted in the time."""
    import pyarrow.parquet as parquet

    from indubio.data import recordings  # noqa: F401

    detector = trained(folder) if how == "score" else None
    path = folder / f"{'long' if how == 'long' else 'wide'}.parquet"
    rows = parquet.read_metadata(path).num_rows
    before, start, windows = peak_memory(), time.perf_counter(), 0
    if how == "read":
        for _ in parquet.ParquetFile(path, pre_buffer=False).iter_batches():
            pass
    else:
        for part in stream(how, folder):
            windows += len(part)
            if detector is not None:
                detector.assess(part.values)
    seconds = time.perf_counter() - start
    print(
        f"{HOW[how]:40} {seconds:6.1f} s, {rows / seconds:10,.0f} rows/s, {windows:7,} windows, "
        f"peak {peak_memory():.0f} MB, {before:.0f} MB before the first row",
        flush=True,
    )


def peak_memory() -> float:
    """The largest resident size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGABYTE  # kilobytes on Linux


def stream(how: str, folder: Path) -> Iterator[Any]:
    from indubio.data import Long, Wide, Windowing, stream_windows

    if how == "long":
        layout = Long(time="t", tag="tag", value="value")
        return stream_windows(
            folder / "long.parquet", layout, Windowing(length=LENGTH, rate=RATE, gaps="hold", longest_gap=1.0)
        )
    rate = RATE / 2 if how == "resample" else None
    return stream_windows(folder / "wide.parquet", Wide(time="t"), Windowing(length=LENGTH, rate=rate))


def trained(folder: Path) -> Any:
    from indubio import AnchoredEnsemble, Detector, TrainScores
    from indubio.networks import Training

    detector = Detector(
        posterior=AnchoredEnsemble(members=MEMBERS), training=Training(epochs=EPOCHS), calibration=TrainScores()
    )
    return detector.fit(next(iter(stream("wide", folder))).values[:TRAINING_WINDOWS])


if __name__ == "__main__":
    main()
