r"""The evidence of linear regressions that share a prior, and what it chooses (MacKay 1992).

    y_g = A_g w_g + N(0, s_g^2),    w_g ~ N(0, 1 / alpha)

    log p(y) = sum over g of  - n/2 log(2 pi s_g^2) - ||y_g - A_g w_g||^2 / (2 s_g^2)
                              + F/2 log alpha - alpha/2 ||w_g||^2 - 1/2 log det(A_g^T A_g / s_g^2 + alpha)

at the w_g of the posterior's mode. It is largest where

    s_g^2 = ||y_g - A_g w_g||^2 / (n - d_g),    alpha = sum of d_g / sum of ||w_g||^2

with d_g = sum of l / (l + alpha s_g^2) over the eigenvalues l of A_g^T A_g: how many weights the data decide, and
not the prior.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

ROUNDS = 200  # of the two equations in turn
SMALLEST = 1e-10  # noise variance, of data scaled to about 1
TINY = 1e-30  # so that weights of 0 have a prior too


@dataclass(frozen=True, kw_only=True, eq=False)
class ChosenPrior:
    """What was chosen.

    Args:
        prior_precision: alpha.
        noise: s_g^2 of every regression.
        decided: sum of d_g.
        log: log p(y).
    """

    prior_precision: float
    noise: Float[np.ndarray, " g"]
    decided: float
    log: float


def evidence_of(
    eigenvalues: Float[np.ndarray, "g f"],
    misfits: Float[np.ndarray, " g"],
    squares: float,
    observed: float,
    prior_precision: float | Literal["auto"] = "auto",
) -> ChosenPrior:
    """The evidence at the best noise, and the best prior unless it is given.

    Eigenvalues differ between processors in their last bits, so what is chosen has the three digits that they agree on.

    Args:
        eigenvalues: of every A_g^T A_g.
        misfits: ||y_g - A_g w_g||^2.
        squares: sum of ||w_g||^2.
        observed: n.
        prior_precision: alpha.
    """
    alpha = 1.0 if prior_precision == "auto" else prior_precision
    noise = np.maximum(misfits / observed, SMALLEST)
    for _ in range(ROUNDS):
        decided = (eigenvalues / (eigenvalues + alpha * noise[:, None])).sum(axis=1)
        noise = np.maximum(misfits / (observed - decided), SMALLEST)
        if prior_precision == "auto":
            alpha = float(decided.sum()) / max(squares, TINY)
    alpha, noise = _digits(alpha, 3), np.array([_digits(one, 3) for one in noise])
    return ChosenPrior(
        prior_precision=alpha,
        noise=noise,
        decided=_digits((eigenvalues / (eigenvalues + alpha * noise[:, None])).sum(), 6),
        log=_digits(_log_evidence(eigenvalues, misfits, squares, observed, alpha, noise), 6),
    )


def _log_evidence(
    eigenvalues: Float[np.ndarray, "g f"],
    misfits: Float[np.ndarray, " g"],
    squares: float,
    observed: float,
    alpha: float,
    noise: Float[np.ndarray, " g"],
) -> float:
    of_data = -(observed * np.log(2 * np.pi * noise) + misfits / noise).sum() / 2
    of_prior = (eigenvalues.size * np.log(alpha) - alpha * squares) / 2
    return float(of_data + of_prior - np.log(eigenvalues / noise[:, None] + alpha).sum() / 2)


def _digits(value: float, count: int) -> float:
    return float(f"{value:.{count}g}")
