"""Peak memory of the big works, each in a process of its own: python -m benchmarks.memory NAME"""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.measuring import Stopwatch
from benchmarks.nets import SIZES, Size, whole_fit
from benchmarks.report import Section
from benchmarks.scoring import conversion, fitted_detector, rejection_curve, uncertainties


def _fit(size: Size) -> Callable[[], object]:
    work = whole_fit(size)
    return lambda: work(Stopwatch())


def _scoring() -> Callable[[], object]:
    draws, rows = fitted_detector().draws_, np.random.default_rng(1).random((100_000, 16), dtype=np.float32)
    return lambda: draws.nll(rows)


WORKS: dict[str, Callable[[], Callable[[], object]]] = {
    **{f"fit of 10 members, {size.name}": partial(_fit, size) for size in SIZES},
    "scoring 100,000 rows of 16 features": _scoring,
    "conversion, 10,000,000 scores": conversion,
    "uncertainties of 10,000,000 probabilities": uncertainties,
    "accuracy-rejection curve of 1,000,000 examples": rejection_curve,
}


def memory() -> Section:
    rows = []
    for name in WORKS:
        command = [sys.executable, "-m", "benchmarks.memory", name]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append([name, *printed.split()])
    return Section(
        key="memory",
        title="Peak memory",
        headers=["work", "before", "peak", "added"],
        rows=rows,
        note="Megabytes of resident memory, each work in a process of its own; what is there before is Python, torch "
        "and the input of the work.",
    )


def peak() -> float:
    """The largest resident size of this process so far, in MB; unlike getrusage's, it starts anew with a program."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def main() -> None:
    torch.set_num_threads(1)
    work = WORKS[sys.argv[1]]()
    before = peak()
    work()
    print(f"{before:.0f} {peak():.0f} {peak() - before:.0f}")


if __name__ == "__main__":
    main()
