"""One network, one row of weights, plain torch in double precision: what every engine must agree with.

It reads the specification of a network and shares no code with the engines: no leading axis, torch.nn's own layers,
norms and activations, likelihoods by torch.distributions, everything differentiated by autograd.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, pi

import torch
import torch.nn.functional as F
from torch import Tensor, distributions

from indubio.networks import (
    BernoulliLikelihood,
    BetaLikelihood,
    Block,
    BlockNetwork,
    ContinuousBernoulliLikelihood,
    GaussianLikelihood,
    Likelihood,
    Linear,
    StudentLikelihood,
    TruncatedGaussianLikelihood,
)

ACTIVATIONS = {
    "relu": torch.nn.ReLU(),
    "elu": torch.nn.ELU(),
    "selu": torch.nn.SELU(),
    "gelu": torch.nn.GELU(),
    "tanh": torch.nn.Tanh(),
    "sigmoid": torch.nn.Sigmoid(),
    "none": torch.nn.Identity(),
    "softmax": torch.nn.Softmax(dim=1),
    "cosine": torch.cos,
}
Named = dict[str, Tensor]


@dataclass(frozen=True)
class Passed:
    """What one pass gives: code and reconstruction, each with its log variance where there is one."""

    mean: Tensor
    code_log_variance: Tensor | None
    location: Tensor
    log_variance: Tensor | None


def passed(
    network: BlockNetwork,
    weights: Named,
    rows: Tensor,
    *,
    masks: Sequence[Tensor] | None = None,
    noise: Tensor | None = None,
) -> Passed:
    """Rows (B, *shape) through one network, with masks (B or 1, units) and code noise (B or 1, *latent)."""

    def run(block: Block, x: Tensor, place: int | None) -> Tensor:
        out = _active(block.activation, network.slope)(_normed(block, weights, _layer(block, weights, x)))
        if masks is None or place is None:
            return out
        return out * masks[place].unflatten(1, (-1, *[1] * (out.ndim - 2)))

    x = rows.movedim(-1, 1) if network.channels_last else rows
    before, outputs = x, []
    for place, block in enumerate(network.encoder):
        before = x.reshape(len(x), *block.layer.in_shape)
        x = run(block, before, place)
        outputs.append(x)
    mean, head = x, network.code_log_variance
    code_log_variance = None if head is None else run(head, before, None)
    if code_log_variance is not None and network.code_heads != "linear":
        code_log_variance = torch.log(F.softplus(code_log_variance).square())
    if code_log_variance is not None and network.code_heads == "frozen":
        x = mean = mean.detach()
        code_log_variance = code_log_variance.detach()
    if noise is not None:
        assert code_log_variance is not None
        x = mean + noise * torch.sqrt(torch.exp(code_log_variance))
    for place, block in enumerate(network.decoder):
        x = x.reshape(len(x), *block.layer.in_shape)
        if place and network.skips:
            x = x + outputs[-1 - place].reshape(x.shape)
        before = x
        x = run(block, x, len(network.encoder) + place if block is not network.decoder[-1] else None)
    head = network.output_log_variance
    spread = None if head is None else _back(network, run(head, before, None))
    return Passed(mean, code_log_variance, _active(network.last_activation, 0.0)(_back(network, x)), spread)


def nll_of_values(likelihood: Likelihood, weights: Named, rows: Tensor, found: Passed) -> Tensor:
    """Negative log-likelihood of every value, without constants."""
    if isinstance(likelihood, BernoulliLikelihood):
        return -distributions.Bernoulli(found.location).log_prob(rows) if _binary(rows) else _mixed(rows, found)
    if isinstance(likelihood, ContinuousBernoulliLikelihood):
        return -distributions.ContinuousBernoulli(found.location).log_prob(rows)
    log_variance = weights.get("likelihood.log_variance", found.log_variance)
    scale = torch.ones_like(rows) * getattr(likelihood, "scale", 1.0)
    if log_variance is not None:
        scale = torch.sqrt(torch.exp(log_variance) + likelihood.smallest_scale**2).expand_as(rows)
    if isinstance(likelihood, StudentLikelihood):
        return _student(likelihood.freedom, (rows - found.location) / scale) + torch.log(scale)
    if isinstance(likelihood, BetaLikelihood):
        mean, values = (likelihood.edge + (1 - 2 * likelihood.edge) * each for each in (found.location, rows))
        return -distributions.Beta(mean / scale**2, (1 - mean) / scale**2).log_prob(values)
    if isinstance(likelihood, GaussianLikelihood | TruncatedGaussianLikelihood):
        normal = distributions.Normal(found.location, scale)
        whole = -normal.log_prob(rows) - log(2 * pi) / 2
        if isinstance(likelihood, GaussianLikelihood):
            return whole
        return whole + torch.log(normal.cdf(torch.ones_like(rows)) - normal.cdf(torch.zeros_like(rows)))
    return -distributions.Laplace(found.location, scale).log_prob(rows) - log(2)


def _student(freedom: float, off: Tensor) -> Tensor:
    """A multivariate t in units of its scale, without its constants, shared out by squared distance."""
    values = off.flatten(1)
    # Along a line through its centre a t falls as a t of one dimension does whose freedom counts the other values too.
    size = values.shape[1]
    total = values.square().sum(1)
    line = distributions.StudentT(torch.tensor(freedom + size - 1.0, dtype=values.dtype))
    at = torch.sqrt(total * (freedom + size - 1) / freedom)
    score = line.log_prob(torch.zeros_like(at)) - line.log_prob(at)
    return (values.square() / total[:, None] * score[:, None]).reshape(off.shape)


def kl_of_code(found: Passed) -> Tensor:
    """KL of every row's code from the standard normal, summed over the code."""
    assert found.code_log_variance is not None
    code = distributions.Normal(found.mean, torch.exp(found.code_log_variance / 2))
    standard = distributions.Normal(torch.zeros_like(found.mean), torch.ones_like(found.mean))
    return distributions.kl_divergence(code, standard).flatten(1).sum(1)


def _layer(block: Block, weights: Named, x: Tensor) -> Tensor:
    layer = block.layer
    weight, bias = weights[f"{layer.name}.weight"], weights.get(f"{layer.name}.bias")
    if isinstance(layer, Linear):
        return F.linear(x, weight.T, bias)
    if layer.output_padding is None:
        down = {3: F.conv1d, 4: F.conv2d}[x.ndim]
        return down(x, weight, bias, layer.stride, layer.padding)
    up = {3: F.conv_transpose1d, 4: F.conv_transpose2d}[x.ndim]
    return up(x, weight, bias, layer.stride, layer.padding, layer.output_padding)


def _normed(block: Block, weights: Named, x: Tensor) -> Tensor:
    if block.norm is None:
        return x
    gain, shift = weights[f"{block.norm.name}.gain"], weights[f"{block.norm.name}.shift"]
    return F.layer_norm(x, block.norm.shape, gain, shift)


def _active(activation: str, slope: float) -> torch.nn.Module:
    return torch.nn.LeakyReLU(slope) if activation == "leaky_relu" else ACTIVATIONS[activation]


def _back(network: BlockNetwork, x: Tensor) -> Tensor:
    return x.movedim(1, -1) if network.channels_last else x.reshape(len(x), *network.input_shape)


def _binary(rows: Tensor) -> bool:
    return bool(((rows == 0) | (rows == 1)).all())


def _mixed(rows: Tensor, found: Passed) -> Tensor:
    return -(rows * torch.log(found.location) + (1 - rows) * torch.log1p(-found.location))
