"""Posteriors whose draws are computed, not trained: no epochs, no learning rate, each draw by itself."""

from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from indubio.errors import ConfigError
from indubio.networks import Architecture, FitContext, Likelihood, Progress, StudentLikelihood, Weights
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import SeparateDraws
from indubio.prepare import Spectra


@dataclass(frozen=True, kw_only=True)
class ClosedFormPosterior(SeparateDraws, ABC):
    """Draws of a network with one hidden layer, in closed form. `Training` says nothing here."""

    TRAINED: ClassVar[bool] = False
    NETWORK: ClassVar[type[Architecture]]
    LIKELIHOOD: ClassVar[Likelihood] = StudentLikelihood(noise="per_feature")
    SPECTRA: ClassVar[Spectra | Literal[False]] = Spectra(statistics=False, patterns=0)
    FEW: ClassVar[int] = 5  # the scores of rows that it remembers say nothing
    MANY: ClassVar[int] = 20_000
    warm_start: ClassVar[bool] = False

    def check_architecture(self, architecture: Architecture) -> None:
        """Refuse another network than its own."""
        if not isinstance(architecture, self.NETWORK):
            raise ConfigError(
                "{method} has a network of its own, {network}: leave `architecture` out, got {architecture}.",
                method=type(self).__name__,
                network=self.NETWORK.__name__,
                architecture=type(architecture).__name__,
            )

    def stacked(self, context: FitContext, weights: Iterable[Weights], count: int) -> Draws:
        """So many draws with these weights, which are computed one after the other."""
        autoencoder, dtype = context.autoencoder, context.rows.dtype
        self.check_likelihood(autoencoder.likelihood)
        flat = np.empty((count, autoencoder.weight_count()), dtype)
        for place, one in enumerate(weights):
            flat[place] = autoencoder.flat({name: weight[None] for name, weight in one.items()}).astype(dtype)
            context.report(Progress(place + 1, count, float("nan"), "computing"))
        return Draws(autoencoder, count, autoencoder.named(flat))

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Refuse one for which reconstructions would have to stay within [0, 1]."""
        if likelihood.unit_interval:
            raise ConfigError(
                "{method} reconstructs any number, and {likelihood} is for those within "
                "[0, 1]: leave `likelihood` out.",
                method=type(self).__name__,
                likelihood=type(likelihood).__name__,
            )
