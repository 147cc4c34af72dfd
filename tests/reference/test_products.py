"""Products inside compiled code against numpy's, whichever library computes them."""

import ctypes

import numpy as np
import pytest

numba = pytest.importorskip("numba", reason="the compiled engine needs Numba")

from indubio.autoencoders import products  # noqa: E402

SMALL, LARGE = (7, 5, 6), (210, 190, 130)  # on both sides of every threshold


def matrices(dtype, sizes):
    rows, inner, columns = sizes
    random = np.random.default_rng(0)
    return random.random((rows, inner)).astype(dtype), random.random((inner, columns)).astype(dtype)


@pytest.mark.parametrize("turned", ["neither", "first", "second"])
@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_is_numpys(dtype, sizes, turned):
    a, b = matrices(dtype, sizes)
    out = np.full((sizes[0], sizes[2]), np.nan, dtype)  # what is there before must not come through
    given_a = np.ascontiguousarray(a.T) if turned == "first" else a
    given_b = np.ascontiguousarray(b.T) if turned == "second" else b
    products.product(given_a, turned == "first", given_b, turned == "second", out)
    np.testing.assert_allclose(out, a.astype(float) @ b.astype(float), rtol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("rows", [20, 50])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_in_blocks_adds_up(dtype, rows):
    assert LARGE[0] * LARGE[2] * 20 < products.SMALL < LARGE[0] * LARGE[2] * 50  # one library each
    a, b = matrices(dtype, LARGE)
    turned, out = np.ascontiguousarray(a.T), np.full((LARGE[0], LARGE[2]), np.nan, dtype)
    for start in range(0, LARGE[1], rows):
        part = slice(start, start + rows)
        products.added_product(turned[part], True, b[part], False, out, min(start, 1))
    np.testing.assert_allclose(out, a.astype(float) @ b.astype(float), rtol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize(("name", "dtype"), [("sgemm", np.float32), ("dgemm", np.float64)])
def test_where_torch_has_no_mkl_the_function_is_scipys(name, dtype, monkeypatch):
    monkeypatch.setattr(products, "_mkl", lambda: None)
    gemm = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(products._address(name))
    a, b = matrices(dtype, SMALL)
    (rows, inner, columns), out = SMALL, np.empty((SMALL[0], SMALL[2]), dtype)
    numbers = [ctypes.c_int64(n) for n in (columns, rows, inner, columns, inner, columns)]
    m, n, k, lda, ldb, ldc = map(ctypes.addressof, numbers)
    kind = ctypes.c_float if dtype == np.float32 else ctypes.c_double
    one, zero, no = kind(1), kind(0), ctypes.c_char(b"N")
    at = ctypes.addressof
    gemm(at(no), at(no), m, n, k, at(one), b.ctypes.data, lda, a.ctypes.data, ldb, at(zero), out.ctypes.data, ldc)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


def test_a_product_leaves_the_threads_of_mkl_as_they_were():
    library = products._mkl()
    if library is None:
        pytest.skip("torch was built without MKL")
    before = library.MKL_Set_Num_Threads_Local(2)
    try:
        with products.one_mkl_thread():
            assert library.MKL_Set_Num_Threads_Local(1) == 1
        assert library.MKL_Set_Num_Threads_Local(2) == 2
    finally:
        library.MKL_Set_Num_Threads_Local(before)
