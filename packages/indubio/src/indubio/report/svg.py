"""A matplotlib figure as SVG that can stand inside an HTML page.

matplotlib writes a whole document; inside a page it needs no header and no metadata, its identifiers must differ from
those of the other figures, and colours must follow the paper: black is the page's text colour, which is light on dark.
"""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from markupsafe import Markup, escape
from matplotlib.figure import Figure

from indubio.report.style import BLACK, BLUE, VERMILLION
from indubio.texts import written

DIGITS = 1  # of coordinates, in points: a tenth is less than a pixel, and long signals stay small
NUMBER = re.compile(r"-?\d+\.\d+")
TICK = re.compile(r"(?<=>)[-−]?\d+\.\d+(?=</text>)")
ON_PAPER = {BLACK: "currentColor", BLUE: "var(--figure-blue)", VERMILLION: "var(--figure-vermillion)"}


def inline_svg(figure: Figure, *, key: str, label: str) -> Markup:
    """The figure as an <svg> element, without any reference to the outside.

    Args:
        figure: drawn in `report_style`.
        key: makes the identifiers unique within the page.
        label: what it shows, for people who cannot see it.
    """
    buffer = io.StringIO()
    with letters_of_the_browser():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style .*?</style>", "", text, flags=re.DOTALL)
    opening = re.search(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', text)
    assert opening is not None  # matplotlib always writes one
    body = _written_ticks(_paper_colours(_small(_own_identifiers(text[opening.end() :], key))))
    return Markup(  # safe: matplotlib escapes what it writes, and the tests attack it
        f'<svg viewBox="{opening.group(1)}" role="img" aria-label="{escape(label)}">{body}'
    )


@contextmanager
def letters_of_the_browser() -> Iterator[None]:
    """No warning of letters that matplotlib's font lacks: names stay text, and the browser has them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _own_identifiers(svg: str, key: str) -> str:
    used = set(re.findall(r'(?:url\(#|href="#)([\w-]+)', svg))

    def renamed(match: re.Match[str]) -> str:
        return f' id="{key}-{match.group(1)}"' if match.group(1) in used else ""

    svg = re.sub(r' id="([^"]*)"', renamed, svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{key}-", svg)


def _written_ticks(svg: str) -> str:
    """Numbers of the axes as the language writes them; matplotlib would follow the locale of the whole process."""
    return TICK.sub(lambda match: written(match.group()), svg)


def _paper_colours(svg: str) -> str:
    for colour, name in ON_PAPER.items():
        svg = svg.replace(colour, name)
    return svg


def _small(svg: str) -> str:
    """A picture in fewer characters: coordinates rounded, line breaks and empty groups left out."""
    svg = re.sub(r"\s*\n\s*", " ", with_short_numbers(svg))
    return svg.replace("> <", "><").replace("xlink:href", "href")


def with_short_numbers(svg: str) -> str:
    """A picture with its coordinates rounded to what can be seen."""
    return re.sub(r' (d|points|transform|x|y|width|height)="[^"]*"', lambda match: _rounded(match.group()), svg)


def _rounded(text: str) -> str:
    return NUMBER.sub(lambda match: f"{float(match.group()):.{DIGITS}f}".removesuffix(".0"), text)
