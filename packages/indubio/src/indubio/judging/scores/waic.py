r"""WAIC as a score: the mean of the NLL over the draws, and its variance on top.

s(x) = E_m[nll_m(x)] + Var_m[nll_m(x)],   a value's part of it: E_m[nll_m,d] + Cov_m[nll_m,d, nll_m]

Choi et al. 2018, after Watanabe's information criterion. An example's NLL is a mean over its values here, as everywhere
in this package, and so the variance counts less in wide data than it would for the sum.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from jaxtyping import Float

from indubio.judging.scores.draw_score import DrawScore, Scores, ValueScores
from indubio.judging.uncertainty import mean_nll, var_nll


@dataclass(frozen=True, kw_only=True, eq=False)
class Waic(DrawScore):
    """One score a fold: mean and variance of the NLL over its draws.

    Examples:
        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.posteriors import AnchoredEnsemble
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> draws = AnchoredEnsemble(members=4).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> nll, score = draws.nll(rows), Waic(draws=draws, parts=(4,))
        >>> np.allclose(score.nll(rows)[0], nll.mean(axis=0) + nll.var(axis=0))
        True
    """

    def scored(self, rows: Float[np.ndarray, "n ..."]) -> tuple[Scores, ValueScores]:
        """The scores, from one pass through the network."""
        nll, apart = self.draws.nll_apart(rows)
        flat = apart.reshape(*nll.shape, prod(rows.shape[1:]))
        scores, values = [], []
        for draws in self._slices():
            own, mean, added = nll[draws], mean_nll(nll[draws]), np.zeros(flat.shape[1:])
            scores.append(mean + var_nll(own))
            with np.errstate(over="ignore", invalid="ignore"):  # where a score is infinite, its parts have no size
                for score, part in zip(own, flat[draws], strict=True):  # one after the other: the same bits everywhere
                    added += (score - mean + 1)[:, None] * part
            values.append((added / len(own)).reshape(rows.shape))
        return np.stack(scores), np.stack(values)
