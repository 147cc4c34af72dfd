"""Draws: what every posterior gives, M fixed functions from rows to scores.

All that is random (masks, weight samples, code noise) was drawn at the end of fit and is kept, so a row's score
depends on nothing but the row: not on its batch, its place, the worker or the global random state.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from indubio.networks import Autoencoder, DrawScorer, KeptGaussianSums, KeptSums, Mixing, Weights, engine_for


@dataclass(frozen=True)
class Draws:
    """M posterior draws of an autoencoder.

    Args:
        autoencoder: the function the draws are draws of.
        count: M.
        weights: stacked (M, ...), or (1, ...) when all draws share one set.
        masks: dropout masks (M, 1, units), one per place, for MC dropout.
        noise: code noise (M, 1, *latent), for the VAE and the Bayesian VAE.
        sums: over rows, that the weights follow from, where the posterior has `keep_sums`.
        mixing: whether the chains mixed that the draws are of; None where there are none, or too few draws to tell.
        facts: what the fit tells of itself, by name in plain words ("accepted moves"); None where it tells nothing.
    """

    autoencoder: Autoencoder
    count: int
    weights: Weights
    masks: tuple[Float[np.ndarray, "draws 1 _"], ...] | None = None
    noise: Float[np.ndarray, "draws 1 ..."] | None = None
    sums: KeptSums | KeptGaussianSums | None = None
    mixing: Mixing | None = None
    facts: dict[str, float] | None = None

    def nll(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "draws n"]:
        """Negative log-likelihood of every row under every draw."""
        return self._scorer.nll(rows)

    def nll_apart(
        self, rows: Float[np.ndarray, "n ..."]
    ) -> tuple[Float[np.ndarray, "draws n"], Float[np.ndarray, "draws n ..."]]:
        """The NLL of every row, and of every value of it, from one pass through the network."""
        return self._scorer.nll_apart(rows)

    def nll_per_feature(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "draws n ..."]:
        """Negative log-likelihood of every value; its mean over an example's values is the example's NLL."""
        return self.nll_apart(rows)[1]

    def reconstruction(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "draws n ..."]:
        """What every draw takes every row for."""
        return self._scorer.reconstruction(rows)

    def variance(self, rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "draws n ..."]:
        """The squared scale of the noise that every draw expects of every value.

        Only where the decoder gives it: with a likelihood of noise="per_example".
        """
        return self._scorer.variance(rows)

    def some(self, which: slice) -> "Draws":
        """Some of the draws, each with weights of its own."""
        weights = {name: weight[which] for name, weight in self.weights.items()}
        return Draws(
            self.autoencoder,
            len(range(self.count)[which]),
            weights,
            masks=None if self.masks is None else tuple(mask[which] for mask in self.masks),
            noise=None if self.noise is None else self.noise[which],
            sums=None if self.sums is None else self.sums.some(which),
        )

    @cached_property
    def _scorer(self) -> DrawScorer:
        masks = None if self.masks is None else tuple(mask[:, 0] for mask in self.masks)
        noise = None if self.noise is None else self.noise[:, 0]
        flat = self.autoencoder.flat(self.weights)
        return engine_for(self.autoencoder).scorer(self.count, flat, masks, noise)

    def __getstate__(self) -> dict[str, Any]:
        # Without the scorer, which may hold what cannot be copied.
        return {field.name: getattr(self, field.name) for field in fields(self)}
