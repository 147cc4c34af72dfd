"""Negative log-likelihoods on torch; the formulas are those of `networks.likelihoods`.

A likelihood of your own registers its formula here, and then runs with every network and posterior, on torch:

    @nll_of_values.register
    def _(likelihood: MyLikelihood, x: Tensor, decoded: Decoded, weights: TensorWeights) -> Tensor: ...
"""

from functools import singledispatch

import torch
import torch.nn.functional as F
from torch import Tensor

from indubio.networks.likelihoods import (
    LOG_VARIANCE,
    BernoulliLikelihood,
    BetaLikelihood,
    BoundedLikelihood,
    ContinuousBernoulliLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    Likelihood,
    NoisyLikelihood,
    StudentLikelihood,
    TruncatedGaussianLikelihood,
)
from indubio.networks.tensors import Decoded, TensorWeights

SERIES_UP_TO, SERIES_TERMS = 1 / 3, 18  # of atanh(t) / t: the next term is below 1e-17
SMALLEST = 1e-37  # as in the compiled core: a logarithm below is bounded
LEAST_MASS = 1e-15  # of a Gaussian within [0, 1], whose scale would have to be 1e14


@singledispatch
def nll_of_values(likelihood: Likelihood, x: Tensor, decoded: Decoded, weights: TensorWeights) -> Tensor:  # noqa: ARG001 - for those that have a formula
    """Negative log-likelihood of every value, (A, B, ...), up to a constant.

    Args:
        likelihood: its settings choose the formula.
        x: the values.
        decoded: their reconstructions, and the log variances where the likelihood has `output_noise`.
        weights: all weights by name, the likelihood's own among them.
    """
    raise TypeError(
        f"{type(likelihood).__name__} has no formula on torch: register one with "
        "`indubio.networks.engine.torch_likelihoods.nll_of_values.register`."
    )


@nll_of_values.register
def _gaussian(likelihood: GaussianLikelihood, x: Tensor, decoded: Decoded, weights: TensorWeights) -> Tensor:
    squared, variance = (x - decoded.location).square(), _variance(likelihood, decoded, weights)
    return squared / 2 if variance is None else (squared / variance + variance.log()) / 2


@nll_of_values.register
def _laplace(likelihood: LaplaceLikelihood, x: Tensor, decoded: Decoded, weights: TensorWeights) -> Tensor:
    distance, variance = (x - decoded.location).abs(), _variance(likelihood, decoded, weights)
    return distance if variance is None else distance / variance.sqrt() + variance.log() / 2


@nll_of_values.register
def _bernoulli(likelihood: BernoulliLikelihood, x: Tensor, decoded: Decoded, weights: TensorWeights) -> Tensor:  # noqa: ARG001 - as every formula
    return F.binary_cross_entropy(decoded.location, x.expand_as(decoded.location), reduction="none")


@nll_of_values.register
def _student(likelihood: StudentLikelihood, x: Tensor, decoded: Decoded, weights: TensorWeights) -> Tensor:
    own, variance = (x - decoded.location).square(), _variance(likelihood, decoded, weights)
    if variance is not None:
        own = own / variance
    axes, freedom = tuple(range(2, own.ndim)), likelihood.freedom
    total = own.sum(axes, keepdim=True)
    # log(1 + Q / nu) / Q has a limit where all is reconstructed, which the division would miss.
    small = total.clamp_min(1e-30)
    part = (freedom + own[0, 0].numel()) / 2 * (small / freedom).log1p() / small
    shares = own * part
    return shares if variance is None else shares + variance.log() / 2


@nll_of_values.register
def _continuous_bernoulli(
    likelihood: ContinuousBernoulliLikelihood,  # noqa: ARG001 - as every formula
    x: Tensor,
    decoded: Decoded,
    weights: TensorWeights,  # noqa: ARG001
) -> Tensor:
    location = decoded.location
    bernoulli = F.binary_cross_entropy(location, x.expand_as(location), reduction="none")
    off = 1 - 2 * location
    near = off.abs() < SERIES_UP_TO
    # Both branches get values that the other one is for out of the way: their slopes must be finite too.
    square = torch.where(near, off, 0).square()
    series = sum(square**k / (2 * k + 1) for k in range(1, SERIES_TERMS)) + 1
    odds = _bounded_log(1 - location) - _bounded_log(location)
    ratio = torch.where(near, 1, odds) / torch.where(near, 1, off)
    return bernoulli - torch.where(near, 2 * series, ratio).log()


@nll_of_values.register
def _truncated_gaussian(
    likelihood: TruncatedGaussianLikelihood, x: Tensor, decoded: Decoded, weights: TensorWeights
) -> Tensor:
    location, variance = decoded.location, _bounded_variance(likelihood, decoded, weights)
    scale = (2 * variance).sqrt()
    # Phi(high) - Phi(low) with low below 0: as a sum, so that a wide scale costs no digits.
    mass = (torch.erf((1 - location) / scale) + torch.erf(location / scale)) / 2
    return ((x - location).square() / variance + variance.log()) / 2 + mass.clamp_min(LEAST_MASS).log()


@nll_of_values.register
def _beta(likelihood: BetaLikelihood, x: Tensor, decoded: Decoded, weights: TensorWeights) -> Tensor:
    # In double: the logarithms of large gamma functions nearly cancel.
    mean, value = (likelihood.edge + (1 - 2 * likelihood.edge) * each.double() for each in (decoded.location, x))
    everything = 1 / _bounded_variance(likelihood, decoded, weights).double()
    a, b = everything * mean, everything * (1 - mean)
    constant = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(everything)
    return (constant - (a - 1) * _bounded_log(value) - (b - 1) * _bounded_log(1 - value)).to(x.dtype)


def _bounded_log(x: Tensor) -> Tensor:
    """The logarithm, bounded at -100; its slope is 0 there."""
    return torch.where(x > SMALLEST, x.clamp_min(SMALLEST).log(), -100.0)


def _bounded_variance(likelihood: BoundedLikelihood, decoded: Decoded, weights: TensorWeights) -> Tensor:
    if likelihood.noise == "fixed":
        return decoded.location.new_tensor(likelihood.least_variance)
    return _learned_log_variance(likelihood, decoded, weights).exp() + likelihood.least_variance


def _variance(likelihood: NoisyLikelihood, decoded: Decoded, weights: TensorWeights) -> Tensor | None:
    """The squared scale of every value, or None where it is 1."""
    if likelihood.noise == "unit":
        return None
    return _learned_log_variance(likelihood, decoded, weights).exp() + likelihood.least_variance


def _learned_log_variance(
    likelihood: NoisyLikelihood | BoundedLikelihood, decoded: Decoded, weights: TensorWeights
) -> Tensor:
    log_variance = weights[LOG_VARIANCE].unsqueeze(1) if likelihood.noise == "per_feature" else decoded.log_variance
    assert log_variance is not None  # architectures build the head whenever `output_noise` asks
    return log_variance
