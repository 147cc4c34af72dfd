"""Posteriors whose draws are computed, not trained: no epochs, no learning rate, each draw by itself."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from indubio.errors import ConfigError
from indubio.inputs import Spectra, ZScore
from indubio.inputs.scaling import Scaling
from indubio.networks import Architecture, Likelihood, StudentLikelihood
from indubio.networks.layers import Weights
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import SeparateDraws
from indubio.training.loop import Progress
from indubio.training.network_fits import FitContext


@dataclass(frozen=True, kw_only=True)
class ClosedFormPosterior(SeparateDraws, ABC):
    """Draws of a network with one hidden layer, in closed form. `Training` says nothing here."""

    TRAINED: ClassVar[bool] = False
    NETWORK: ClassVar[type[Architecture]]
    SCALING: ClassVar[Scaling] = ZScore()
    LIKELIHOOD: ClassVar[Likelihood] = StudentLikelihood(noise="per_feature")
    SPECTRA: ClassVar[Spectra | Literal[False]] = Spectra()
    MANY: ClassVar[int] = 20_000
    warm_start: ClassVar[bool] = False

    def check_architecture(self, architecture: Architecture) -> None:
        """Refuse another network than its own."""
        if not isinstance(architecture, self.NETWORK):
            raise ConfigError(
                f"{type(self).__name__} has a network of its own, {self.NETWORK.__name__}: leave `architecture` out, "
                f"got {type(architecture).__name__}."
            )

    @abstractmethod
    def weights_of(self, context: FitContext, which: range) -> Iterator[Weights]:
        """All weights of each of these draws, by name."""

    def some_draws(self, context: FitContext, which: range) -> Draws:
        """Compute some of the draws, as they are among all of them."""
        autoencoder, dtype = context.autoencoder, context.rows.dtype
        if autoencoder.likelihood.unit_interval:
            raise ConfigError(
                f"{type(self).__name__} reconstructs any number, and {type(autoencoder.likelihood).__name__} is for "
                "those within [0, 1]: leave `likelihood` out."
            )
        flat = np.empty((len(which), autoencoder.weight_count()), dtype)
        for place, weights in enumerate(self.weights_of(context, which)):
            flat[place] = autoencoder.flat({name: weight[None] for name, weight in weights.items()}).astype(dtype)
            context.report(Progress(place + 1, len(which), float("nan"), "computing"))
        return Draws(autoencoder, len(which), autoencoder.named(flat))
