"""Batches, Parquet to Parquet: one process, two, a Dask cluster of two workers, and the network alone.

    python -m benchmarks.batch              # 2,000,000 rows of 21 features, 10 draws
    python -m benchmarks.batch --quick      # 200,000 rows, one round
    python -m benchmarks.batch --write      # also into docs/batch.md

A run is counted from when every worker has done its first shard, so that importing and loading are left out; the
whole time is given too. CPU time is that of the workers in the same interval: on a busy machine it tells more.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from rich.console import Console

from benchmarks.report import DOCS, Section
from indubio import AnchoredEnsemble, Detector, Training
from indubio.batch import Batch, BatchAdvance, run_batch
from indubio.data import Reading, Roles, read_table
from indubio.storage import load, save
from indubio.workers import Workers

FEATURES, MEMBERS, TRAINING, HIDDEN = 21, 10, 3000, 6
ROWS, FILES, SHARD_ROWS = 2_000_000, 8, 50_000
QUICK_ROWS, QUICK_SHARD = 200_000, 10_000
PYOD_ROWS = 100_000  # what it needs for a row does not depend on how many there are
NAMES = [f"s{place}" for place in range(FEATURES)]
BILLION = 1e9
BEGIN, END = "<!-- measured: python -m benchmarks.batch --write -->", "<!-- end of what was measured -->"


@dataclass
class Measured:
    """One run: rates from when every worker had done a shard."""

    wall_rate: float
    cpu_rate: float
    whole: float = float("nan")
    peak: float = float("nan")


@dataclass
class Watch:
    """Looks at the workers whenever a shard is done."""

    workers: int
    begun: float = field(default_factory=time.perf_counter)
    start: tuple[float, float, int] | None = None
    latest: tuple[float, float, int] = (0.0, 0.0, 0)
    peak: float = 0.0

    def __call__(self, advance: BatchAdvance) -> None:
        """Told by the run."""
        pids = [int(name.rpartition(":")[2]) for name in advance.workers]
        if len(pids) < self.workers:
            return
        for pid in pids:
            status = Path(f"/proc/{pid}/status").read_text()
            (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
            self.peak = max(self.peak, int(line.split()[1]) * 1024 / 1e6)
        times = [psutil.Process(pid).cpu_times() for pid in pids]
        cpu = sum(time.user + time.system for time in times)
        self.latest = (time.perf_counter(), cpu, advance.examples)
        self.start = self.start or self.latest

    def measured(self) -> Measured:
        """What came of it."""
        assert self.start is not None
        wall, cpu, examples = (b - a for a, b in zip(self.start, self.latest, strict=True))
        return Measured(examples / wall, examples / cpu, self.latest[0] - self.begun, self.peak)


def rows(count: int, seed: int) -> np.ndarray:
    """Rows on a plane of few dimensions, with noise: what an autoencoder can learn."""
    mix = np.random.default_rng(0).normal(size=(HIDDEN, FEATURES))
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, HIDDEN)) @ mix + 0.3 * rng.normal(size=(count, FEATURES))


def prepare(folder: Path, count: int) -> None:
    """The files and the model."""
    (folder / "in").mkdir()
    for place in range(FILES):
        values = rows(count // FILES, place + 2)
        table = pa.table(
            {"part": np.arange(len(values)) + place * len(values), **dict(zip(NAMES, values.T, strict=True))}
        )
        parquet.write_table(table, folder / "in" / f"{place}.parquet")
    training = pa.table(dict(zip(NAMES, rows(TRAINING, 1).T, strict=True)))
    detector = Detector(posterior=AnchoredEnsemble(members=MEMBERS), training=Training(epochs=50))
    reading = Reading(table=Roles(columns=tuple(NAMES), ids=("part",)))
    save(detector.fit(read_table(training, columns=NAMES)).read_by(reading), folder / "model")


def batch_run(folder: Path, shard_rows: int, workers: Workers, count: int, top: int) -> Measured:
    """One run of the batch into a folder of its own."""
    watch = Watch(count)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        batch = Batch(source=str(folder / "in"), model=folder / "model", out=out, top=top, shard_rows=shard_rows)
        run_batch(batch, workers, tell=watch)
    return watch.measured()


def on_cluster(folder: Path, shard_rows: int) -> Measured:
    """The same on a cluster as Dask sets it up."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        return batch_run(folder, shard_rows, Workers(cluster=cluster.scheduler_address), 2, 0)


