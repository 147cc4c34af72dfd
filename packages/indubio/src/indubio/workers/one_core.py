"""What every worker does first: keep to one core, and keep the memory it has."""

import ctypes
import os
import sys

import pyarrow as pa

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc, malloc.h
KEPT = 2**25  # bytes; the most that glibc takes for M_MMAP_THRESHOLD


def keep_to_one_core() -> None:
    """One thread for torch, BLAS and Arrow, also for what is imported later."""
    for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    if "torch" in sys.modules:  # nothing imports it that need not
        import torch

        torch.set_num_threads(1)
    pa.set_cpu_count(1)
    _keep_memory()


def _keep_memory() -> None:
    """Let glibc use freed memory again instead of giving it back.

    Dask's nanny sets MALLOC_TRIM_THRESHOLD_, which makes every larger array fresh memory from the system, with a fault
    for every page. Other C libraries have no such setting, and need none.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_MMAP_THRESHOLD, KEPT)
    mallopt(M_TRIM_THRESHOLD, 4 * KEPT)
