"""The arrays that a detector's draws must have, from its settings and the shape of an example."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from indubio.errors import ModelFileError
from indubio.networks import Architecture, Autoencoder, Likelihood, Shapes
from indubio.posteriors import Draws, Posterior

LARGEST_NETWORK = 2**40  # weights; no machine has memory for them


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What the draws are made of, beside the network.

    Args:
        count: M.
        shared: whether all draws have one set of weights.
        masks: whether they differ in dropout masks.
        noise: whether they differ in code noise.
    """

    count: int
    shared: bool
    masks: bool
    noise: bool

    @classmethod
    def of(cls, draws: Draws) -> "Layout":
        """The layout of these draws."""
        leading = {weight.shape[0] for weight in draws.weights.values()}
        return cls(
            count=draws.count,
            shared=leading == {1},
            masks=draws.masks is not None,
            noise=draws.noise is not None,
        )

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Layout":
        """The layout that a manifest has."""
        kinds = {"count": int, "shared": bool, "masks": bool, "noise": bool}
        if {name: type(value) for name, value in plain.items()} != kinds or plain["count"] < 1:
            raise ModelFileError(f"the manifest's draws must say {sorted(kinds)}, got {plain}.")
        return cls(**plain)


def autoencoder_of(
    posterior: Posterior, architecture: Architecture, likelihood: Likelihood, input_shape: tuple[int, ...], device: str
) -> Autoencoder:
    """The function that the draws are draws of, as `Detector.fit` builds it."""
    built = architecture.build(input_shape, code_noise=posterior.code_noise, output_noise=likelihood.output_noise)
    return Autoencoder(built, likelihood, device, architecture)


def expected_shapes(autoencoder: Autoencoder, layout: Layout) -> Shapes:
    """Name and shape of every array of the draws."""
    network, leading, weights = autoencoder.network, 1 if layout.shared else layout.count, autoencoder.weight_count()
    if weights > LARGEST_NETWORK:  # settings in a file may ask for any size
        raise ModelFileError(f"its settings describe an impossible network, of {weights} weights.")
    shapes = {f"weights.{name}": (leading, *shape) for name, shape in autoencoder.shapes().items()}
    if layout.masks:
        shapes |= {f"masks.{place}": (layout.count, 1, units) for place, units in enumerate(network.dropout_units)}
    if layout.noise:
        shapes |= {"noise": (layout.count, 1, *network.latent_shape)}
    return shapes


def arrays_of(draws: Draws) -> dict[str, np.ndarray]:
    """The arrays of the draws by name."""
    arrays = {f"weights.{name}": weight for name, weight in draws.weights.items()}
    arrays |= {f"masks.{place}": mask for place, mask in enumerate(draws.masks or ())}
    return arrays if draws.noise is None else arrays | {"noise": draws.noise}


def check_arrays(arrays: dict[str, np.ndarray], expected: Shapes) -> None:
    """Refuse arrays that are not exactly the expected ones."""
    if arrays.keys() != expected.keys():
        missing, extra = sorted(expected.keys() - arrays.keys()), sorted(arrays.keys() - expected.keys())
        raise ModelFileError(f"the weights do not fit the settings: missing {missing[:5]}, unexpected {extra[:5]}.")
    for name, shape in expected.items():
        if arrays[name].shape != shape or arrays[name].dtype != np.float32:
            raise ModelFileError(
                f"the weights do not fit the settings: `{name}` must be float32 {shape}, "
                f"got {arrays[name].dtype} {arrays[name].shape}."
            )


def draws_of(autoencoder: Autoencoder, layout: Layout, arrays: dict[str, np.ndarray]) -> Draws:
    """The draws with these arrays."""
    weights = {name: arrays[f"weights.{name}"] for name in autoencoder.shapes()}
    places = range(len(autoencoder.network.dropout_units))
    return Draws(
        autoencoder,
        layout.count,
        autoencoder.named(autoencoder.flat(weights)),  # views of one array: what scores needs no other
        masks=tuple(arrays[f"masks.{place}"] for place in places) if layout.masks else None,
        noise=arrays["noise"] if layout.noise else None,
    )
