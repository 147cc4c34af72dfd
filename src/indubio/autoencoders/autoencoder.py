"""Autoencoder: a network and a likelihood, as one function from stacked weights and rows to scores."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from indubio.autoencoders.layers import Weights
from indubio.autoencoders.likelihoods import Likelihood
from indubio.autoencoders.network import Code, Decoded, Masks, Network


@dataclass(frozen=True)
class Autoencoder:
    """NLL of rows under C networks at once.

    Rows come as (A, B, *shape), where A is 1 (all networks see the same rows) or the number of networks; the weights'
    leading axis C is 1 or that number.
    """

    network: Network
    likelihood: Likelihood

    def initial(self, generator: Generator, dtype: torch.dtype = torch.float32) -> Weights:
        """Fresh weights of one network, without the leading axis."""
        return self.network.initial(generator, dtype) | self.likelihood.initial(self.network.input_shape, dtype)

    def weight_count(self) -> int:
        """Numbers in one network's weights."""
        return sum(weight.numel() for weight in self.initial(Generator()).values())

    def reconstruct(
        self,
        weights: Weights,
        rows: Float[Tensor, "a b ..."],
        *,
        masks: Masks | None = None,
        noise: Tensor | None = None,
    ) -> Decoded:
        """The reconstruction; `masks` are dropout masks, `noise` standard normal noise of a VAE's code."""
        return self.network.decode(weights, self._code(weights, rows, masks, noise), masks)

    def nll_per_feature(
        self,
        weights: Weights,
        rows: Float[Tensor, "a b ..."],
        *,
        masks: Masks | None = None,
        noise: Tensor | None = None,
    ) -> Float[Tensor, "c b ..."]:
        """Negative log-likelihood of every value of every row."""
        return self.likelihood.nll(rows, self.reconstruct(weights, rows, masks=masks, noise=noise), weights)

    def nll(
        self,
        weights: Weights,
        rows: Float[Tensor, "a b ..."],
        *,
        masks: Masks | None = None,
        noise: Tensor | None = None,
    ) -> Float[Tensor, "c b"]:
        """Negative log-likelihood of every row: the mean over its values."""
        return nll_of_rows(self.nll_per_feature(weights, rows, masks=masks, noise=noise))

    def _code(self, weights: Weights, rows: Tensor, masks: Masks | None, noise: Tensor | None) -> Code:
        code = self.network.encode(weights, rows, masks)
        if noise is None:
            return code
        return noisy(code, noise)


def nll_of_rows(per_feature: Float[Tensor, "c b ..."]) -> Float[Tensor, "c b"]:
    """The score of a row: the mean over its values."""
    return per_feature.flatten(2).mean(2)


def noisy(code: Code, noise: Tensor) -> Code:
    """The code moved by standard normal noise times its standard deviation."""
    assert code.log_variance is not None  # built with `code_noise`
    return Code(code.latent + noise * (code.log_variance / 2).exp(), code.log_variance, code.skips)
