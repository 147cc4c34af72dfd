r"""Likelihoods: what the reconstruction says of the data, as a negative log-likelihood per value.

    Gaussian   (x - m)^2 / (2 s^2) + log(s^2) / 2        paper, eq. Gaussian loss (s = 1 there)
    Laplace    |x - m| / b + log b
    Bernoulli  -x log m - (1 - x) log(1 - m)             logs bounded at -100, as torch does
    Student    (nu + D) / 2 log(1 + Q / nu), Q = sum over the D values of (x - m)^2 / s^2; and log(s^2) / 2 of each

Constants (log 2 pi / 2, log 2) are left out, as in the paper. An example's NLL is the mean over its values, so that
scores of wide and narrow data are of one size. These are the settings; engines compute them.
"""

from abc import ABC
from dataclasses import dataclass
from typing import Literal

import numpy as np

from indubio.networks.layers import Shape, Shapes, Weights
from indubio.settings import Positive, Settings

LOG_VARIANCE = "likelihood.log_variance"


@dataclass(frozen=True, kw_only=True)
class Likelihood(Settings, ABC):
    """How probable a value is, given its reconstruction."""

    @property
    def output_noise(self) -> bool:
        """Whether the decoder must give a log variance per example and value."""
        return False

    @property
    def unit_interval(self) -> bool:
        """Whether the data must lie in [0, 1]."""
        return False

    def shapes(self, input_shape: Shape) -> Shapes:
        """Shapes of the parameters of the likelihood itself, for one network."""
        del input_shape
        return {}

    def initial(self, input_shape: Shape) -> Weights:
        """Parameters of the likelihood itself, for one network: log variances of 0."""
        return {name: np.zeros(shape, np.float32) for name, shape in self.shapes(input_shape).items()}


@dataclass(frozen=True, kw_only=True)
class NoisyLikelihood(Likelihood, ABC):
    """A likelihood with a scale: fixed at one, learned per feature, or given by the decoder.

    The squared scale is exp(log variance) + smallest_scale^2.

    Args:
        noise: "unit": the scale is 1. "per_feature": one learned scale per feature. "per_example": heteroscedastic,
            the decoder gives the scale of every value of every example.
        smallest_scale: floor of a learned scale, in units of the scaled data. Without it a feature that
            is reconstructed perfectly would drive its NLL to minus infinity.
    """

    noise: Literal["unit", "per_feature", "per_example"] = "unit"
    smallest_scale: Positive = 1e-3

    @property
    def output_noise(self) -> bool:
        """Only the heteroscedastic variant asks the decoder."""
        return self.noise == "per_example"

    def shapes(self, input_shape: Shape) -> Shapes:
        """One log variance per feature, where it is learned."""
        return {LOG_VARIANCE: input_shape} if self.noise == "per_feature" else {}


@dataclass(frozen=True, kw_only=True)
class GaussianLikelihood(NoisyLikelihood):
    """Gaussian noise; the default, with sigma = 1, is the paper's.

    Example:
        A value's score is half of its squared distance to its reconstruction.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense
        >>> from indubio.posteriors import Deterministic, Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
        >>> draws = Deterministic().fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> m = draws.reconstruction(rows)
        >>> np.allclose(draws.nll_per_feature(rows), (rows - m) ** 2 / 2, atol=1e-5)
        True
    """


@dataclass(frozen=True, kw_only=True)
class LaplaceLikelihood(NoisyLikelihood):
    """Laplace noise: heavier tails, so single far-off values count less.

    Example:
        A value's score is its distance to its reconstruction.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense
        >>> from indubio.posteriors import Deterministic, Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), LaplaceLikelihood())
        >>> draws = Deterministic().fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> m = draws.reconstruction(rows)
        >>> np.allclose(draws.nll_per_feature(rows), abs(rows - m), atol=1e-5)
        True
    """


@dataclass(frozen=True, kw_only=True)
class StudentLikelihood(NoisyLikelihood):
    """Student's t over all values of an example together: Gaussian noise whose size is unknown for every example.

    Scores grow with the logarithm of the distance, so that no draw outweighs the others by a far-off value. A value's
    score is its share of the squared distance, times the score of the example.

    Args:
        freedom: degrees of freedom, nu; the smaller, the heavier the tails.

    Example:
        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense
        >>> from indubio.posteriors import Deterministic, Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), StudentLikelihood(freedom=2.0))
        >>> draws = Deterministic().fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> distance = ((rows - draws.reconstruction(rows)) ** 2).sum(axis=2)
        >>> np.allclose(draws.nll(rows), (2 + 3) / 2 * np.log(1 + distance / 2) / 3, atol=1e-5)
        True
    """

    freedom: Positive = 1.0


@dataclass(frozen=True, kw_only=True)
class BernoulliLikelihood(Likelihood):
    """For data in [0, 1] read as probabilities; needs `last_activation="sigmoid"` and clipped scaling.

    Example:
        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense
        >>> from indubio.posteriors import Deterministic, Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), BernoulliLikelihood())
        >>> draws = Deterministic().fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> m = draws.reconstruction(rows)
        >>> np.allclose(draws.nll_per_feature(rows), -rows * np.log(m) - (1 - rows) * np.log(1 - m), atol=1e-5)
        True
    """

    @property
    def unit_interval(self) -> bool:
        """Outside [0, 1] the formula has no lower bound."""
        return True
