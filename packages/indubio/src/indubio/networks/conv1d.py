"""Convolutional autoencoder over time (paper, architecture table, ZeMA and STRATH).

conv 10 k8 s2 -> conv 20 k2 s2 -> flatten -> linear 1000 -> linear latent, and back with transposed convolutions. The
lengths are the authors': flat 280 for L = 60, 2780 for L = 562.
"""

from dataclasses import dataclass
from typing import ClassVar

from indubio.networks.convolutional import Convolutional
from indubio.settings import AtLeastOne


@dataclass(frozen=True, kw_only=True)
class Conv1d(Convolutional):
    """Convolutions over time, then linear layers, and the mirror image.

    Args:
        channels: output channels of the convolutions.
        kernels: their kernel sizes.
        strides: their strides.
        linear: widths of the linear layers between the convolutions and the code.
    """

    AXES: ClassVar[int] = 1
    NEEDS: ClassVar[str] = "windows (examples, length, sensors)"
    OTHERWISE: ClassVar[str] = "Use Dense for tables, and Conv2d for images."
    TOO: ClassVar[str] = "short"
    UNIT: ClassVar[str] = "samples"

    channels: tuple[AtLeastOne, ...] = (10, 20)
    kernels: tuple[AtLeastOne, ...] = (8, 2)
    strides: tuple[AtLeastOne, ...] = (2, 2)
    linear: tuple[AtLeastOne, ...] = (1000,)
