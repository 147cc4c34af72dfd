"""Architecture: the settings of a network; `build` makes the network for the shape of the data."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import prod
from typing import Annotated, Literal, Self

from pydantic import Field

from indubio.errors import ConfigError
from indubio.message import Message
from indubio.networks.layers import Block, Layer, LayerNorm
from indubio.networks.network import BlockNetwork, Network
from indubio.numerics import Shape
from indubio.settings import AtLeastOne, NotNegative, Settings

SLOPE = 0.01  # leaky ReLU, paper, architecture table

CodeHeads = Literal["linear", "activated", "frozen"]
Activation = Literal["leaky_relu", "relu", "elu", "selu", "gelu", "tanh"]


@dataclass(frozen=True, kw_only=True)
class Architecture(Settings, ABC):
    """What kind of network to build."""

    @property
    def unit_interval(self) -> bool:
        """Whether all that it gives lies within [0, 1]."""
        return False

    @property
    def unbounded(self) -> Self:
        """This architecture for data of any range: nothing bounds what it reconstructs."""
        return self

    @abstractmethod
    def build(self, input_shape: Shape, *, code_noise: bool, output_noise: bool) -> Network:
        """The network for examples of this shape.

        Args:
            input_shape: (D,) for rows of a table, (L, K) for windows, (H, W, C) for images.
            code_noise: the encoder also gives a log variance of the code (VAE).
            output_noise: the decoder also gives a log variance of every value (heteroscedastic likelihood).
        """


@dataclass(frozen=True, kw_only=True)
class BlockArchitecture(Architecture):
    """Settings that the dense and the convolutional networks share.

    Args:
        latent_ratio: size of the code relative to the flattened input, rounded down.
        latent: size of the code in units, instead of `latent_ratio`.
        activation: after every block but the output.
        slope: of the leaky ReLU on the negative side.
        layer_norm: layer normalisation after every layer, the output's included.
        bias: additive constants in the layers.
        skips: U-Net skips, added to the input of every decoder block but the first.
        last_activation: "sigmoid" for data in [0, 1], "none" for any.
        code_heads: of a VAE, what gives the mean and the spread of its code. "linear": linear maps, with biases for the
            spread, which is exp(h / 2). "activated": layers like the others, and a spread of softplus(h). "frozen": the
            same, but no gradient goes through the code, so that only skips train the encoder. The last two are those of
            the library that the paper's authors wrote, later and in December 2021.
    """

    latent_ratio: Annotated[float, Field(gt=0)] = 0.5
    latent: AtLeastOne | None = None
    activation: Activation = "leaky_relu"
    slope: NotNegative = SLOPE
    layer_norm: bool = False
    bias: bool = False
    skips: bool = True
    last_activation: Literal["sigmoid", "none"] = "sigmoid"
    code_heads: CodeHeads = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.code_heads != "linear" and self.activation == "gelu":
            raise ConfigError(Message('`code_heads` must be "linear" where the activation is "gelu", got another.'))

    @property
    def unit_interval(self) -> bool:
        """Whether all that it gives lies within [0, 1]."""
        return self.last_activation == "sigmoid"

    @property
    def unbounded(self) -> Self:
        """This architecture for data of any range: nothing bounds what it reconstructs."""
        return self.replaced(last_activation="none")

    def latent_size(self, input_shape: Shape) -> int:
        """Units of the code; never fewer than one."""
        return self.latent or max(1, int(self.latent_ratio * prod(input_shape)))

    def mirrored(
        self,
        encoder: list[Layer],
        decoder: list[Layer],
        input_shape: Shape,
        *,
        channels_last: bool,
        code_noise: bool,
        output_noise: bool,
    ) -> BlockNetwork:
        """The network of these layers, with norm and activation as set."""
        last = decoder[-1]
        # A code squashed by an activation could not be Gaussian: a VAE's are linear maps, if nothing else is said.
        plain = code_noise and self.code_heads == "linear"
        code = Block(encoder[-1], None, "none") if plain else self._block(encoder[-1], self.activation)
        return BlockNetwork(
            input_shape=input_shape,
            encoder=(*(self._block(layer, self.activation) for layer in encoder[:-1]), code),
            decoder=(
                *(self._block(layer, self.activation) for layer in decoder[:-1]),
                self._block(last, "none"),
            ),
            code_log_variance=self._code_head(encoder[-1]) if code_noise else None,
            output_log_variance=_head(last, "output_log_variance") if output_noise else None,
            skips=self.skips,
            channels_last=channels_last,
            slope=self.slope,
            last_activation=self.last_activation,
            code_heads=self.code_heads,
        )

    def _code_head(self, layer: Layer) -> Block:
        head = _head(layer, "code_log_variance")
        return (
            head if self.code_heads == "linear" else Block(replace(head.layer, bias=self.bias), None, self.activation)
        )

    def _block(self, layer: Layer, activation: str) -> Block:
        norm = LayerNorm(f"{layer.name}.norm", layer.out_shape) if self.layer_norm else None
        return Block(layer, norm, activation)


def _head(layer: Layer, name: str) -> Block:
    return Block(replace(layer, name=name, bias=True), None, "none")
