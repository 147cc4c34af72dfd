"""The compiled engine: there is none yet, so that every network runs on torch."""

from typing import TYPE_CHECKING

from indubio.autoencoders.autoencoder import Autoencoder

if TYPE_CHECKING:
    from indubio.engine.engine import Engine


def compiled_engine(autoencoder: Autoencoder) -> "Engine | None":
    """The compiled engine for this autoencoder; None where it cannot run it."""
    del autoencoder
    return None
