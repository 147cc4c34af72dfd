"""Autoencoder: a network, a likelihood, and where they run; and the weights of C of them as one array."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from jaxtyping import Float

from indubio.networks.architecture import Architecture
from indubio.networks.layers import Random, Shapes, Weights
from indubio.networks.likelihoods import Likelihood
from indubio.networks.network import Network
from indubio.numerics import Shape


@dataclass(frozen=True)
class Autoencoder:
    """What is trained and scored.

    Args:
        network: the network.
        likelihood: what its reconstruction says of the data.
        device: where it runs: "cpu", or what torch calls another place.
        architecture: the settings that the network was built from, where they are known.
    """

    network: Network
    likelihood: Likelihood
    device: str = "cpu"
    architecture: Architecture | None = None

    def shapes(self) -> Shapes:
        """Names and shapes of one network's weights, then of the likelihood's."""
        return self.network.shapes() | self.likelihood.shapes(self.network.input_shape)

    def initial(self, random: Random) -> Weights:
        """Fresh weights of one network, without the leading axis."""
        return self.network.initial(random) | self.likelihood.initial(self.network.input_shape)

    def weight_count(self) -> int:
        """Numbers in one network's weights."""
        return sum(prod(shape) for shape in self.shapes().values())

    def flat(self, weights: Weights) -> Float[np.ndarray, "c p"]:
        """All weights of a network in one row, a row for each, whatever the order of the names.

        The rows are one after the other in memory. Views that `named` gave are not copied.
        """
        (first, *_) = weights.values()
        base, shape = first.base, (len(first), self.weight_count())
        if isinstance(base, np.ndarray) and base.shape == shape and base.flags.c_contiguous:
            views = self.named(base)
            if all(_same_memory(weights[name], view) for name, view in views.items()):
                return base
        flat = np.empty(shape, first.dtype)
        for name, part, _ in self._parts():
            flat[:, part] = weights[name].reshape(len(first), -1)
        return flat

    def named(self, flat: Float[np.ndarray, "c p"]) -> Weights:
        """The weights in such rows by name, as views (C, *shape)."""
        return {name: flat[:, part].reshape(-1, *shape) for name, part, shape in self._parts()}

    def _parts(self) -> Iterator[tuple[str, slice, Shape]]:
        start = 0
        for name, shape in self.shapes().items():
            yield name, slice(start, start + prod(shape)), shape
            start += prod(shape)


def _same_memory(one: np.ndarray, other: np.ndarray) -> bool:
    return one.__array_interface__ == other.__array_interface__
