"""Networks whose weights are found in closed form, nothing is trained by steps; and those of one hidden layer.

Cosines      x -> cos(W x + b) -> linear           the posterior `RandomFeatures`
Attention    x -> softmax(C x + b) -> linear       the posterior `Prototypes`
"""

from abc import ABC
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from indubio.errors import ConfigError
from indubio.networks.architecture import SLOPE, Architecture
from indubio.networks.layers import Block, Linear
from indubio.networks.network import BlockNetwork
from indubio.numerics import Shape
from indubio.settings import AtLeastOne

ENCODER, DECODER = "encoder.0", "decoder.0"


@dataclass(frozen=True, kw_only=True)
class ClosedForm(Architecture, ABC):
    """A network whose weights are computed."""

    def refuse_noise(self, *, code_noise: bool, output_noise: bool) -> None:
        """Refuse heads for variances: there is nothing to train them."""
        if code_noise or output_noise:
            raise ConfigError(
                "{method} gives a reconstruction and no variance: use a likelihood with "
                '`noise="unit"` or "per_feature".',
                method=type(self).__name__,
            )


@dataclass(frozen=True, kw_only=True)
class OneHiddenLayer(ClosedForm, ABC):
    """One hidden layer; windows are flattened.

    Args:
        units: of the hidden layer.
    """

    ACTIVATION: ClassVar[str]

    units: AtLeastOne

    def build(self, input_shape: Shape, *, code_noise: bool = False, output_noise: bool = False) -> BlockNetwork:
        """The network for rows or windows of this shape."""
        self.refuse_noise(code_noise=code_noise, output_noise=output_noise)
        values = prod(input_shape)
        return BlockNetwork(
            input_shape=input_shape,
            encoder=(Block(Linear(ENCODER, values, self.units, bias=True), None, self.ACTIVATION),),
            decoder=(Block(Linear(DECODER, self.units, values, bias=True), None, "none"),),
            code_log_variance=None,
            output_log_variance=None,
            skips=False,
            channels_last=False,
            slope=SLOPE,
            last_activation="none",
        )


@dataclass(frozen=True, kw_only=True)
class Cosines(OneHiddenLayer):
    """Random cosines of the input, and a linear map back: what `RandomFeatures` draws."""

    ACTIVATION: ClassVar[str] = "cosine"

    units: AtLeastOne = 800


@dataclass(frozen=True, kw_only=True)
class Attention(OneHiddenLayer):
    """Attention to remembered rows, and their mean weighted by it: what `Prototypes` draws. A unit is a row."""

    ACTIVATION: ClassVar[str] = "softmax"

    units: AtLeastOne = 1100
