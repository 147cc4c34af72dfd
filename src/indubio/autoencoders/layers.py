r"""Layers of C networks at once: every parameter carries a leading axis, the members come first.

    x (A, B, ...)  with  W (C, ...)  ->  (max(A, C), B, ...)

A is 1 when all networks see the same rows, C is 1 when all draws share one set of weights (MC dropout, VAE); otherwise
both are the number of networks. One batched product or one grouped convolution replaces a loop over networks, which on
small networks is nearly all overhead.
"""

from dataclasses import dataclass
from math import prod, sqrt

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

Weights = dict[str, Tensor]
Shape = tuple[int, ...]


def _uniform(shape: Shape, fan_in: int, generator: Generator, dtype: torch.dtype) -> Tensor:
    # U(-1/sqrt(fan_in), 1/sqrt(fan_in)) is what torch.nn.Linear and torch.nn.Conv1d start from.
    bound = 1 / sqrt(fan_in)
    return torch.empty(shape, dtype=dtype).uniform_(-bound, bound, generator=generator)


def _fold_bias(out: Tensor, bias: Tensor | None, extra_axes: int) -> Tensor:
    return out if bias is None else out + bias.reshape(bias.shape[0], 1, -1, *[1] * extra_axes)


@dataclass(frozen=True)
class Linear:
    """x W + b for each network."""

    name: str
    inputs: int
    outputs: int
    bias: bool

    @property
    def in_shape(self) -> Shape:
        """Shape of one example coming in."""
        return (self.inputs,)

    @property
    def out_shape(self) -> Shape:
        """Shape of one example going out."""
        return (self.outputs,)

    def initial(self, generator: Generator, dtype: torch.dtype) -> Weights:
        """Fresh parameters of one network."""
        weights = {f"{self.name}.weight": _uniform((self.inputs, self.outputs), self.inputs, generator, dtype)}
        if self.bias:
            weights[f"{self.name}.bias"] = _uniform((self.outputs,), self.inputs, generator, dtype)
        return weights

    def __call__(self, weights: Weights, x: Tensor) -> Tensor:
        """(A, B, inputs) -> (max(A, C), B, outputs)."""
        weight, bias = weights[f"{self.name}.weight"], weights.get(f"{self.name}.bias")
        if weight.shape[0] == 1:  # shared weights: one plain product over all rows of all draws
            return _fold_bias(x @ weight.squeeze(0), bias, 0)
        if bias is not None and x.shape[0] == weight.shape[0]:
            return torch.baddbmm(bias.unsqueeze(1), x, weight)
        return _fold_bias(x @ weight, bias, 0)


@dataclass(frozen=True)
class Convolution:
    """Conv1d, or its transpose, for each network, on examples of (channels, length)."""

    name: str
    in_shape: Shape
    out_shape: Shape
    kernel: int
    stride: int
    padding: int
    bias: bool
    output_padding: int | None = None  # a number makes it a transposed convolution

    @property
    def transposed(self) -> bool:
        """Whether this layer goes back up."""
        return self.output_padding is not None

    def initial(self, generator: Generator, dtype: torch.dtype) -> Weights:
        """Fresh parameters of one network, laid out as torch.nn.Conv1d and ConvTranspose1d do."""
        channels_in, channels_out = self.in_shape[0], self.out_shape[0]
        # torch counts the fan of a transposed convolution over its second axis, the output channels.
        shape = (channels_in, channels_out) if self.transposed else (channels_out, channels_in)
        fan_in = shape[1] * self.kernel
        weights = {f"{self.name}.weight": _uniform((*shape, self.kernel), fan_in, generator, dtype)}
        if self.bias:
            weights[f"{self.name}.bias"] = _uniform((channels_out,), fan_in, generator, dtype)
        return weights

    def __call__(self, weights: Weights, x: Tensor) -> Tensor:
        """(A, B, channels, length) -> (max(A, C), B, channels, length)."""
        weight, bias = weights[f"{self.name}.weight"], weights.get(f"{self.name}.bias")
        networks, (members, rows) = weight.shape[0], x.shape[:2]
        if networks == 1:  # shared weights: the draws are just more rows
            out = self._convolve(x.flatten(0, 1), weight.squeeze(0), groups=1)
            return _fold_bias(out.reshape(members, rows, *self.out_shape), bias, 1)
        if members == 1:  # every network sees the same rows
            x = x.expand(networks, *x.shape[1:])
        grouped = x.transpose(0, 1).flatten(1, 2)  # (B, C * channels, length)
        out = self._convolve(grouped, weight.flatten(0, 1), groups=networks)
        return _fold_bias(out.reshape(rows, networks, *self.out_shape).transpose(0, 1), bias, 1)

    def _convolve(self, x: Tensor, weight: Tensor, groups: int) -> Tensor:
        if self.output_padding is None:
            return F.conv1d(x, weight, stride=self.stride, padding=self.padding, groups=groups)
        return F.conv_transpose1d(x, weight, None, self.stride, self.padding, self.output_padding, groups=groups)


Layer = Linear | Convolution


@dataclass(frozen=True)
class LayerNorm:
    """Normalisation over all values of one example, with a learned gain and shift per network."""

    name: str
    shape: Shape

    def initial(self, dtype: torch.dtype) -> Weights:
        """Gain 1 and shift 0."""
        return {
            f"{self.name}.gain": torch.ones(self.shape, dtype=dtype),
            f"{self.name}.shift": torch.zeros(self.shape, dtype=dtype),
        }

    def __call__(self, weights: Weights, x: Tensor) -> Tensor:
        """(A, B, *shape) -> (max(A, C), B, *shape)."""
        # With a weight and a bias torch takes its fast kernel; the networks' own ones follow by broadcasting.
        ones = torch.ones(self.shape, dtype=x.dtype, device=x.device)
        normed = F.layer_norm(x, self.shape, ones, torch.zeros_like(ones))
        return normed * weights[f"{self.name}.gain"].unsqueeze(1) + weights[f"{self.name}.shift"].unsqueeze(1)


@dataclass(frozen=True)
class Block:
    """One step of an encoder or decoder: layer, then norm, then activation; a dropout mask comes last."""

    layer: Layer
    norm: LayerNorm | None
    activation: str

    @property
    def units(self) -> int:
        """What one dropout mask switches: units of a linear layer, channels of a convolution."""
        return self.layer.out_shape[0]

    @property
    def width(self) -> int:
        """Values of one example after this block."""
        return prod(self.layer.out_shape)

    def initial(self, generator: Generator, dtype: torch.dtype) -> Weights:
        """Fresh parameters of one network."""
        weights = self.layer.initial(generator, dtype)
        return weights | self.norm.initial(dtype) if self.norm else weights

    def __call__(self, weights: Weights, x: Tensor, slope: float) -> Tensor:
        """(A, B, *in_shape) -> (max(A, C), B, *out_shape)."""
        out = self.layer(weights, x)
        if self.norm:
            out = self.norm(weights, out)
        return activate(out, self.activation, slope)


def activate(x: Tensor, activation: str, slope: float) -> Tensor:
    """The named activation of x, which may be overwritten; `slope` is that of the leaky ReLU."""
    match activation:
        case "leaky_relu":
            return F.leaky_relu(x, slope, inplace=True)
        case "relu":
            return F.relu(x)
        case "gelu":
            return F.gelu(x)
        case "tanh":
            return torch.tanh(x)
        case "sigmoid":
            return torch.sigmoid(x)
        case _:
            return x
