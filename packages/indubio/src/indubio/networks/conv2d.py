"""Convolutional autoencoder over the height and width of images (after Baur et al. 2020, who add skips under dropout).

conv 16 k3 s2 -> conv 32 k3 s2 -> flatten -> linear latent, and back with transposed convolutions. Sizes are restored
exactly, for any height and width.
"""

from dataclasses import dataclass
from typing import ClassVar

from indubio.networks.convolutional import Convolutional
from indubio.settings import AtLeastOne


@dataclass(frozen=True, kw_only=True)
class Conv2d(Convolutional):
    """Convolutions over images (examples, height, width, channels), then linear layers, and the mirror image.

    There are no skips, and the code is narrow: with either an anomaly would be reconstructed as well as all else, see
    docs/images.md. The code does not grow with the number of pixels, since the weights would grow with its square.

    Args:
        channels: output channels of the convolutions.
        kernels: their kernel sizes: 3 is 3 x 3.
        strides: their strides, the same down and across.
        linear: widths of the linear layers between the convolutions and the code.
        latent: size of the code in units: about as many as good images differ in; None takes `latent_ratio` times the
            values of an image.
        skips: U-Net skips, added to the input of every decoder block but the first.

    Examples:
        Any size comes back as it was.

        >>> network = Conv2d(channels=(4, 8), latent=5).build((13, 10, 3))
        >>> [block.layer.out_shape for block in network.encoder]
        [(4, 6, 5), (8, 3, 2), (5,)]
        >>> network.decoder[-1].layer.out_shape
        (3, 13, 10)
    """

    AXES: ClassVar[int] = 2
    NEEDS: ClassVar[str] = "images (examples, height, width, channels)"
    OTHERWISE: ClassVar[str] = "Give grey images a channel: images[..., None]."
    TOO: ClassVar[str] = "small"
    UNIT: ClassVar[str] = "pixels a side"

    channels: tuple[AtLeastOne, ...] = (16, 32)
    kernels: tuple[AtLeastOne, ...] = (3, 3)
    strides: tuple[AtLeastOne, ...] = (2, 2)
    linear: tuple[AtLeastOne, ...] = ()
    latent: AtLeastOne | None = 8
    skips: bool = False
