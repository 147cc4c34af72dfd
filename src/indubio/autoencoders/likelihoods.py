r"""Likelihoods: what the reconstruction says of the data, as a negative log-likelihood per value.

    Gaussian   (x - m)^2 / (2 s^2) + log(s^2) / 2        paper, eq. Gaussian loss (s = 1 there)
    Laplace    |x - m| / b + log b
    Bernoulli  -x log m - (1 - x) log(1 - m)

Constants (log 2 pi / 2, log 2) are left out, as in the paper. An example's NLL is the mean over its values, so that
scores of wide and narrow data are of one size; `Autoencoder.nll_per_feature` keeps the values apart.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from indubio.autoencoders.layers import Shape, Weights
from indubio.autoencoders.network import Decoded
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

    def initial(self, input_shape: Shape, dtype: torch.dtype) -> Weights:
        """Parameters of the likelihood itself, for one network."""
        del input_shape, dtype
        return {}

    @abstractmethod
    def nll(self, x: Tensor, decoded: Decoded, weights: Weights) -> Tensor:
        """Negative log-likelihood of every value, (A, B, ...), up to a constant."""


@dataclass(frozen=True, kw_only=True)
class _WithNoise(Likelihood, ABC):
    """A likelihood with a scale: fixed at one, learned per feature, or given by the decoder.

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

    def initial(self, input_shape: Shape, dtype: torch.dtype) -> Weights:
        """One log variance per feature, starting at scale 1."""
        if self.noise != "per_feature":
            return {}
        return {LOG_VARIANCE: torch.zeros(input_shape, dtype=dtype)}

    def variance(self, decoded: Decoded, weights: Weights) -> Tensor | None:
        """The squared scale of every value, or None where it is 1."""
        if self.noise == "unit":
            return None
        log_variance = weights[LOG_VARIANCE].unsqueeze(1) if self.noise == "per_feature" else decoded.log_variance
        assert log_variance is not None  # architectures build the head whenever `output_noise` asks
        return log_variance.exp() + self.smallest_scale**2


@dataclass(frozen=True, kw_only=True)
class GaussianLikelihood(_WithNoise):
    """Gaussian noise; the default, with sigma = 1, is the paper's."""

    def nll(self, x: Tensor, decoded: Decoded, weights: Weights) -> Tensor:
        """(x - m)^2 / (2 s^2) + log(s^2) / 2."""
        squared = (x - decoded.location).square()
        variance = self.variance(decoded, weights)
        return squared / 2 if variance is None else (squared / variance + variance.log()) / 2


@dataclass(frozen=True, kw_only=True)
class LaplaceLikelihood(_WithNoise):
    """Laplace noise: heavier tails, so single far-off values count less."""

    def nll(self, x: Tensor, decoded: Decoded, weights: Weights) -> Tensor:
        """|x - m| / b + log b."""
        distance = (x - decoded.location).abs()
        variance = self.variance(decoded, weights)
        return distance if variance is None else distance / variance.sqrt() + variance.log() / 2


@dataclass(frozen=True, kw_only=True)
class BernoulliLikelihood(Likelihood):
    """For data in [0, 1] read as probabilities; needs `last_activation="sigmoid"` and clipped scaling."""

    @property
    def unit_interval(self) -> bool:
        """Outside [0, 1] the formula has no lower bound."""
        return True

    def nll(self, x: Tensor, decoded: Decoded, weights: Weights) -> Tensor:
        """-x log m - (1 - x) log(1 - m), logs bounded at -100 as torch does."""
        del weights
        location = decoded.location
        return F.binary_cross_entropy(location, x.expand_as(location), reduction="none")
