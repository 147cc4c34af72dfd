r"""Layers as specifications: shapes of their parameters, and what these start from.

Every engine runs them in its own way, for C networks at once: a parameter then carries a leading axis, the networks
come first.
"""

from dataclasses import dataclass
from math import prod, sqrt
from typing import Protocol

import numpy as np
from jaxtyping import Float

from indubio.numerics import Shape

Weights = dict[str, np.ndarray]
Shapes = dict[str, Shape]


class Random(Protocol):
    """What fresh weights are drawn from."""

    def uniform(self, shape: Shape, bound: float) -> Float[np.ndarray, "..."]:
        """Single-precision numbers from [-bound, bound)."""


def _initial(shapes: Shapes, fan_in: int, random: Random) -> Weights:
    # U(-1/sqrt(fan_in), 1/sqrt(fan_in)) is what torch.nn.Linear and torch.nn.Conv1d start from.
    return {name: random.uniform(shape, 1 / sqrt(fan_in)) for name, shape in shapes.items()}


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

    def shapes(self) -> Shapes:
        """Shapes of the parameters of one network."""
        weight: Shapes = {f"{self.name}.weight": (self.inputs, self.outputs)}
        return weight | {f"{self.name}.bias": (self.outputs,)} if self.bias else weight

    def initial(self, random: Random) -> Weights:
        """Fresh parameters of one network."""
        return _initial(self.shapes(), self.inputs, random)


@dataclass(frozen=True)
class Convolution:
    """A convolution, or its transpose, for each network, over a length or over height and width; channels come first.

    Kernel, stride and paddings have one number for each axis but the channels.
    """

    name: str
    in_shape: Shape
    out_shape: Shape
    kernel: Shape
    stride: Shape
    padding: Shape
    bias: bool
    output_padding: Shape | None = None  # numbers make it a transposed convolution

    @property
    def transposed(self) -> bool:
        """Whether this layer goes back up."""
        return self.output_padding is not None

    def shapes(self) -> Shapes:
        """Shapes of the parameters of one network, laid out as torch.nn's convolutions do."""
        channels_in, channels_out = self.in_shape[0], self.out_shape[0]
        channels = (channels_in, channels_out) if self.transposed else (channels_out, channels_in)
        weight: Shapes = {f"{self.name}.weight": (*channels, *self.kernel)}
        return weight | {f"{self.name}.bias": (channels_out,)} if self.bias else weight

    def initial(self, random: Random) -> Weights:
        """Fresh parameters of one network."""
        shapes = self.shapes()
        # torch counts the fan of a transposed convolution over its second axis, the output channels.
        return _initial(shapes, prod(shapes[f"{self.name}.weight"][1:]), random)


Layer = Linear | Convolution


@dataclass(frozen=True)
class LayerNorm:
    """Normalisation over all values of one example, with a learned gain and shift per network."""

    name: str
    shape: Shape

    def shapes(self) -> Shapes:
        """Shapes of the parameters of one network."""
        return {f"{self.name}.gain": self.shape, f"{self.name}.shift": self.shape}

    def initial(self) -> Weights:
        """A gain of 1 and a shift of 0, with which the norm only normalises."""
        return {
            f"{self.name}.gain": np.ones(self.shape, np.float32),
            f"{self.name}.shift": np.zeros(self.shape, np.float32),
        }


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

    def shapes(self) -> Shapes:
        """Shapes of the parameters of one network."""
        return self.layer.shapes() | (self.norm.shapes() if self.norm else {})

    def initial(self, random: Random) -> Weights:
        """Fresh parameters of one network."""
        return self.layer.initial(random) | (self.norm.initial() if self.norm else {})
