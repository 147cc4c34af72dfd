r"""Likelihoods: what the reconstruction says of the data, as a negative log-likelihood per value.

    Gaussian   (x - m)^2 / (2 s^2) + log(s^2) / 2        paper, eq. Gaussian loss (s = 1 there)
    Laplace    |x - m| / b + log b
    Bernoulli  -x log m - (1 - x) log(1 - m)             logs bounded at -100, as torch does
    Student    (nu + D) / 2 log(1 + Q / nu), Q = sum over the D values of (x - m)^2 / s^2; and log(s^2) / 2 of each

    continuous Bernoulli  Bernoulli's - log C(m), C(m) = 2 atanh(1 - 2 m) / (1 - 2 m)   Loaiza-Ganem & Cunningham 2019
    truncated Gaussian    Gaussian's + log(Phi((1 - m) / s) - Phi(-m / s))
    beta                  log G(a) + log G(b) - log G(c) - (a - 1) log x - (b - 1) log(1 - x), G the gamma function,
                          c = 1 / s^2, a = c m, b = c (1 - m)

The last three are densities on [0, 1]; docs/likelihoods.md says for which data each one is.
Constants (log 2 pi / 2, log 2) are left out, as in the paper. An example's NLL is the mean over its values, so that
scores of wide and narrow data are of one size. These are the settings; engines compute them.
"""

from abc import ABC
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from indubio.networks.layers import Shapes, Weights
from indubio.numerics import Shape
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

    @property
    def least_variance(self) -> float:
        """What is added to a learned variance, or where none is learned all of it."""
        return 0.0

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

    @property
    def least_variance(self) -> float:
        """The smallest variance that a value can have."""
        return self.smallest_scale**2

    def shapes(self, input_shape: Shape) -> Shapes:
        """One log variance per feature, where it is learned."""
        return {LOG_VARIANCE: input_shape} if self.noise == "per_feature" else {}


