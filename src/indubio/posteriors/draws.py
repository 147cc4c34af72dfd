"""Draws: what every posterior gives, M fixed functions from rows to scores.

All that is random (masks, weight samples, code noise) was drawn at the end of fit and is kept, so a row's score
depends on nothing but the row: not on its batch, its place, the worker or the global random state.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.autoencoders.layers import Weights
from indubio.posteriors.training import chunks

ROWS_AT_ONCE = 1024  # measured: larger chunks leave the cache, smaller ones pay overhead
CHUNK_VALUES = 2**20  # draws x rows x widest layer that are worth computing at once


@dataclass(frozen=True)
class Draws:
    """M posterior draws of an autoencoder.

    Args:
        autoencoder: the function the draws are draws of.
        count: M.
        weights: stacked (M, ...), or (1, ...) when all draws share one set.
        masks: dropout masks (M, 1, units), one per place, for MC dropout.
        noise: code noise (M, 1, *latent), for the VAE.
    """

    autoencoder: Autoencoder
    count: int
    weights: Weights
    masks: tuple[Tensor, ...] | None = None
    noise: Tensor | None = None

    def nll(self, rows: Float[Tensor, "n ..."]) -> Float[Tensor, "draws n"]:
        """Negative log-likelihood of every row under every draw."""
        return self._over_chunks(self._nll, rows, ())

    def nll_per_feature(self, rows: Float[Tensor, "n ..."]) -> Float[Tensor, "draws n ..."]:
        """Negative log-likelihood of every value; its mean over an example's values is the example's NLL."""
        return self._over_chunks(self._nll_per_feature, rows, tuple(rows.shape[1:]))

    def reconstruction(self, rows: Float[Tensor, "n ..."]) -> Float[Tensor, "draws n ..."]:
        """What every draw takes every row for."""
        return self._over_chunks(self._reconstruction, rows, tuple(rows.shape[1:]))

    def _over_chunks(self, function: Callable[[range, Tensor], Tensor], rows: Tensor, tail: tuple[int, ...]) -> Tensor:
        out = torch.empty((self.count, len(rows), *tail), dtype=rows.dtype, device=rows.device)
        with torch.inference_mode():
            for start in range(0, len(rows), ROWS_AT_ONCE):
                part = rows[start : start + ROWS_AT_ONCE]
                for draws in self._draw_chunks(len(part)):
                    out[draws.start : draws.stop, start : start + len(part)] = function(draws, part.unsqueeze(0))
        return out

    def _draw_chunks(self, rows: int) -> Iterator[range]:
        return chunks(self.count, max(1, CHUNK_VALUES // (rows * self.autoencoder.network.widest)))

    def _parts(self, draws: range) -> tuple[Weights, tuple[Tensor, ...] | None, Tensor | None]:
        take = slice(draws.start, draws.stop)
        weights = {name: w if w.shape[0] == 1 else w[take] for name, w in self.weights.items()}
        masks = None if self.masks is None else tuple(mask[take] for mask in self.masks)
        return weights, masks, None if self.noise is None else self.noise[take]

    def _nll(self, draws: range, rows: Tensor) -> Tensor:
        weights, masks, noise = self._parts(draws)
        return self.autoencoder.nll(weights, rows, masks=masks, noise=noise)

    def _nll_per_feature(self, draws: range, rows: Tensor) -> Tensor:
        weights, masks, noise = self._parts(draws)
        return self.autoencoder.nll_per_feature(weights, rows, masks=masks, noise=noise)

    def _reconstruction(self, draws: range, rows: Tensor) -> Tensor:
        weights, masks, noise = self._parts(draws)
        return self.autoencoder.reconstruct(weights, rows, masks=masks, noise=noise).location
