"""Linear views: each view of an example is reconstructed by a linear map of its own; `NormalWishart` finds it.

A view is some of the features that say the same in their own way, such as the levels of a window, or its spectrum. One
of more than `MOST` features falls into several, so that no matrix grows with the square of all sensors.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod

import numpy as np
from jaxtyping import Int

from indubio.errors import ConfigError
from indubio.networks.hidden_layer import ClosedForm
from indubio.networks.layers import Random, Shapes, Weights
from indubio.networks.network import Network
from indubio.numerics import Shape
from indubio.settings import AtLeastOne

MOST = 512  # features of a view
MEAN, FACTOR, VOLUME, NOISE, MIDDLE, SPREAD = "mean", "factor", "volume", "noise", "middle", "spread"


@dataclass(frozen=True, kw_only=True)
class LinearViews(ClosedForm):
    """A linear autoencoder for each view of an example: what `NormalWishart` draws.

    Args:
        views: how many features of each sensor each view has, in their order; none is one view of all values.
    """

    views: tuple[AtLeastOne, ...] = ()

    def build(
        self, input_shape: Shape, *, code_noise: bool = False, output_noise: bool = False
    ) -> "LinearViewsNetwork":
        """The network for examples of this shape."""
        self.refuse_noise(code_noise=code_noise, output_noise=output_noise)
        values, each = prod(input_shape), sum(self.views)
        if each and (len(input_shape) != 1 or values % each):
            raise ConfigError(
                "`views` have {each} features a sensor, and these examples, of shape {shape}, are not made of such. "
                "Leave `architecture` out.",
                each=each,
                shape=input_shape,
            )
        return LinearViewsNetwork(input_shape=input_shape, views=self.views or (values,))


@dataclass(frozen=True)
class LinearViewsNetwork(Network):
    """A linear autoencoder for each view.

    Weights of a view of D features: the mean (D,); a factor W (D, D) with W W^T the precision P; `volume`, log det W;
    `noise`, with which x - noise P (x - mean) is the reconstruction; `middle` and `spread` of the logarithm of
    (x - mean)^T P (x - mean) / D, among good rows that were held out.

    Args:
        input_shape: of an example.
        views: features of each sensor in each view.
    """

    input_shape: Shape
    views: tuple[int, ...]

    @property
    def latent_shape(self) -> Shape:  # type: ignore[override]
        """The code is as large as the example: shrinkage, not a bottleneck, is what makes it one."""
        return (prod(self.input_shape),)

    @property
    def dropout_units(self) -> tuple[int, ...]:  # type: ignore[override]
        """Nothing is dropped."""
        return ()

    @property
    def widest(self) -> int:  # type: ignore[override]
        """Values of one example."""
        return prod(self.input_shape)

    @cached_property
    def places(self) -> tuple[Int[np.ndarray, " features"], ...]:
        """Where the features of each view are, in the flat example."""
        values, each = prod(self.input_shape), sum(self.views)
        grid, found = np.arange(values).reshape(-1, each), []
        for stop, width in zip(accumulate(self.views), self.views, strict=True):
            own = grid[:, stop - width : stop]
            sensors = max(1, MOST // width)
            for first in range(0, len(own), sensors):
                some = own[first : first + sensors].ravel()
                found += [some[start : start + MOST] for start in range(0, len(some), MOST)]
        return tuple(found)

    def shapes(self) -> Shapes:
        """Names and shapes of the weights of one draw."""
        found: Shapes = {}
        for view, places in enumerate(self.places):
            size = len(places)
            shapes = {MEAN: (size,), FACTOR: (size, size), VOLUME: (1,), NOISE: (1,), MIDDLE: (1,), SPREAD: (1,)}
            found |= {name_of(view, name): shape for name, shape in shapes.items()}
        return found

    def initial(self, random: Random) -> Weights:
        """Those of a standard normal distribution."""
        del random
        made = {name: np.zeros(shape, np.float32) for name, shape in self.shapes().items()}
        for view, places in enumerate(self.places):
            made[name_of(view, FACTOR)] = np.eye(len(places), dtype=np.float32)
            made[name_of(view, NOISE)] = made[name_of(view, SPREAD)] = np.ones(1, np.float32)
        return made


def name_of(view: int, weight: str) -> str:
    """The name of a weight of a view."""
    return f"view.{view}.{weight}"