@dataclass(frozen=True, kw_only=True)
class GaussianLikelihood(NoisyLikelihood):
    """Gaussian noise; the default, with sigma = 1, is the paper's.

    Examples:
        A value's score is half of its squared distance to its reconstruction.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense
        >>> from indubio.posteriors import Deterministic
        >>> from indubio.networks import Training
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

    Examples:
        A value's score is its distance to its reconstruction.

        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense
        >>> from indubio.posteriors import Deterministic
        >>> from indubio.networks import Training
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

    Examples:
        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense
        >>> from indubio.posteriors import Deterministic
        >>> from indubio.networks import Training
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

    Examples:
        >>> import numpy as np
        >>> from indubio.networks import Autoencoder, Dense
        >>> from indubio.posteriors import Deterministic
        >>> from indubio.networks import Training
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


@dataclass(frozen=True, kw_only=True)
class ContinuousBernoulliLikelihood(Likelihood):
    """Bernoulli's formula made a density on [0, 1]: for values anywhere in it, such as grey levels.

    The reconstruction is the parameter m, not the mean: that is nearer to 1/2. Needs `last_activation="sigmoid"` and
    clipped scaling.

    Examples:
        With a parameter of 1/4, C is log(3) / (1/2), so that the density is that times (1/4)^x (3/4)^(1 - x).

        >>> import numpy as np
        >>> from scipy.integrate import quad
        >>> constant = np.log(3) / 0.5
        >>> round(quad(lambda x: constant * 0.25**x * 0.75 ** (1 - x), 0, 1)[0], 6)
        1.0
        >>> from indubio.networks import Autoencoder, Dense
        >>> from indubio.posteriors import Deterministic
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), ContinuousBernoulliLikelihood())
        >>> draws = Deterministic().fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> m = draws.reconstruction(rows).astype(np.float64)
        >>> bernoulli, t = -rows * np.log(m) - (1 - rows) * np.log(1 - m), 1 - 2 * m
        >>> np.allclose(draws.nll_per_feature(rows), bernoulli - np.log(2 * np.arctanh(t) / t), atol=1e-5)
        True
    """

    @property
    def unit_interval(self) -> bool:
        """It is a density there alone."""
        return True


@dataclass(frozen=True, kw_only=True)
class BoundedLikelihood(Likelihood, ABC):
    """A density on [0, 1] with a scale: fixed, learned per feature, or given by the decoder.

    Args:
        noise: "fixed": the scale is `scale`. "per_feature": one learned scale per feature. "per_example": the decoder
            gives the scale of every value of every example.
        scale: the fixed one.
        smallest_scale: floor of a learned scale.
    """

    noise: Literal["fixed", "per_feature", "per_example"] = "per_feature"
    scale: Positive = 0.1
    smallest_scale: Positive = 1e-3

    @property
    def output_noise(self) -> bool:
        """Only the heteroscedastic variant asks the decoder."""
        return self.noise == "per_example"

    @property
    def unit_interval(self) -> bool:
        """It is a density there alone."""
        return True

    @property
    def least_variance(self) -> float:
        """The smallest variance that a value can have."""
        return (self.scale if self.noise == "fixed" else self.smallest_scale) ** 2

    def shapes(self, input_shape: Shape) -> Shapes:
        """One log variance per feature, where it is learned."""
        return {LOG_VARIANCE: input_shape} if self.noise == "per_feature" else {}


@dataclass(frozen=True, kw_only=True)
class TruncatedGaussianLikelihood(BoundedLikelihood):
    """Gaussian noise that cannot leave [0, 1]: near 0 and 1 the density is that of the side that is left.

    The reconstruction is the mode, not the mean. Needs `last_activation="sigmoid"` and clipped scaling.

    Examples:
        >>> import numpy as np
        >>> from scipy import stats
        >>> from indubio.networks import Autoencoder, Dense
        >>> from indubio.posteriors import Deterministic
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> likelihood = TruncatedGaussianLikelihood(noise="fixed", scale=0.2)
        >>> autoencoder = Autoencoder(Dense().build((3,)), likelihood)
        >>> draws = Deterministic().fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> m = draws.reconstruction(rows)
        >>> density = stats.truncnorm.logpdf(rows, -m / 0.2, (1 - m) / 0.2, m, 0.2)
        >>> np.allclose(draws.nll_per_feature(rows), -density - np.log(2 * np.pi) / 2, atol=1e-4)
        True
    """


@dataclass(frozen=True, kw_only=True)
class BetaLikelihood(BoundedLikelihood):
    """Beta distribution whose mean is the reconstruction: for shares, and values that crowd at 0 or 1.

    Its concentration is c = 1 / s^2, so that a value's variance is m (1 - m) / (1 + c): noise is smaller near 0 and 1.
    At exactly 0 and 1 the density is 0 or infinite, and the least and the largest value are scaled to just that: before
    they are compared, value and reconstruction are shrunk to [edge, 1 - edge], so that 0 counts as `edge`. Needs
    `last_activation="sigmoid"` and clipped scaling.

    Args:
        edge: what 0 counts as, and 1 less it is what 1 counts as; the smaller, the more a value at an end counts.

    Examples:
        >>> import numpy as np
        >>> from scipy import stats
        >>> from indubio.networks import Autoencoder, Dense
        >>> from indubio.posteriors import Deterministic
        >>> from indubio.networks import Training
        >>> rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
        >>> autoencoder = Autoencoder(Dense().build((3,)), BetaLikelihood(noise="fixed", scale=0.2, edge=0.01))
        >>> draws = Deterministic().fit(autoencoder, rows, training=Training(epochs=2), seed=0)
        >>> m, x = (0.01 + 0.98 * values for values in (draws.reconstruction(rows), rows))
        >>> np.allclose(draws.nll_per_feature(rows), -stats.beta.logpdf(x, 25 * m, 25 * (1 - m)), atol=1e-4)
        True
    """

    edge: Annotated[float, Field(gt=0, lt=0.5)] = 1e-3
