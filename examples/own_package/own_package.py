"""A package of your own: a posterior that indubio configures, fits, saves, loads and serves, and a command beside ours.

Its two entry points stand in pyproject.toml. After `pip install ./examples/own_package`:

    indubio fit good.csv --out model --posterior noisy_weights
    indubio draws model
"""

from dataclasses import dataclass
from pathlib import Path

import typer

from indubio import load
from indubio.networks import FitContext, PointWeights, fit_network
from indubio.posteriors import Draws, TrainedPosterior
from indubio.settings import AtLeastOne, Positive


@dataclass(frozen=True, kw_only=True)
class NoisyWeights(TrainedPosterior):
    """One trained network, and copies of it with noise of this relative size on every weight."""

    draws: AtLeastOne = 20
    spread: Positive = 0.01

    @property
    def count(self) -> int:
        """As many draws as copies."""
        return self.draws

    def draws_of(self, context: FitContext) -> Draws:
        """Train one network, and put noise on its weights, by the random numbers of the fit."""
        weights, stream = fit_network(PointWeights(prior_scale=self.prior_scale_for(context)), context)
        noise = stream.normal((self.draws, weights.shape[1])).astype(weights.dtype)
        copies = weights * (1 + self.spread * noise)
        return Draws(context.autoencoder, self.draws, context.autoencoder.named(copies))


def draws(model: Path) -> None:
    """Print the method of a model, and how many draws it has."""
    detector = load(model)
    typer.echo(f"{type(detector.settings_in_use().posterior).__name__}: {detector.draws_.count} draws")
