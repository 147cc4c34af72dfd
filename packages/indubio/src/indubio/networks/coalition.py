r"""A coalition: one network for each sensor, none of which sees another's values.

    nll(x) = sum_k nll_k(x[:, k]) / K                 K sensors

So what a sensor adds to the score is the score of its own network: a sensor that is off cannot spoil how the others are
reconstructed. What it costs is all that sensors say of each other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Self

import numpy as np
from jaxtyping import Float

from indubio.errors import ShapeError
from indubio.networks.architecture import Architecture, BlockArchitecture
from indubio.networks.conv1d import Conv1d
from indubio.networks.dense import Dense
from indubio.networks.layers import Random, Shapes, Weights
from indubio.networks.network import BlockNetwork, Network
from indubio.numerics import Shape
from indubio.settings import ByKind

SENSOR = "sensor"  # what names of weights begin with


@dataclass(frozen=True, kw_only=True)
class Coalition(Architecture):
    """One network for each sensor of windows; the score is the mean of theirs.

    Args:
        network: of each sensor, a `Conv1d` or `Dense`; its code is as large as a single sensor makes it. The default
            has biases: without them a network gives 0.5 for a sensor at its lowest value, and in a coalition no other
            sensor makes up for it.

    Examples:
        The networks have the same layers, and weights of their own.

        >>> network = Coalition(network=Dense(widths=(8,))).build((20, 3))
        >>> [name for name in network.shapes() if name.endswith("encoder.0.weight")]
        ['sensor.0.encoder.0.weight', 'sensor.1.encoder.0.weight', 'sensor.2.encoder.0.weight']
        >>> network.shapes()["sensor.0.encoder.0.weight"]
        (20, 8)
    """

    network: Annotated[BlockArchitecture, ByKind({"dense": Dense, "conv1d": Conv1d})] = field(
        default_factory=lambda: Conv1d(bias=True)
    )

    @property
    def unit_interval(self) -> bool:
        """Whether all that it gives lies within [0, 1]."""
        return self.network.unit_interval

    @property
    def unbounded(self) -> Self:
        """This architecture for data of any range: nothing bounds what it reconstructs."""
        return self.replaced(network=self.network.unbounded)

    def build(self, input_shape: Shape, *, code_noise: bool = False, output_noise: bool = False) -> "CoalitionNetwork":
        """The networks for windows of this shape."""
        if len(input_shape) != 2:
            raise ShapeError(
                "Coalition needs windows (examples, length, sensors) as they are, got rows of "
                f"{input_shape[0]} features. Use Dense for tables and spectra."
            )
        length, sensors = input_shape
        inner = self.network.build((length, 1), code_noise=code_noise, output_noise=output_noise)
        assert isinstance(inner, BlockNetwork)  # all of these architectures build one
        return CoalitionNetwork(inner, sensors)


@dataclass(frozen=True)
class CoalitionNetwork(Network):
    """One network for each of K sensors, alike but for weights, masks and codes of its own.

    Args:
        inner: the network of a sensor.
        sensors: K.
    """

    inner: BlockNetwork
    sensors: int

    @property
    def input_shape(self) -> Shape:  # type: ignore[override]
        """Shape of one example, (L, K)."""
        return (self.inner.input_shape[0], self.sensors)

    @property
    def latent_shape(self) -> Shape:  # type: ignore[override]
        """Shape of one example's codes, a sensor's in a row."""
        return (self.sensors, *self.inner.latent_shape)

    @property
    def dropout_units(self) -> tuple[int, ...]:  # type: ignore[override]
        """Units of each mask: those of the first sensor's places, then of the second's, and so on."""
        return self.inner.dropout_units * self.sensors

    @property
    def widest(self) -> int:  # type: ignore[override]
        """Values of one example at the widest place; networks run one after the other."""
        return max(prod(self.input_shape), self.inner.widest)

    @property
    def values_per_loss(self) -> int:
        """Values of one sensor: each has a loss of its own."""
        return self.inner.values_per_loss

    def shapes(self) -> Shapes:
        """Names and shapes of the weights of all sensors' networks, one sensor after the other."""
        inner = self.inner.shapes()
        return {_named(sensor, name): shape for sensor in range(self.sensors) for name, shape in inner.items()}

    def initial(self, random: Random) -> Weights:
        """Fresh weights of all sensors' networks."""
        return {
            _named(sensor, name): weight
            for sensor in range(self.sensors)
            for name, weight in self.inner.initial(random).items()
        }

    def weights_of(self, sensor: int, weights: Weights) -> Weights:
        """The weights of one sensor's network, and of its likelihood, which has them for every value."""
        own = {name: weights[_named(sensor, name)] for name in self.inner.shapes()}
        likelihoods = weights.keys() - self.shapes().keys()
        return own | {name: self.values_of(sensor, weights[name]) for name in likelihoods}

    def values_of(self, sensor: int, values: Float[np.ndarray, "... k"]) -> Float[np.ndarray, "... 1"]:
        """What belongs to one sensor of what there is for every value of windows."""
        return values[..., sensor : sensor + 1]

    def each_sensor(self, rows: Float[np.ndarray, "n l k"]) -> Iterator[Float[np.ndarray, "n l 1"]]:
        """The rows of one sensor after the other."""
        return (self.values_of(sensor, rows) for sensor in range(self.sensors))

    def masks_of(self, sensor: int, masks: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The dropout masks of one sensor's network."""
        places = len(self.inner.dropout_units)
        return tuple(masks[sensor * places : (sensor + 1) * places])

    def noise_of(self, sensor: int, noise: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """The code noise of one sensor's network."""
        return np.asarray(noise.take(sensor, axis=-len(self.latent_shape)))


def _named(sensor: int, name: str) -> str:
    return f"{SENSOR}.{sensor}.{name}"
