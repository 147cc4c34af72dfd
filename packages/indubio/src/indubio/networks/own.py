"""A user's own encoder and decoder, given as factories of `torch.nn.Module`; they need torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from indubio.errors import MissingExtraError
from indubio.networks.architecture import Architecture
from indubio.networks.network import Network
from indubio.numerics import Shape

Factory = Callable[[Shape], Any]  # gives a torch.nn.Module


@dataclass(frozen=True, kw_only=True)
class OwnNetwork(Architecture):
    """The user's own modules.

    Both factories are called with the shape of one example, (D,) or (L, K). The encoder maps (B, *shape) to codes (B,
    ...); the decoder maps these codes back to (B, *shape). MC dropout acts after every linear and convolutional layer
    but the decoder's last; a VAE adds a linear map from the code to its log variance; a heteroscedastic likelihood
    makes a second decoder for the log variances.

    They run on torch, whose products round differently for other numbers of rows: scores agree within 1e-5 whatever the
    batch, where those of the built-in networks are equal to the bit.

    Args:
        encoder: gives a fresh encoder.
        decoder: gives a fresh decoder.
    """

    encoder: Factory
    decoder: Factory

    def build(self, input_shape: Shape, *, code_noise: bool = False, output_noise: bool = False) -> Network:
        """The network around the user's modules."""
        try:
            from indubio.networks.own_modules import ModuleNetwork
        except ImportError:
            raise MissingExtraError('own modules need torch: pip install "indubio[torch]".') from None
        return ModuleNetwork(self.encoder, self.decoder, input_shape, code_noise, output_noise)
