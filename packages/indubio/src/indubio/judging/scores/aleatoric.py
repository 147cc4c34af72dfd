r"""The predicted noise: how little the network itself trusts its reconstruction of an example.

s_m(x) = 1/D sum_d sigma^2_m,d(x),   sigma^2 = exp(log variance) + smallest_scale^2

Baur et al. 2020 and Yong et al. 2020. Of a Laplace or Student's t likelihood it is the squared scale.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from indubio.errors import ConfigError
from indubio.judging.scores.draw_score import DrawScore, Scores, ValueScores, mean_of_values
from indubio.networks import Likelihood


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictedNoise(DrawScore):
    """One score a draw: the squared scale that its decoder gives, mean over the values.

    Examples:
        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense, GaussianLikelihood
        >>> from indubio.posteriors import Deterministic
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,), output_noise=True), GaussianLikelihood(noise="per_example"))
        >>> draws = Deterministic().fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> score = PredictedNoise(draws=draws, parts=(1,))
        >>> np.allclose(score.nll(rows), draws.variance(rows).mean(axis=2))
        True
    """

    TOGETHER: ClassVar[bool] = False
    FEWEST: ClassVar[int] = 1

    @classmethod
    def check(cls, name: str, draws: int, likelihood: Likelihood) -> None:
        """Refuse a noise that is the same for all examples."""
        super().check(name, draws, likelihood)
        if getattr(likelihood, "noise", None) != "per_example":
            raise ConfigError(
                "`anomaly_score` {name!r} is the noise that the decoder expects of each example: with {likelihood} "
                'all have the same. Set `likelihood=GaussianLikelihood(noise="per_example")` and a posterior that is '
                'trained, such as AnchoredEnsemble() (in a configuration: likelihood = {{ kind = "gaussian", noise = '
                '"per_example" }}, posterior = "anchored_ensemble"); or `anomaly_score="nll"`.',
                name=name,
                likelihood=likelihood,
            )

    def scored(self, rows: Float[np.ndarray, "n ..."]) -> tuple[Scores, ValueScores]:
        """The scores, from one pass through the network."""
        values = self.draws.variance(rows)
        return mean_of_values(values), values
