r"""Forward passes of C networks at once on torch: every parameter carries a leading axis, the networks come first.

    x (A, B, ...)  with  W (C, ...)  ->  (max(A, C), B, ...)

A is 1 when all networks see the same rows, C is 1 when all draws share one set of weights (MC dropout, VAE); otherwise
both are the number of networks. One batched product or one grouped convolution replaces a loop over networks, which on
small networks is nearly all overhead.
"""

from math import prod
from typing import Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from indubio.networks.autoencoder import Autoencoder
from indubio.networks.engine.torch_likelihoods import nll_of_values
from indubio.networks.layers import Block, Convolution, LayerNorm, Linear
from indubio.networks.likelihoods import BoundedLikelihood, NoisyLikelihood
from indubio.networks.network import BlockNetwork, Network
from indubio.networks.own_modules import ModuleNetwork
from indubio.networks.tensors import Code, Decoded, Masks, TensorWeights


class Program(Protocol):
    """A network as torch runs it."""

    def encode(self, weights: TensorWeights, x: Float[Tensor, "a b ..."], masks: Masks | None) -> Code:
        """The codes of the rows under each network."""

    def decode(self, weights: TensorWeights, code: Code, masks: Masks | None) -> Decoded:
        """The reconstructions of the codes under each network."""


class StackedAutoencoder:
    """NLL of rows under C networks at once.

    Rows come as (A, B, *shape), where A is 1 (all networks see the same rows) or the number of networks; the weights'
    leading axis C is 1 or that number.

    Args:
        autoencoder: its specification.
    """

    def __init__(self, autoencoder: Autoencoder) -> None:
        self.program, self._likelihood = _program(autoencoder.network), autoencoder.likelihood
        self._shapes = autoencoder.shapes()
        self._sizes = [prod(shape) for shape in self._shapes.values()]

    def named(self, flat: Float[Tensor, "c p"]) -> TensorWeights:
        """The weights in such rows by name, as views (C, *shape)."""
        parts = flat.split(self._sizes, dim=1)  # type: ignore[no-untyped-call]
        return {
            name: part.reshape(len(flat), *shape)
            for part, (name, shape) in zip(parts, self._shapes.items(), strict=True)
        }

    def reconstruct(
        self,
        weights: TensorWeights,
        rows: Float[Tensor, "a b ..."],
        *,
        masks: Masks | None = None,
        noise: Tensor | None = None,
    ) -> Decoded:
        """The reconstruction; `masks` are dropout masks, `noise` standard normal noise of a VAE's code."""
        code = self.program.encode(weights, rows, masks)
        return self.program.decode(weights, code if noise is None else noisy(code, noise), masks)

    def variance(
        self,
        weights: TensorWeights,
        rows: Float[Tensor, "a b ..."],
        *,
        masks: Masks | None = None,
        noise: Tensor | None = None,
    ) -> Float[Tensor, "c b ..."]:
        """The squared scale of every value, of a likelihood with `output_noise`."""
        decoded = self.reconstruct(weights, rows, masks=masks, noise=noise)
        assert isinstance(self._likelihood, NoisyLikelihood | BoundedLikelihood)
        assert decoded.log_variance is not None
        return decoded.log_variance.exp() + self._likelihood.least_variance

    def nll_per_feature(
        self,
        weights: TensorWeights,
        rows: Float[Tensor, "a b ..."],
        *,
        masks: Masks | None = None,
        noise: Tensor | None = None,
        seen: Float[Tensor, "a b ..."] | None = None,
    ) -> Float[Tensor, "c b ..."]:
        """Negative log-likelihood of every value of every row; the networks may be given others, with noise."""
        decoded = self.reconstruct(weights, rows if seen is None else seen, masks=masks, noise=noise)
        return self.nll_of(rows, decoded, weights)

    def nll_of(self, rows: Float[Tensor, "a b ..."], decoded: Decoded, weights: TensorWeights) -> Tensor:
        """Negative log-likelihood of every value, given its reconstruction."""
        return nll_of_values(self._likelihood, rows, decoded, weights)

    def nll(
        self,
        weights: TensorWeights,
        rows: Float[Tensor, "a b ..."],
        *,
        masks: Masks | None = None,
        noise: Tensor | None = None,
        seen: Float[Tensor, "a b ..."] | None = None,
    ) -> Float[Tensor, "c b"]:
        """Negative log-likelihood of every row: the mean over its values."""
        return nll_of_rows(self.nll_per_feature(weights, rows, masks=masks, noise=noise, seen=seen))


def nll_of_rows(per_feature: Float[Tensor, "c b ..."]) -> Float[Tensor, "c b"]:
    """The score of a row: the mean over its values."""
    return per_feature.flatten(2).mean(2)


def noisy(code: Code, noise: Tensor) -> Code:
    """The code moved by standard normal noise times its standard deviation."""
    assert code.log_variance is not None  # built with `code_noise`
    return Code(code.latent + noise * (code.log_variance / 2).exp(), code.log_variance, code.skips)


def _program(network: Network) -> Program:
    if isinstance(network, ModuleNetwork):
        return network
    assert isinstance(network, BlockNetwork)
    return _Blocks(network)


