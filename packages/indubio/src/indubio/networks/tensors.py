"""What networks that run on torch take and give; imported only where torch is used."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

TensorWeights = dict[str, Tensor]
Masks = Sequence[Tensor]  # one (A, B or 1, units) per place where dropout may act


@dataclass(frozen=True)
class Code:
    """What the encoder gives: the latent code, for a VAE its log variance, and what the skips carry across."""

    latent: Tensor
    log_variance: Tensor | None = None
    skips: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class Decoded:
    """What the decoder gives: the reconstruction and, where the likelihood asks, its log variance."""

    location: Tensor
    log_variance: Tensor | None = None
