"""The network of an autoencoder: what every architecture builds, and the built-in one made of blocks."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod

from indubio.networks.layers import Block, Random, Shapes, Weights
from indubio.numerics import Shape


class Network(ABC):
    """The specification of a network; engines run it.

    Attributes:
        input_shape: shape of one example, (D,), (L, K) or (H, W, C).
        latent_shape: shape of one example's code.
        dropout_units: size of the dropout mask at each place.
        widest: values of one example at the widest place, for choosing chunks.
    """

    input_shape: Shape
    latent_shape: Shape
    dropout_units: tuple[int, ...]
    widest: int

    @property
    def values_per_loss(self) -> int:
        """Values of one example that a loss is the mean over."""
        return prod(self.input_shape)

    @abstractmethod
    def shapes(self) -> Shapes:
        """Names and shapes of the weights of one network."""

    @abstractmethod
    def initial(self, random: Random) -> Weights:
        """Fresh weights of one network, in single precision."""


@dataclass(frozen=True)
class BlockNetwork(Network):
    """Encoder and decoder as lists of blocks, mirrored, with additive skips into every decoder block but the first."""

    input_shape: Shape
    encoder: tuple[Block, ...]
    decoder: tuple[Block, ...]
    code_log_variance: Block | None
    output_log_variance: Block | None
    skips: bool
    channels_last: bool  # windows come as (L, K), images as (H, W, C); convolutions want the channels first
    slope: float
    last_activation: str
    code_heads: str = "linear"  # of a VAE, how the head gives the spread of the code: see `BlockArchitecture`

    @property
    def latent_shape(self) -> Shape:  # type: ignore[override]
        """Shape of one example's code."""
        return self.encoder[-1].layer.out_shape

    @property
    def dropout_units(self) -> tuple[int, ...]:  # type: ignore[override]
        """Units of each mask: there is one after every block but the output."""
        return tuple(block.units for block in (*self.encoder, *self.decoder[:-1]))

    @property
    def widest(self) -> int:  # type: ignore[override]
        """Values of one example at the widest place."""
        return max(prod(self.input_shape), *(block.width for block in (*self.encoder, *self.decoder)))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks that have weights: encoder, decoder, heads."""
        heads = (self.code_log_variance, self.output_log_variance)
        return (*self.encoder, *self.decoder, *(head for head in heads if head))

    def shapes(self) -> Shapes:
        """Names and shapes of the weights of one network."""
        return {name: shape for block in self.blocks for name, shape in block.shapes().items()}

    def initial(self, random: Random) -> Weights:
        """Fresh weights of one network."""
        return {name: weight for block in self.blocks for name, weight in block.initial(random).items()}
