r"""The variance of the reconstruction: how far the draws disagree on what an example should be.

s(x) = 1/D sum_d Var_m[x^_m,d]

Baur et al. 2020 and Yong et al. 2020. The example's own values enter only by what they are reconstructed as: what
all draws agree on scores low, however far from the example it is.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from indubio.judging.scores.draw_score import DrawScore, Scores, ValueScores, mean_of_values
from indubio.judging.uncertainty import var_nll


@dataclass(frozen=True, kw_only=True, eq=False)
class ReconstructionVariance(DrawScore):
    """One score a fold: the variance over its draws, mean over the values.

    Examples:
        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.posteriors import AnchoredEnsemble
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> draws = AnchoredEnsemble(members=4).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> score = ReconstructionVariance(draws=draws, parts=(4,))
        >>> np.allclose(score.nll(rows)[0], draws.reconstruction(rows).var(axis=0).mean(axis=1))
        True
    """

    def scored(self, rows: Float[np.ndarray, "n ..."]) -> tuple[Scores, ValueScores]:
        """The scores, from one pass through the network."""
        found = self.draws.reconstruction(rows)
        flat = found.reshape(len(found), -1)
        values = np.stack([var_nll(flat[draws]).reshape(rows.shape) for draws in self._slices()])
        return mean_of_values(values), values
