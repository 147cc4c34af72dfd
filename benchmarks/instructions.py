"""The same measurements under every instruction set of this processor, each in a process of its own.

    python -m benchmarks.instructions [--quick] [--small] [--torch]    # one process: prints JSON

INDUBIO_ISA holds the core to a set. Torch and the libraries under it are held to it where they let us, so that what
is compared runs on the same processor.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass, replace

import torch
from pydantic import TypeAdapter

from benchmarks.measuring import bytes_per_second, flops_per_second, interleaved, machine_works, products
from benchmarks.nets import OTHERS, SIZES
from benchmarks.scoring import ScoreTimes, measured_scoring
from benchmarks.steps import PosteriorTimes, StepTimes, measured_posterior_steps, measured_steps
from indubio.numerics import core

PLAIN = "plain"
HELD = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    }
}


@dataclass(frozen=True)
class Found:
    """What one process measured; `scoring` and `posteriors` are empty under plain instructions."""

    flops: dict[str, float]
    bandwidth: float
    steps: list[StepTimes]
    scoring: list[ScoreTimes]
    posteriors: list[PosteriorTimes]


FOUND = TypeAdapter(Found)


def instruction_sets() -> list[str]:
    """What the core can use here, the widest first."""
    library = core()
    if library is None:
        raise SystemExit("The core was not built: python packages/indubio/src/indubio/numerics/native/build.py")
    return library.instruction_sets


def measured(*, quick: bool) -> dict[str, Found]:
    """Every instruction set, one process after the other."""
    sets = instruction_sets()
    return {name: _in_a_process(name, quick=quick, widest=name == sets[0]) for name in sets}


def vectors(found: dict[str, Found]) -> dict[str, Found]:
    """Those that are measured in full."""
    return {name: one for name, one in found.items() if name != PLAIN}


def _in_a_process(name: str, *, quick: bool, widest: bool) -> Found:
    flags = {"--quick": quick, "--small": name == PLAIN, "--torch": widest}
    command = [sys.executable, "-m", "benchmarks.instructions", *(flag for flag, given in flags.items() if given)]
    environment = os.environ | HELD.get(name, {}) | {"INDUBIO_ISA": name, "OMP_NUM_THREADS": "1"}
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
    return FOUND.validate_json(printed)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    options.add_argument("--quick", action="store_true", help="the main sizes, few repeats")
    options.add_argument("--small", action="store_true", help="steps of the two smallest sizes alone")
    options.add_argument("--torch", action="store_true", help="our torch engine too")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    repeats = 2 if chosen.small else 3 if chosen.quick else 5
    small = [replace(size, epochs=1) for size in SIZES[:2]]
    sizes = small if chosen.small else SIZES if chosen.quick else [*SIZES, *OTHERS]
    times = interleaved(machine_works(), 3 * repeats)
    found = Found(
        flops={name: flops_per_second(times, name) for name in products()},
        bandwidth=bytes_per_second(times),
        steps=measured_steps(sizes, repeats, with_torch=chosen.torch),
        scoring=[] if chosen.small else measured_scoring(repeats),
        posteriors=[] if chosen.small else measured_posterior_steps(repeats),
    )
    sys.stdout.buffer.write(FOUND.dump_json(found))


if __name__ == "__main__":
    main()
