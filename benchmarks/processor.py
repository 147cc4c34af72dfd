"""What the numbers were measured on."""

import os
import platform
from pathlib import Path

from indubio.numerics import core


def processor() -> str:
    """The model, its cores, and the instruction sets that the core has kernels for."""
    library = core()
    sets = ", ".join(library.instruction_sets) if library else "no core"
    return f"{_model()}, {os.cpu_count()} cores; instruction sets of the core: {sets}"


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    name = said.get("model name", platform.machine())
    # A hypervisor may hide the model's name, but not its numbers.
    numbers = [f"{part} {said[key]}" for key, part in (("cpu family", "family"), ("model", "model")) if key in said]
    return f"{name} ({', '.join(numbers)})" if numbers else name
