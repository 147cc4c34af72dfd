r"""Products and least squares with the same bits on every machine: every sum goes in order, in the compiled core.

    G = sum_i phi_i phi_i^T          `gram`
    G = L L^T                        `cholesky`: 64 columns at a time, products in between
    G B = R                          `solved`, forward and back
    a_1 + a_2 + ...                  `sum_in_order`

Without the core numpy's own product serves, whose last bits differ from one processor to the next.
"""

import numpy as np
from jaxtyping import Float

from indubio.numerics.compiled_core import ACTIVATIONS, core

Matrix = Float[np.ndarray, "_ _"]
BLOCK = 64  # columns that are worked on one by one
FEW = 64  # columns; for fewer, one call that keeps every step is quicker than a loop


def product(a: Float[np.ndarray, "r p"], b: Float[np.ndarray, "p v"]) -> Float[np.ndarray, "r v"]:
    """A B; A may be transposed."""
    library = core()
    return a @ b if library is None else library.product(a, b)


def sum_in_order(values: Float[np.ndarray, "n columns ..."]) -> Float[np.ndarray, "columns ..."]:
    """The sum over the first axis, added one after the other: numpy's own order depends on the memory layout."""
    if values.shape[1] <= FEW:
        return np.asarray(np.add.accumulate(values, axis=0)[-1])
    added: np.ndarray = values[0].copy()
    for more in values[1:]:
        added += more
    return added


def cosine(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The cosine of every value, with the same bits on every machine that has the core."""
    library = core()
    return np.cos(values) if library is None else library.function(ACTIVATIONS["cosine"], values)


def exponential(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The exponential of every value, with the same bits on every machine that has the core."""
    library = core()
    return np.exp(values) if library is None else library.function(len(ACTIVATIONS), values)


def gram(rows: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "p p"]:
    """The products of all pairs of columns, each a sum over the rows; both triangles."""
    columns = rows.shape[1]
    out = np.empty((columns, columns), rows.dtype)
    for start in range(0, columns, 4 * BLOCK):
        own = slice(start, start + 4 * BLOCK)
        out[own, start:] = product(np.ascontiguousarray(rows[:, own]).T, rows[:, start:])
        out[start:, own] = out[own, start:].T
    return out


def cholesky(matrix: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
    """L, lower triangular, of a positive definite matrix; a `numpy.linalg.LinAlgError` of another."""
    size = len(matrix)
    factor = np.zeros_like(matrix)
    for start in range(0, size, BLOCK):
        stop = min(start + BLOCK, size)
        panel = matrix[start:, start:stop] - product(factor[start:, :start], factor[start:stop, :start].T)
        for column in range(stop - start):
            pivot = panel[column, column]
            if not pivot > 0:
                raise np.linalg.LinAlgError("the matrix is not positive definite")
            own = panel[column:, column]
            own /= np.sqrt(pivot)
            panel[column + 1 :, column + 1 :] -= own[1:, None] * own[None, 1 : stop - start - column]
            panel[:column, column] = 0
        factor[start:, start:stop] = panel
    return factor


def forward(factor: Float[np.ndarray, "p p"], right: Float[np.ndarray, "p v"]) -> Float[np.ndarray, "p v"]:
    """Solve L X = R from the first row on, for a lower triangular L."""
    out = right.copy()
    for start in range(0, len(factor), BLOCK):
        own = slice(start, min(start + BLOCK, len(factor)))
        out[own] -= product(factor[own, :start], out[:start])
        for row in range(start, own.stop):
            out[row] /= factor[row, row]
            out[row + 1 : own.stop] -= factor[row + 1 : own.stop, row, None] * out[row]
    return out


def back(factor: Float[np.ndarray, "p p"], right: Float[np.ndarray, "p v"]) -> Float[np.ndarray, "p v"]:
    """Solve L^T X = R from the last row on, for a lower triangular L."""
    out, size = right.copy(), len(factor)
    for start in reversed(range(0, size, BLOCK)):
        own = slice(start, min(start + BLOCK, size))
        out[own] -= product(np.ascontiguousarray(factor[own.stop :, own]).T, out[own.stop :])
        for row in reversed(range(start, own.stop)):
            out[row] /= factor[row, row]
            out[start:row] -= factor[row, start:row, None] * out[row]
    return out


def solved(factor: Float[np.ndarray, "p p"], right: Float[np.ndarray, "p v"]) -> Float[np.ndarray, "p v"]:
    """Solve L L^T X = R, for a lower triangular L."""
    return back(factor, forward(factor, right))
