"""Products of matrices inside compiled code, each by the library that is fastest at its size.

Small products go to the BLAS that SciPy brings, through Numba's own `np.dot`: OpenBLAS has kernels for them that copy
nothing. Larger ones go to the MKL inside torch where there is one (on x86: up to twice as fast on the narrow products
of a training step), and else to SciPy's BLAS, by the interface that all of them share.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import llvmlite.binding
import numpy as np
import torch
from numba import njit, types
from numba.extending import get_cython_function_address, overload

# From here on MKL is ahead, measured with AVX-512: multiplications, and the values of a sum over examples.
LARGE, LARGE_SUM = 10**6, 2**14
NO, YES = ord("N"), ord("T")  # BLAS's words for "as it is" and "transposed"


@cache
def _mkl() -> ctypes.CDLL | None:
    """The library of torch that has MKL in it; it is loaded already."""
    for path in sorted((Path(torch.__file__).parent / "lib").glob("*torch_cpu.*")):
        library = ctypes.CDLL(str(path))
        if all(hasattr(library, name) for name in ("sgemm_", "dgemm_", "MKL_Set_Num_Threads_Local")):
            return library
    return None


@contextmanager
def one_mkl_thread() -> Iterator[None]:
    """MKL on the calling thread only; other threads are not affected."""
    library = _mkl()
    if library is None:
        yield
        return
    before = library.MKL_Set_Num_Threads_Local(1)
    try:
        yield
    finally:
        library.MKL_Set_Num_Threads_Local(before)


def _address(name: str) -> int:
    library = _mkl()
    if library is None:
        return int(get_cython_function_address("scipy.linalg.cython_blas", name))
    return ctypes.cast(getattr(library, f"{name}_"), ctypes.c_void_p).value or 0


def _external(name: str) -> types.ExternalFunction:
    # A symbol, not an address: compiled code that is kept on disk finds it in the next process, too.
    llvmlite.binding.add_symbol(f"indubio_{name}", _address(name))
    return types.ExternalFunction(f"indubio_{name}", types.void(*[types.voidptr] * 13))


_GEMM = {types.float32: _external("sgemm"), types.float64: _external("dgemm")}


def _gemm(turns, sizes, factors, a, b, out):
    """BLAS's product; all its arguments are places in memory."""


@overload(_gemm)
def _gemm_of(turns, sizes, factors, a, b, out):  # noqa: ARG001 - Numba compares the names
    gemm = _GEMM[a.dtype]

    def call(turns, sizes, factors, a, b, out):
        gemm(
            turns.ctypes,
            turns[1:].ctypes,
            sizes.ctypes,
            sizes[1:].ctypes,
            sizes[2:].ctypes,
            factors.ctypes,
            a.ctypes,
            sizes[3:].ctypes,
            b.ctypes,
            sizes[4:].ctypes,
            factors[1:].ctypes,
            out.ctypes,
            sizes[5:].ctypes,
        )

    return call


@njit(cache=True, nogil=True)
def product(a, turn_a, b, turn_b, out):
    """A B, to `out`, either one transposed if asked; all three with their rows one after the other."""
    inner = len(a) if turn_a else a.shape[1]
    if out.size < LARGE_SUM if turn_b else out.size * inner < LARGE:
        if turn_a:
            np.dot(a.T, b, out)
        elif turn_b:
            np.dot(a, b.T, out)
        else:
            np.dot(a, b, out)
        return
    large_product(a, turn_a, b, turn_b, out, 0)


@njit(cache=True, nogil=True)
def large_product(a, turn_a, b, turn_b, out, kept):
    """A B plus `kept` times what is in `out`, to `out`."""
    # BLAS reads columns, so it sees everything transposed: out' = B' A'. Its integers may have 32 or 64 bits; the low
    # half of these is right for both.
    inner = len(a) if turn_a else a.shape[1]
    turns = np.array([YES if turn_b else NO, YES if turn_a else NO], np.uint8)
    sizes = np.array([out.shape[1], out.shape[0], inner, b.shape[1], a.shape[1], out.shape[1]], np.int64)
    _gemm(turns, sizes, np.array([1, kept], a.dtype), b, a, out)
