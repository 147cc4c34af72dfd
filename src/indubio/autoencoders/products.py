"""Products of matrices inside compiled code, each by the library that is fastest at its size.

Small products go to the BLAS that SciPy brings: OpenBLAS has kernels for them that copy nothing, the fastest there are
where the processor has AVX-512, so large weights are cut for them. Other large products go to the MKL inside torch
where there is one (on x86: up to twice as fast on the narrow products of a training step), and else to SciPy's BLAS,
by the interface that all of them share.
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
from threadpoolctl import ThreadpoolController

# Multiplications up to which OpenBLAS takes its kernels for small products, and from which on MKL is ahead; and the
# values from which on MKL is ahead on a sum over examples, for which OpenBLAS has no such kernel.
SMALL, LARGE_SUM = 10**6, 2**14
NO, YES = ord("N"), ord("T")  # BLAS's words for "as it is" and "transposed"


def _copies_nothing() -> bool:
    """Whether SciPy's BLAS has kernels for small products: OpenBLAS, on processors with AVX-512."""
    libraries = ThreadpoolController().select(internal_api="openblas").lib_controllers
    return any(library.architecture in ("SkylakeX", "Cooperlake", "SapphireRapids") for library in libraries)


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


def _scipys(name: str) -> int:
    return int(get_cython_function_address("scipy.linalg.cython_blas", name))


def _address(name: str) -> int:
    library = _mkl()
    if library is None:
        return _scipys(name)
    return ctypes.cast(getattr(library, f"{name}_"), ctypes.c_void_p).value or 0


def _external(name: str, address: int) -> types.ExternalFunction:
    # A symbol, not an address: compiled code that is kept on disk finds it in the next process, too.
    llvmlite.binding.add_symbol(f"indubio_{name}", address)
    return types.ExternalFunction(f"indubio_{name}", types.void(*[types.voidptr] * 13))


_LARGE = {types.float32: _external("sgemm", _address("sgemm")), types.float64: _external("dgemm", _address("dgemm"))}
_SMALL = {
    types.float32: _external("small_sgemm", _scipys("sgemm")),
    types.float64: _external("small_dgemm", _scipys("dgemm")),
}
CUT = _copies_nothing()  # after SciPy's BLAS was loaded, which the line above does


def _caller(functions):
    """BLAS's product for compiled code; all its arguments are places in memory."""

    def gemm(turns, sizes, factors, a, b, out):
        raise NotImplementedError  # only compiled code calls it

    @overload(gemm)
    def gemm_of(turns, sizes, factors, a, b, out):  # noqa: ARG001 - Numba compares the names
        function = functions[a.dtype]

        def call(turns, sizes, factors, a, b, out):
            function(
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

    return gemm


_small_gemm, _large_gemm = _caller(_SMALL), _caller(_LARGE)


@njit(cache=True, nogil=True)
def product(a, turn_a, b, turn_b, out):
    """A B, to `out`, either one transposed if asked; all three with their rows one after the other."""
    inner = len(a) if turn_a else a.shape[1]
    if out.size < LARGE_SUM if turn_b else out.size * inner <= SMALL:
        if turn_a:
            np.dot(a.T, b, out)
        elif turn_b:
            np.dot(a, b.T, out)
        else:
            np.dot(a, b, out)
        return
    added_product(a, turn_a, b, turn_b, out, 0)


@njit(cache=True, nogil=True)
def added_product(a, turn_a, b, turn_b, out, kept):
    """A B plus `kept` times what is in `out`, to `out`."""
    # BLAS reads columns, so it sees everything transposed: out' = B' A'. Its integers may have 32 or 64 bits; the low
    # half of these is right for both.
    inner = len(a) if turn_a else a.shape[1]
    turns = np.array([YES if turn_b else NO, YES if turn_a else NO], np.uint8)
    sizes = np.array([out.shape[1], out.shape[0], inner, b.shape[1], a.shape[1], out.shape[1]], np.int64)
    factors = np.array([1, kept], a.dtype)
    if CUT and not turn_b and out.size * inner <= SMALL:
        _small_gemm(turns, sizes, factors, b, a, out)
    else:
        _large_gemm(turns, sizes, factors, b, a, out)


@njit(cache=True, nogil=True)
def product_of_columns(a, start, b, out):
    """A^T B, to `out`, of as many of A's columns as `out` has rows, from this one on; a small product."""
    turns = np.array([NO, YES], np.uint8)
    sizes = np.array([out.shape[1], out.shape[0], len(a), b.shape[1], a.shape[1], out.shape[1]], np.int64)
    factors = np.array([1, 0], a.dtype)
    _small_gemm(turns, sizes, factors, b, a.reshape(a.size)[start:], out)
