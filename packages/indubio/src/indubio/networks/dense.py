"""Dense autoencoder: input -> 4x -> 4x -> latent, and back (paper, architecture table, ODDS)."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from indubio.networks.architecture import BlockArchitecture
from indubio.networks.layers import Layer, Linear
from indubio.networks.network import BlockNetwork
from indubio.numerics import Shape
from indubio.settings import AtLeastOne, Positive


@dataclass(frozen=True, kw_only=True)
class Dense(BlockArchitecture):
    """Fully connected encoder and mirrored decoder; windows are flattened.

    Args:
        expansions: hidden widths as multiples of the input's width.
        widths: hidden widths in units, instead of `expansions`.
    """

    expansions: tuple[Positive, ...] = (4.0, 4.0)
    widths: tuple[AtLeastOne, ...] | None = None

    def build(self, input_shape: Shape, *, code_noise: bool = False, output_noise: bool = False) -> BlockNetwork:
        """The network for rows or windows of this shape."""
        inputs = prod(input_shape)
        hidden = self.widths or tuple(max(1, int(factor * inputs)) for factor in self.expansions)
        sizes = (inputs, *hidden, self.latent_size(input_shape))
        encoder: list[Layer] = [Linear(f"encoder.{i}", a, b, self.bias) for i, (a, b) in enumerate(pairwise(sizes))]
        decoder: list[Layer] = [
            Linear(f"decoder.{i}", a, b, self.bias) for i, (a, b) in enumerate(pairwise(sizes[::-1]))
        ]
        return self.mirrored(
            encoder,
            decoder,
            input_shape,
            channels_last=False,
            code_noise=code_noise,
            output_noise=output_noise,
        )
