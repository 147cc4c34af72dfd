"""The network of C autoencoders at once: what every architecture builds, and the built-in one made of blocks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from indubio.autoencoders.layers import Block, Shape, Weights, activate

Masks = Sequence[Tensor]  # one (A, B or 1, units) per place where dropout may act


@dataclass(frozen=True)
class Code:
    """What the encoder gives: the latent code, for a VAE its log variance, and what the skips carry across."""

    latent: Tensor
    log_variance: Tensor | None = None
    skips: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class Decoded:
    """What the decoder gives: the reconstruction and, where the likelihood asks, its log variance."""

    location: Tensor
    log_variance: Tensor | None = None


class Network(ABC):
    """A program over stacked weights, members first.

    Attributes:
        input_shape: shape of one example, (D,) or (L, K).
        latent_shape: shape of one example's code.
        dropout_units: size of the dropout mask at each place.
        widest: values of one example at the widest place, for choosing chunks.
    """

    input_shape: Shape
    latent_shape: Shape
    dropout_units: tuple[int, ...]
    widest: int

    @abstractmethod
    def initial(self, generator: Generator, dtype: torch.dtype) -> Weights:
        """Fresh weights of one network, without the leading axis."""

    @abstractmethod
    def encode(self, weights: Weights, x: Float[Tensor, "a b ..."], masks: Masks | None) -> Code:
        """The codes of the rows under each network."""

    @abstractmethod
    def decode(self, weights: Weights, code: Code, masks: Masks | None) -> Decoded:
        """The reconstructions of the codes under each network."""


@dataclass(frozen=True)
class BlockNetwork(Network):
    """Encoder and decoder as lists of blocks, mirrored, with additive skips into every decoder block but the first."""

    input_shape: Shape
    encoder: tuple[Block, ...]
    decoder: tuple[Block, ...]
    code_log_variance: Block | None
    output_log_variance: Block | None
    skips: bool
    channels_last: bool  # windows come as (L, K); convolutions want (K, L)
    slope: float
    last_activation: str

    @property
    def latent_shape(self) -> Shape:  # type: ignore[override]
        """Shape of one example's code."""
        return self.encoder[-1].layer.out_shape

    @property
    def dropout_units(self) -> tuple[int, ...]:  # type: ignore[override]
        """After every block but the output."""
        return tuple(block.units for block in (*self.encoder, *self.decoder[:-1]))

    @property
    def widest(self) -> int:  # type: ignore[override]
        """Values of one example at the widest place."""
        return max(prod(self.input_shape), *(block.width for block in (*self.encoder, *self.decoder)))

    def initial(self, generator: Generator, dtype: torch.dtype) -> Weights:
        """Fresh weights of one network."""
        heads = (self.code_log_variance, self.output_log_variance)
        weights: Weights = {}
        for block in (*self.encoder, *self.decoder, *(head for head in heads if head)):
            weights |= block.initial(generator, dtype)
        return weights

    def encode(self, weights: Weights, x: Float[Tensor, "a b ..."], masks: Masks | None) -> Code:
        """The codes of the rows, and every block's output for the skips."""
        if self.channels_last:
            x = x.transpose(-1, -2)
        outputs: list[Tensor] = []
        log_variance = None
        for place, block in enumerate(self.encoder):
            x = x.reshape(*x.shape[:2], *block.layer.in_shape)
            if block is self.encoder[-1] and self.code_log_variance:
                log_variance = self.code_log_variance(weights, x, self.slope)
            x = self._masked(block(weights, x, self.slope), masks, place)
            outputs.append(x)
        return Code(x, log_variance, tuple(outputs[:-1]) if self.skips else ())

    def decode(self, weights: Weights, code: Code, masks: Masks | None) -> Decoded:
        """The reconstructions, in the shape the rows came in."""
        x, log_variance = code.latent, None
        for place, block in enumerate(self.decoder):
            x = x.reshape(*x.shape[:2], *block.layer.in_shape)
            if place and code.skips:
                skip = code.skips[-place]
                x = x + skip.reshape(*skip.shape[:2], *block.layer.in_shape)
            if block is self.decoder[-1]:
                if self.output_log_variance:
                    log_variance = self._as_input(self.output_log_variance(weights, x, self.slope))
                x = block(weights, x, self.slope)
            else:
                x = self._masked(block(weights, x, self.slope), masks, len(self.encoder) + place)
        return Decoded(activate(self._as_input(x), self.last_activation, self.slope), log_variance)

    def _as_input(self, x: Tensor) -> Tensor:
        if self.channels_last:
            return x.transpose(-1, -2)
        return x.reshape(*x.shape[:2], *self.input_shape)

    @staticmethod
    def _masked(x: Tensor, masks: Masks | None, place: int) -> Tensor:
        if masks is None:
            return x
        mask = masks[place]
        return x * mask.reshape(*mask.shape, *[1] * (x.ndim - 3))