class _Blocks:
    """A built-in network, block after block, C of them at once."""

    def __init__(self, network: BlockNetwork) -> None:
        self._network = network

    def encode(self, weights: TensorWeights, x: Float[Tensor, "a b ..."], masks: Masks | None) -> Code:
        """The codes of the rows, and every block's output for the skips."""
        network = self._network
        if network.channels_last:
            x = x.movedim(-1, 2)
        outputs: list[Tensor] = []
        log_variance = None
        for place, block in enumerate(network.encoder):
            x = x.reshape(*x.shape[:2], *block.layer.in_shape)
            if block is network.encoder[-1] and network.code_log_variance:
                log_variance = self._run(network.code_log_variance, weights, x)
                if network.code_heads != "linear":
                    log_variance = 2 * F.softplus(log_variance).log()
            x = _masked(self._run(block, weights, x), masks, place)
            outputs.append(x)
        if log_variance is not None and network.code_heads == "frozen":
            x, log_variance = x.detach(), log_variance.detach()
        return Code(x, log_variance, tuple(outputs[:-1]) if network.skips else ())

    def decode(self, weights: TensorWeights, code: Code, masks: Masks | None) -> Decoded:
        """The reconstructions, in the shape the rows came in."""
        network, x, log_variance = self._network, code.latent, None
        for place, block in enumerate(network.decoder):
            x = x.reshape(*x.shape[:2], *block.layer.in_shape)
            if place and code.skips:
                skip = code.skips[-place]
                x = x + skip.reshape(*skip.shape[:2], *block.layer.in_shape)
            if block is network.decoder[-1]:
                if network.output_log_variance:
                    log_variance = self._as_input(self._run(network.output_log_variance, weights, x))
                x = self._run(block, weights, x)
            else:
                x = _masked(self._run(block, weights, x), masks, len(network.encoder) + place)
        return Decoded(_activated(self._as_input(x), network.last_activation, network.slope), log_variance)

    def _run(self, block: Block, weights: TensorWeights, x: Tensor) -> Tensor:
        """(A, B, *in_shape) -> (max(A, C), B, *out_shape)."""
        layer = block.layer
        out = _linear(layer, weights, x) if isinstance(layer, Linear) else _convolution(layer, weights, x)
        if block.norm:
            out = _normed(block.norm, weights, out)
        return _activated(out, block.activation, self._network.slope)

    def _as_input(self, x: Tensor) -> Tensor:
        if self._network.channels_last:
            return x.movedim(2, -1)
        return x.reshape(*x.shape[:2], *self._network.input_shape)


def _masked(x: Tensor, masks: Masks | None, place: int) -> Tensor:
    if masks is None:
        return x
    mask = masks[place]
    return x * mask.reshape(*mask.shape, *[1] * (x.ndim - 3))


def _linear(layer: Linear, weights: TensorWeights, x: Tensor) -> Tensor:
    weight, bias = weights[f"{layer.name}.weight"], weights.get(f"{layer.name}.bias")
    if weight.shape[0] == 1:  # shared weights: one plain product over all rows of all draws
        return _biased(x @ weight.squeeze(0), bias, 0)
    if bias is not None and x.shape[0] == weight.shape[0]:
        return torch.baddbmm(bias.unsqueeze(1), x, weight)
    return _biased(x @ weight, bias, 0)


def _convolution(layer: Convolution, weights: TensorWeights, x: Tensor) -> Tensor:
    weight, bias = weights[f"{layer.name}.weight"], weights.get(f"{layer.name}.bias")
    networks, (members, rows) = weight.shape[0], x.shape[:2]
    if networks == 1:  # shared weights: the draws are just more rows
        out = _convolved(layer, x.flatten(0, 1), weight.squeeze(0), groups=1)
        return _biased(out.reshape(members, rows, *layer.out_shape), bias, len(layer.kernel))
    if members == 1:  # every network sees the same rows
        x = x.expand(networks, *x.shape[1:])
    grouped = x.transpose(0, 1).flatten(1, 2)  # (B, C * channels, length or height and width)
    out = _convolved(layer, grouped, weight.flatten(0, 1), groups=networks)
    return _biased(out.reshape(rows, networks, *layer.out_shape).transpose(0, 1), bias, len(layer.kernel))


def _convolved(layer: Convolution, x: Tensor, weight: Tensor, groups: int) -> Tensor:
    if layer.output_padding is None:
        down = F.conv1d if len(layer.kernel) == 1 else F.conv2d
        return down(x, weight, stride=layer.stride, padding=layer.padding, groups=groups)
    up = F.conv_transpose1d if len(layer.kernel) == 1 else F.conv_transpose2d
    return up(x, weight, None, layer.stride, layer.padding, layer.output_padding, groups=groups)


def _biased(out: Tensor, bias: Tensor | None, extra_axes: int) -> Tensor:
    return out if bias is None else out + bias.reshape(bias.shape[0], 1, -1, *[1] * extra_axes)


def _normed(norm: LayerNorm, weights: TensorWeights, x: Tensor) -> Tensor:
    # With a weight and a bias torch takes its fast kernel; the networks' own ones follow by broadcasting.
    ones = torch.ones(norm.shape, dtype=x.dtype, device=x.device)
    normed = F.layer_norm(x, norm.shape, ones, torch.zeros_like(ones))
    return normed * weights[f"{norm.name}.gain"].unsqueeze(1) + weights[f"{norm.name}.shift"].unsqueeze(1)


def _activated(x: Tensor, activation: str, slope: float) -> Tensor:
    """The named activation of x, which may be overwritten; `slope` is that of the leaky ReLU."""
    match activation:
        case "leaky_relu":
            return F.leaky_relu(x, slope, inplace=True)
        case "relu":
            return F.relu(x)
        case "elu":
            return F.elu(x)
        case "selu":
            return F.selu(x)
        case "gelu":
            return F.gelu(x)
        case "tanh":
            return torch.tanh(x)
        case "sigmoid":
            return torch.sigmoid(x)
        case "cosine":
            return torch.cos(x)
        case "softmax":
            return torch.softmax(x, dim=-1)
        case _:
            return x
