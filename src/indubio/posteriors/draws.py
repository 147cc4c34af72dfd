"""Draws: what every posterior gives, M fixed functions from rows to scores.

All that is random (masks, weight samples, code noise) was drawn at the end of fit and is kept, so a row's score
depends on nothing but the row: not on its batch, its place, the worker or the global random state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from indubio.autoencoders.autoencoder import Autoencoder, nll_of_rows
from indubio.autoencoders.compiled import Engine, engine_for
from indubio.autoencoders.layers import Weights
from indubio.posteriors.training import LARGE_NETWORK, chunks

VALUES_AT_ONCE = 2**17  # draws x rows x widest layer: stays in a core's cache; tensors of 1 MB and more page-fault
FEWEST_ROWS = 1024  # of a chunk, however wide the network: below, the products lose more than the cache gains


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
        if self._compiled is not None and rows.dtype == self._compiled[1].dtype:
            engine, flat = self._compiled
            return engine.nll(flat, rows)
        return self._over_chunks(self._nll, rows, ())

    def nll_apart(self, rows: Float[Tensor, "n ..."]) -> tuple[Float[Tensor, "draws n"], Float[Tensor, "draws n ..."]]:
        """The NLL of every row, and of every value of it, from one pass through the network."""
        if self._compiled is not None and rows.dtype == self._compiled[1].dtype:
            engine, flat = self._compiled
            return engine.nll_apart(flat, rows)
        apart = self._over_chunks(self._nll_per_feature, rows, tuple(rows.shape[1:]))
        return nll_of_rows(apart), apart

    def nll_per_feature(self, rows: Float[Tensor, "n ..."]) -> Float[Tensor, "draws n ..."]:
        """Negative log-likelihood of every value; its mean over an example's values is the example's NLL."""
        return self.nll_apart(rows)[1]

    def reconstruction(self, rows: Float[Tensor, "n ..."]) -> Float[Tensor, "draws n ..."]:
        """What every draw takes every row for."""
        return self._over_chunks(self._reconstruction, rows, tuple(rows.shape[1:]))

    @cached_property
    def _compiled(self) -> tuple[Engine, Float[Tensor, "draws p"]] | None:
        """The compiled engine, for draws that are nothing but weights; large ones would be in memory twice."""
        weights = next(iter(self.weights.values()))
        numbers = sum(weight[0].numel() for weight in self.weights.values())
        if self.masks is not None or self.noise is not None or len(weights) != self.count or numbers > LARGE_NETWORK:
            return None
        engine = engine_for(self.autoencoder, weights)
        return None if engine is None else (engine, engine.flat(self.weights))

    def _over_chunks(self, function: Callable[[range, Tensor], Tensor], rows: Tensor, tail: tuple[int, ...]) -> Tensor:
        # Many rows: few draws at a time, whose layers stay in the cache. Few rows: all draws in one go, since then the
        # number of calls is what costs.
        out = torch.empty((self.count, len(rows), *tail), dtype=rows.dtype, device=rows.device)
        widest = self.autoencoder.network.widest
        size = max(FEWEST_ROWS, VALUES_AT_ONCE // widest)
        with torch.inference_mode():
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                for draws in chunks(self.count, max(1, VALUES_AT_ONCE // (len(part) * widest))):
                    out[draws.start : draws.stop, start : start + len(part)] = function(draws, part.unsqueeze(0))
        return out

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
