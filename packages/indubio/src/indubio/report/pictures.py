"""An image: its pixels, and a heat map of what they add to the score."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

MOST_PIXELS = 128  # a side that is drawn: larger images are averaged, so that a page stays small


def plot_image(
    axes: Axes, image: Float[np.ndarray, "height width channels"], *, like: Float[np.ndarray, "height width channels"]
) -> None:
    """The image, red, green and blue where it has three channels, else the mean of them in grey.

    Args:
        axes: where to draw.
        image: in its own units; NaN where a pixel is missing, which is drawn black.
        like: whose darkest and brightest values are black and white.
    """
    low, high = np.nanmin(like), np.nanmax(like)
    unit = np.clip(np.nan_to_num((image - low) / (high - low if high > low else 1.0)), 0, 1)
    shown = reduced(unit if unit.shape[2] == 3 else unit.mean(axis=2))
    axes.imshow(shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()


def plot_heat(axes: Axes, heat: Float[np.ndarray, "height width"]) -> None:
    """What each pixel adds to the score beyond what it usually does: red raises it, blue lowers it.

    Args:
        axes: where to draw.
        heat: contribution of each pixel.
    """
    shown = reduced(heat)
    most = float(np.abs(shown).max()) or 1.0
    axes.imshow(shown, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
    axes.set_axis_off()


def reduced(image: Float[np.ndarray, "height width ..."]) -> Float[np.ndarray, "less_height less_width ..."]:
    """The means of squares of pixels, as small as needed for `MOST_PIXELS` a side; a rest at the ends is left out."""
    square = -(-max(image.shape[:2]) // MOST_PIXELS)
    square = min(square, *image.shape[:2])
    height, width = (side // square for side in image.shape[:2])
    whole = image[: height * square, : width * square]
    return np.asarray(whole.reshape(height, square, width, square, *image.shape[2:]).mean(axis=(1, 3)))
