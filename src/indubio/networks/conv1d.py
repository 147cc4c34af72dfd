"""Convolutional autoencoder over time (paper, architecture table, ZeMA and STRATH).

conv 10 k8 s2 -> conv 20 k2 s2 -> flatten -> linear 1000 -> linear latent, and back with transposed convolutions.

Lengths: a layer is padded just enough that its kernel sees the last sample, ceil(missing / 2) on both sides, which
gives the authors' sizes (flat 280 for L = 60, 2780 for L = 562). On the way back the output padding (L + 2p - k) mod
s restores the length exactly, for every L.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from indubio.errors import ConfigError, ShapeError
from indubio.networks.architecture import BlockArchitecture
from indubio.networks.layers import Convolution, Layer, Linear, Shape
from indubio.networks.network import BlockNetwork
from indubio.settings import AtLeastOne


@dataclass(frozen=True, kw_only=True)
class Conv1d(BlockArchitecture):
    """Convolutions over time, then linear layers, and the mirror image.

    Args:
        channels: output channels of the convolutions.
        kernels: their kernel sizes.
        strides: their strides.
        linear: widths of the linear layers between the convolutions and the code.
    """

    channels: tuple[AtLeastOne, ...] = (10, 20)
    kernels: tuple[AtLeastOne, ...] = (8, 2)
    strides: tuple[AtLeastOne, ...] = (2, 2)
    linear: tuple[AtLeastOne, ...] = (1000,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.channels or not len(self.channels) == len(self.kernels) == len(self.strides):
            raise ConfigError(
                "`channels`, `kernels` and `strides` must be of one length, at least 1, "
                f"got {self.channels}, {self.kernels} and {self.strides}."
            )

    def build(self, input_shape: Shape, *, code_noise: bool = False, output_noise: bool = False) -> BlockNetwork:
        """The network for windows of this shape."""
        if len(input_shape) != 2:
            raise ShapeError(
                f"Conv1d needs windows (examples, length, sensors), got rows of {input_shape[0]} features. "
                "Use Dense for tables."
            )
        down = self._convolutions(*input_shape)
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

    def _convolutions(self, length: int, sensors: int) -> list[Convolution]:
        layers: list[Convolution] = []
        shape: Shape = (sensors, length)
        for i, (channels, kernel, stride) in enumerate(zip(self.channels, self.kernels, self.strides, strict=True)):
            if shape[1] < kernel:
                raise ShapeError(
                    f"windows of length {length} are too short: convolution {i + 1} has a kernel of {kernel} and gets "
                    f"{shape[1]} samples. Use windows of at least {self.shortest_window()} samples, or smaller kernels."
                )
            padding = _padding(shape[1], kernel, stride)
            out = (channels, _length_after(shape[1], kernel, stride, padding))
            layers.append(Convolution(f"encoder.{i}", shape, out, kernel, stride, padding, self.bias))
            shape = out
        return layers

    def shortest_window(self) -> int:
        """The smallest length that every convolution can take."""
        length = 1
        for kernel, stride in zip(reversed(self.kernels), reversed(self.strides), strict=True):
            # A layer gives ceil((L - k) / s) + 1 samples: the fewest L that give at least `length`.
            length = kernel if length == 1 else kernel + (length - 2) * stride + 1
        return length


def _padding(length: int, kernel: int, stride: int) -> int:
    missing = (kernel - length) % stride  # samples that the last step of the kernel lacks
    return -(-missing // 2)


def _length_after(length: int, kernel: int, stride: int, padding: int) -> int:
    return (length + 2 * padding - kernel) // stride + 1


def _reversed(layer: Convolution, name: str) -> Convolution:
    output_padding = (layer.in_shape[1] + 2 * layer.padding - layer.kernel) % layer.stride
    return Convolution(
        name,
        layer.out_shape,
        layer.in_shape,
        layer.kernel,
        layer.stride,
        layer.padding,
        layer.bias,
        output_padding,
    )
