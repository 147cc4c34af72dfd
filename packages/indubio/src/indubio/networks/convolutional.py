"""What the convolutional networks share: convolutions, then linear layers, and the mirror image.

Lengths: a layer is padded just enough that its kernel sees the last sample, ceil(missing / 2) on both sides. On the way
back the output padding (L + 2p - k) mod s restores the length exactly, for every L; each axis by itself.
"""

from abc import ABC
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import ClassVar

from indubio.errors import ConfigError, ShapeError
from indubio.networks.architecture import BlockArchitecture
from indubio.networks.layers import Convolution, Layer, Linear
from indubio.networks.network import BlockNetwork
from indubio.numerics import Shape
from indubio.settings import AtLeastOne


@dataclass(frozen=True, kw_only=True)
class Convolutional(BlockArchitecture, ABC):
    """Convolutions over some axes, then linear layers, and the mirror image.

    Args:
        channels: output channels of the convolutions.
        kernels: their kernel sizes, on every axis.
        strides: their strides, on every axis.
        linear: widths of the linear layers between the convolutions and the code.
    """

    AXES: ClassVar[int]
    NEEDS: ClassVar[str]  # what it takes, and
    OTHERWISE: ClassVar[str]  # what to do with anything else
    TOO: ClassVar[str]  # short or small
    UNIT: ClassVar[str]  # of lengths

    channels: tuple[AtLeastOne, ...]
    kernels: tuple[AtLeastOne, ...]
    strides: tuple[AtLeastOne, ...]
    linear: tuple[AtLeastOne, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.channels or not len(self.channels) == len(self.kernels) == len(self.strides):
            raise ConfigError(
                "`channels`, `kernels` and `strides` must be of one length, at least 1, "
                "got {channels}, {kernels} and {strides}.",
                channels=self.channels,
                kernels=self.kernels,
                strides=self.strides,
            )

    def build(self, input_shape: Shape, *, code_noise: bool = False, output_noise: bool = False) -> BlockNetwork:
        """The network for examples of this shape, channels last."""
        if len(input_shape) != self.AXES + 1:
            raise ShapeError(f"{type(self).__name__} needs {self.NEEDS}, got {_named(input_shape)}. {self.OTHERWISE}")
        down = self._convolutions(input_shape)
        sizes = (prod(down[-1].out_shape), *self.linear, self.latent_size(input_shape))
        encoder: list[Layer] = [
            *down,
            *(Linear(f"encoder.{len(down) + i}", a, b, self.bias) for i, (a, b) in enumerate(pairwise(sizes))),
        ]
        decoder: list[Layer] = [
            *(Linear(f"decoder.{i}", a, b, self.bias) for i, (a, b) in enumerate(pairwise(sizes[::-1]))),
            *(_reversed(layer, f"decoder.{len(sizes) - 1 + i}") for i, layer in enumerate(down[::-1])),
        ]
        return self.mirrored(
            encoder,
            decoder,
            input_shape,
            channels_last=True,
            code_noise=code_noise,
            output_noise=output_noise,
        )

    def _convolutions(self, input_shape: Shape) -> list[Convolution]:
        layers: list[Convolution] = []
        *lengths, sensors = input_shape
        shape: Shape = (sensors, *lengths)
        for i, (channels, kernel, stride) in enumerate(zip(self.channels, self.kernels, self.strides, strict=True)):
            if min(shape[1:]) < kernel:
                raise ShapeError(self._too_small(input_shape, i, min(shape[1:])))
            padding = tuple(_padding(length, kernel, stride) for length in shape[1:])
            after = (_length_after(a, kernel, stride, p) for a, p in zip(shape[1:], padding, strict=True))
            out = (channels, *after)
            each = ((kernel,) * self.AXES, (stride,) * self.AXES)
            layers.append(Convolution(f"encoder.{i}", shape, out, *each, padding, self.bias))
            shape = out
        return layers

    def _too_small(self, input_shape: Shape, place: int, left: int) -> str:
        return (
            f"{_named(input_shape)} are too {self.TOO}: convolution {place + 1} has a kernel of {self.kernels[place]} "
            f"and gets {left} {self.UNIT}. Use examples of at least {self.shortest_side()} {self.UNIT}, or smaller "
            "kernels."
        )

    def shortest_side(self) -> int:
        """The smallest length, on every axis, that every convolution can take."""
        length = 1
        for kernel, stride in zip(reversed(self.kernels), reversed(self.strides), strict=True):
            # A layer gives ceil((L - k) / s) + 1 samples: the fewest L that give at least `length`.
            length = kernel if length == 1 else kernel + (length - 2) * stride + 1
        return length


def _named(shape: Shape) -> str:
    match shape:
        case (features,):
            return f"rows of {features} features"
        case (length, sensors):
            return f"windows of {length} x {sensors}"
        case (height, width, channels):
            return f"images of {height} x {width} x {channels}"
        case _:
            return f"examples of shape {shape}"


def _padding(length: int, kernel: int, stride: int) -> int:
    missing = (kernel - length) % stride  # samples that the last step of the kernel lacks
    return -(-missing // 2)


def _length_after(length: int, kernel: int, stride: int, padding: int) -> int:
    return (length + 2 * padding - kernel) // stride + 1


def _reversed(layer: Convolution, name: str) -> Convolution:
    each = zip(layer.in_shape[1:], layer.padding, layer.kernel, layer.stride, strict=True)
    return Convolution(
        name,
        layer.out_shape,
        layer.in_shape,
        layer.kernel,
        layer.stride,
        layer.padding,
        layer.bias,
        tuple((length + 2 * padding - kernel) % stride for length, padding, kernel, stride in each),
    )
