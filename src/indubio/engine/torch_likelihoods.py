"""Negative log-likelihoods on torch; the formulas are those of `networks.likelihoods`.

A likelihood of your own registers its formula here, and then runs with every network and posterior, on torch:

    @nll_of_values.register
    def _(likelihood: MyLikelihood, x: Tensor, decoded: Decoded, weights: TensorWeights) -> Tensor: ...
"""

from functools import singledispatch

import torch.nn.functional as F
from torch import Tensor

from indubio.networks.likelihoods import (
    LOG_VARIANCE,
    BernoulliLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    Likelihood,
    NoisyLikelihood,
    StudentLikelihood,
)
from indubio.networks.tensors import Decoded, TensorWeights


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
        "`indubio.engine.torch_likelihoods.nll_of_values.register`."
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


def _variance(likelihood: NoisyLikelihood, decoded: Decoded, weights: TensorWeights) -> Tensor | None:
    """The squared scale of every value, or None where it is 1."""
    if likelihood.noise == "unit":
        return None
    log_variance = weights[LOG_VARIANCE].unsqueeze(1) if likelihood.noise == "per_feature" else decoded.log_variance
    assert log_variance is not None  # architectures build the head whenever `output_noise` asks
    return log_variance.exp() + likelihood.smallest_scale**2
