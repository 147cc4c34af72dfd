"""Negative log-likelihoods on torch; the formulas are those of `autoencoders.likelihoods`."""

import torch.nn.functional as F
from torch import Tensor

from indubio.networks.likelihoods import (
    LOG_VARIANCE,
    BernoulliLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    Likelihood,
    NoisyLikelihood,
)
from indubio.networks.tensors import Decoded, TensorWeights


def nll_of_values(likelihood: Likelihood, x: Tensor, decoded: Decoded, weights: TensorWeights) -> Tensor:
    """Negative log-likelihood of every value, (A, B, ...), up to a constant."""
    match likelihood:
        case GaussianLikelihood():
            squared, variance = (x - decoded.location).square(), _variance(likelihood, decoded, weights)
            return squared / 2 if variance is None else (squared / variance + variance.log()) / 2
        case LaplaceLikelihood():
            distance, variance = (x - decoded.location).abs(), _variance(likelihood, decoded, weights)
            return distance if variance is None else distance / variance.sqrt() + variance.log() / 2
        case BernoulliLikelihood():
            return F.binary_cross_entropy(decoded.location, x.expand_as(decoded.location), reduction="none")
        case _:
            raise TypeError(f"{type(likelihood).__name__} has no formula on torch.")


def _variance(likelihood: NoisyLikelihood, decoded: Decoded, weights: TensorWeights) -> Tensor | None:
    """The squared scale of every value, or None where it is 1."""
    if likelihood.noise == "unit":
        return None
    log_variance = weights[LOG_VARIANCE].unsqueeze(1) if likelihood.noise == "per_feature" else decoded.log_variance
    assert log_variance is not None  # architectures build the head whenever `output_noise` asks
    return log_variance.exp() + likelihood.smallest_scale**2
