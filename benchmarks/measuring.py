"""Interleaved measurements: CPU and wall time, medians, and what this machine can do in the same minutes."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from indubio.numerics import core

GEMM_SIZE = 1024
PRODUCTS = ("torch.mm", "numpy", "oneDNN", "our core")
MEMORY_FLOATS = 2**24  # 64 MB, more than the caches hold


@dataclass(frozen=True)
class Timing:
    """Median seconds."""

    cpu: float
    wall: float

    def per(self, count: float) -> "Timing":
        """The share of one of so many."""
        return Timing(self.cpu / count, self.wall / count)


class Stopwatch:
    """Adds up the time spent inside its `with` blocks; what a work prepares outside is not counted."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def __enter__(self) -> Self:
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu += time.process_time() - self._cpu
        self.wall += time.perf_counter() - self._wall


Work = Callable[[Stopwatch], object]


def timed(function: Callable[[], object], times: int = 1) -> Work:
    """All of the function as a work; a short one is called several times, and `interleaved` gives the sum."""

    def work(watch: Stopwatch) -> None:
        with watch:
            for _ in range(times):
                function()

    return work


def interleaved(works: Mapping[str, Work], repeats: int) -> dict[str, Timing]:
    """Every work once a round, so that a busy minute slows all of them; the first round warms up and is left out."""
    rounds: dict[str, list[Stopwatch]] = {name: [] for name in works}
    for number in range(repeats + 1):
        for name, work in works.items():
            watch = Stopwatch()
            work(watch)
            if number:
                rounds[name].append(watch)
    return {
        name: Timing(statistics.median(w.cpu for w in watches), statistics.median(w.wall for w in watches))
        for name, watches in rounds.items()
    }


def machine_works() -> dict[str, Work]:
    """What the limit is made of, to be measured among the works it belongs to."""
    return {**products(), "memory": memory_pass()}


def products() -> dict[str, Work]:
    """A large square product, by every library that is here: the fastest one is what the processor can do.

    On processors that are not Intel's, MKL takes AVX2 even where there is AVX-512, so torch.mm alone would be no limit.
    """
    matrix, out = torch.rand(GEMM_SIZE, GEMM_SIZE), torch.empty(GEMM_SIZE, GEMM_SIZE)
    array, room = matrix.numpy(), np.empty((GEMM_SIZE, GEMM_SIZE), np.float32)
    works = {
        "torch.mm": timed(lambda: torch.mm(matrix, matrix, out=out)),
        "numpy": timed(lambda: np.matmul(array, array, out=room)),
    }
    library = core()
    if library is not None and library.instructions != "plain":  # seconds for one product
        works["our core"] = timed(lambda: library.product(array, array))
    if torch.backends.mkldnn.is_available():
        given = matrix.to_mkldnn()
        works["oneDNN"] = timed(lambda: torch.nn.functional.linear(given, matrix))
    return works


def memory_pass() -> Work:
    """In place, as Adam does it: every value is read and written once."""
    values = torch.rand(MEMORY_FLOATS)
    return timed(lambda: values.mul_(1.0))


def flops_per_second(times: Mapping[str, Timing], product: str | None = None) -> float:
    """Of one product, or of the fastest one."""
    names = [product] if product else [name for name in PRODUCTS if name in times]
    return max(2 * GEMM_SIZE**3 / times[name].cpu for name in names)


def bytes_per_second(times: Mapping[str, Timing]) -> float:
    return 2 * 4 * MEMORY_FLOATS / times["memory"].cpu
