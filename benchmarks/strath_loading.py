"""How long the STRATH loader takes on 81 recordings of 13 MB, and how much memory: python -m benchmarks.strath_loading

The recordings are generated into a temporary folder, 1.1 GB for all 81. Loading runs in a process of its own, twice:
the second time the files are in the operating system's cache. Beside it the plain way: a list of data frames with all
99 columns, from `pandas.read_csv`.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEGABYTE = 1e6
ROWS = 14_400  # of 99 columns: 13 MB
SHORTEST = 5_624  # samples; 562 bins, as in the paper


def main() -> None:
    options = argparse.ArgumentParser(description="Time and peak memory of loading STRATH.")
    options.add_argument("--parts", type=int, default=81)
    options.add_argument("--load", choices=["indubio", "pandas"], help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.load:
        measure(chosen.load, chosen.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        size = generate(Path(folder), chosen.parts)
        print(f"{chosen.parts} generated recordings, {size / MEGABYTE:.0f} MB")
        for how in ("indubio", "indubio", "pandas"):
            command = [sys.executable, "-m", "benchmarks.strath_loading", "--load", how, "--folder", folder]
            subprocess.run(command, check=True)


def generate(folder: Path, parts: int) -> int:
    """Recordings and measurements; how many bytes the recordings have."""
    from tests.strath_traces import write_measurements, write_traces

    write_measurements(folder / "strath", [0.2 if part % 12 == 0 else 0.01 + 0.0002 * part for part in range(parts)])
    paths = write_traces(folder / "strath", parts=parts, rows=ROWS, shortest=SHORTEST)
    return sum(path.stat().st_size for path in paths)


def measure(how: str, folder: Path) -> None:
    """Load in this process and print time and memory; imports are not counted."""
    import pandas
    import pyarrow.csv  # noqa: F401

    from indubio_lab.collections import strath

    before, start = peak_memory(), time.perf_counter()
    if how == "indubio":
        shape = strath("all", folder=folder).train.shape
        columns = "4 of 99 columns"
    else:
        paths = sorted((folder / "strath").glob("Scope*.csv"))
        frames = [pandas.read_csv(path, encoding="cp1252") for path in paths]
        shape = (sum(map(len, frames)), len(frames[0].columns))
        columns = "all 99 columns "
    seconds, after = time.perf_counter() - start, peak_memory()
    print(
        f"{how:8} {columns}: {seconds:6.2f} s, peak {after / MEGABYTE:.0f} MB "
        f"({(after - before) / MEGABYTE:.0f} MB above the imports), {shape}"
    )


def peak_memory() -> float:
    """The largest resident size of this process so far, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return float(line.split()[1]) * 1024
    raise SystemExit("peak memory is read from /proc, which only Linux has")


if __name__ == "__main__":
    main()