def alone(work: str, folder: Path) -> Measured:
    """A work on rows in memory, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.batch", "--work", work, "--folder", str(folder)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    wall, cpu = map(float, printed.split()[-2:])
    return Measured(wall, cpu)


def work(name: str, folder: Path) -> None:
    """Print rows per second and per CPU second."""
    torch.set_num_threads(1)
    if name == "network":
        detector = load(folder / "model")
        files = sorted((folder / "in").iterdir())
        values = [parquet.read_table(path, columns=NAMES) for path in files]
        given = [np.stack([t[n].to_numpy() for n in NAMES], axis=1).astype(np.float32) for t in values]
        detector.draws_.nll(given[0][:1000])
        score = detector.draws_.nll
    else:
        from pyod.models.auto_encoder import AutoEncoder

        network = AutoEncoder(epoch_num=1, hidden_neuron_list=[84, 42], verbose=0)
        network.fit(rows(TRAINING, 1))
        given = [rows(PYOD_ROWS, 2)]
        score = network.decision_function
    count = sum(len(part) for part in given)
    wall, cpu = time.perf_counter(), time.process_time()
    for part in given:
        score(part)
    print(count / (time.perf_counter() - wall), count / (time.process_time() - cpu))


def section(found: dict[str, list[Measured]], count: int) -> Section:
    def middle(name: str, what: str) -> float:
        return statistics.median(getattr(one, what) for one in found[name])

    network, one = "the network alone, rows in memory", "one process"
    table = []
    for name in found:
        wall, cpu = middle(name, "wall_rate"), middle(name, "cpu_rate")
        peak, whole = middle(name, "peak"), middle(name, "whole")
        table.append(
            [
                name,
                f"{wall:,.0f}",
                f"{cpu:,.0f}",
                f"{cpu / middle(network, 'cpu_rate'):.2f}",
                f"{wall / middle(one, 'wall_rate'):.2f}x",
                "-" if whole != whole else f"{whole:.0f}",
                "-" if peak != peak else f"{peak:.0f}",
            ]
        )
    hours = BILLION / middle(one, "cpu_rate") / 3600
    note = (
        f"{count:,} rows of {FEATURES} features, {MEMBERS} draws, the median of {len(found[one])} round(s). "
        "Rates are from when every worker has done a shard; "
        "seconds are the whole run, starting the workers and importing included; megabytes are the largest resident "
        "size of a worker. PyOD's AutoEncoder is one network, on rows in memory. "
        f"A billion such rows: {hours:.1f} core-hours in one process's rate"
        f" ({BILLION / middle(one, 'cpu_rate') / 32 / 60:.0f} minutes on 32 free cores)."
    )
    headers = ["", "rows/s", "rows per CPU second", "of the network", "to one process", "seconds", "MB"]
    return Section(key="batch", title="Batches, Parquet to Parquet", headers=headers, rows=table, note=note)


def write(made: Section, loads: tuple[float, float]) -> None:
    """Into docs/batch.md, between its marks."""
    path = DOCS / "batch.md"
    head, _, rest = path.read_text().partition(BEGIN)
    tail = rest.partition(END)[2]
    machine = (
        f"Python {platform.python_version()}, torch {torch.__version__}, {os.cpu_count()} cores, load average "
        f"{loads[0]:.1f} before and {loads[1]:.1f} after."
    )
    body = made.markdown().partition("\n\n")[2]
    path.write_text(f"{head}{BEGIN}\n\n{body}\n{machine}\n\n{END}{tail}")


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.batch", description=__doc__)
    options.add_argument("--quick", action="store_true", help="fewer rows, one round")
    options.add_argument("--rounds", type=int, default=3, help="runs of each, in turns; the median is shown")
    options.add_argument("--write", action="store_true", help="also into docs/batch.md")
    options.add_argument("--work", help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.work:
        work(chosen.work, chosen.folder)
        return
    count, shard_rows, rounds = (QUICK_ROWS, QUICK_SHARD, 1) if chosen.quick else (ROWS, SHARD_ROWS, chosen.rounds)
    before = os.getloadavg()[0]
    torch.set_num_threads(1)
    found: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory(prefix="indubio-bench-") as name:
        folder = Path(name)
        prepare(folder, count)
        one, two = Workers(processes=1), Workers(processes=2)
        works = {
            "the network alone, rows in memory": lambda: alone("network", folder),
            "one process": lambda: batch_run(folder, shard_rows, one, 1, 0),
            "one process, with top features": lambda: batch_run(folder, shard_rows, one, 1, 3),
            "two processes": lambda: batch_run(folder, shard_rows, two, 2, 0),
            "Dask, two workers": lambda: on_cluster(folder, shard_rows),
            "PyOD's AutoEncoder, rows in memory": lambda: alone("pyod", folder),
        }
        for _ in range(rounds):
            for label, measure in works.items():
                found.setdefault(label, []).append(measure())
    made = section(found, count)
    made.printed(Console(width=None if sys.stdout.isatty() else 150))
    print(f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after")
    if chosen.write:
        write(made, (before, os.getloadavg()[0]))


if __name__ == "__main__":
    main()
