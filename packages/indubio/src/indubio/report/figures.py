"""The figures of a report: the library's drawings, in the report's style, as inline SVG."""

from collections.abc import Callable
from itertools import count
from typing import Any

from jaxtyping import Float
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy import ndarray

from indubio.chain import Contributions
from indubio.report.pictures import plot_heat, plot_image
from indubio.report.signals import plot_score_over_time, plot_signal
from indubio.report.style import report_style
from indubio.report.svg import inline_svg, letters_of_the_browser
from indubio.texts import _

# Inches. Narrow, so that text of 9 points is still 9 points on a phone, where a figure is as wide as the screen.
WIDTH, HEIGHT = 3.7, 2.3
SMALL = 3.4, 2.3  # where three stand side by side on a wide screen
ROW = 0.23  # height of a bar
PANEL = 1.15  # height of one sensor's signal
HIGHEST = 3.0  # of images that are side by side
POINTS = 300  # drawn of each line: more than pixels of half a screen


class Drawing:
    """Draws figures one after the other, and numbers them."""

    def __init__(self) -> None:
        self._number = count(1)

    def one(self, label: str, draw: Callable[[Axes], Any], size: tuple[float, float] = (WIDTH, HEIGHT)) -> Markup:
        """A figure of a single pair of axes."""
        with report_style():
            figure = Figure(figsize=size)
            draw(figure.subplots())
            return self._svg(figure, label)

    def signals(
        self,
        label: str,
        *,
        signal: Float[ndarray, "steps sensors"],
        reconstruction: Float[ndarray, "draws steps sensors"] | None,
        found: Contributions,
        example: int,
        sensors: list[int],
        rate: float | None,
    ) -> Markup:
        """Signals of some sensors above each other, and the score over time below them, where it is known.

        Args:
            label: what it shows, for people who cannot see it.
            signal: in its own units.
            reconstruction: in the same units; None where features of the window are scored.
            found: contributions of some examples, by sensor.
            example: which of them this is.
            sensors: which to show.
            rate: samples per second, if known.
        """
        steps = found.steps
        rows = len(sensors) + (steps is not None)
        with report_style():
            figure = Figure(figsize=(WIDTH, PANEL * rows + 0.55))
            panels = figure.subplots(rows, 1, sharex=True, squeeze=False).flat
            for axes, sensor in zip(panels, sensors, strict=False):
                expected = None if reconstruction is None else reconstruction[:, :, sensor]
                plot_signal(axes, signal[:, sensor], expected, sensor=found.names[sensor], rate=rate, most=POINTS)
                axes.label_outer()
            if steps is not None:
                plot_score_over_time(panels[-1], steps.value[example], steps.spread[example], rate=rate, most=POINTS)
            figure.align_ylabels()
            figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
            return self._svg(figure, label)

    def images(
        self,
        label: str,
        *,
        image: Float[ndarray, "height width channels"],
        reconstruction: Float[ndarray, "height width channels"],
        heat: Float[ndarray, "height width"],
    ) -> Markup:
        """An image, what it is taken for, and its heat map, side by side.

        Args:
            label: what it shows, for people who cannot see it.
            image: in its own units; NaN where a pixel is missing.
            reconstruction: in the same units.
            heat: what each pixel adds to the score.
        """
        height, width = heat.shape
        each = WIDTH / 3
        with report_style():
            figure = Figure(figsize=(WIDTH, min(HIGHEST, each * height / width) + 0.4))
            measured, expected, heated = figure.subplots(1, 3)
            plot_image(measured, image, like=image)
            plot_image(expected, reconstruction, like=image)
            plot_heat(heated, heat)
            for axes, title in ((measured, _("image")), (expected, _("expected")), (heated, _("adds to the score"))):
                axes.set_title(title)
            return self._svg(figure, label)

    def _svg(self, figure: Figure, label: str) -> Markup:
        # Laid out by hand: a figure that knows its layout engine is drawn twice when it is saved.
        with letters_of_the_browser():
            ConstrainedLayoutEngine().execute(figure)
        return inline_svg(figure, key=f"f{next(self._number)}", label=label)
