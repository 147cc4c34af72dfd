"""Colours, names and units of everything that is drawn, in one place."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import matplotlib as mpl

from indubio.judging import LARGEST_TOTAL
from indubio.texts import gettext, marked

# Okabe and Ito's colours, which people with any colour vision can tell apart.
BLUE, ORANGE, GREEN, VERMILLION = "#0072b2", "#e69f00", "#009e73", "#d55e00"
PURPLE, SKY, YELLOW, BLACK = "#cc79a7", "#56b4e9", "#f0e442", "#000000"
COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, YELLOW, BLACK)

NORMAL, ANOMALOUS = BLUE, VERMILLION  # and right, wrong
GREY = "#808080"  # for lines that are only there for orientation; visible on white and on dark paper


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """How a number of an assessment is shown.

    Args:
        name: in words.
        unit: of its numbers.
        largest: the end of its range; None where it has none, and then the axis is logarithmic.
    """

    name: str
    unit: str
    largest: float | None

    @property
    def label(self) -> str:
        """The label of an axis: name and unit."""
        return f"{gettext(self.name)} [{gettext(self.unit)}]"


QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        "probability": Quantity(name=marked("anomaly probability"), unit=marked("0 to 1"), largest=1.0),
        "total": Quantity(name=marked("total uncertainty"), unit=marked("variance"), largest=LARGEST_TOTAL),
        "epistemic": Quantity(name=marked("epistemic uncertainty"), unit=marked("variance"), largest=LARGEST_TOTAL),
        "aleatoric": Quantity(name=marked("aleatoric uncertainty"), unit=marked("variance"), largest=LARGEST_TOTAL),
        "novelty": Quantity(name=marked("novelty"), unit=marked("1: usual"), largest=None),
        "exceed": Quantity(name=marked("exceed uncertainty"), unit=marked("probability"), largest=1.0),
        "var_nll": Quantity(name=marked("variance of the score"), unit="NLL²", largest=None),
        "disagreement": Quantity(name=marked("disagreement"), unit=marked("share of the draws"), largest=1.0),
    }
)

# Whatever the user's own matplotlib settings are, a report looks the same. Black becomes the colour of the page's text.
REPORT_STYLE: Mapping[Any, Any] = MappingProxyType(
    {
        "axes.edgecolor": BLACK,
        "axes.facecolor": "none",
        "axes.grid": False,
        "axes.labelcolor": BLACK,
        "axes.labelsize": 9,
        "axes.linewidth": 0.7,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 10,
        "figure.facecolor": "none",
        "font.family": ["sans-serif"],
        "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib; wider than what browsers take, so nothing spills
        "font.size": 9,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "lines.linewidth": 1.4,
        "savefig.facecolor": "none",
        "svg.fonttype": "none",
        "svg.hashsalt": "indubio",  # without it the same report would differ from run to run
        "text.color": BLACK,
        "text.usetex": False,
        "xtick.color": BLACK,
        "xtick.labelsize": 8.5,
        "ytick.color": BLACK,
        "ytick.labelsize": 8.5,
    }
)


@contextmanager
def report_style() -> Iterator[None]:
    """Draw in the style of the report; the settings from before come back at the end."""
    with mpl.rc_context(dict(REPORT_STYLE)):
        yield


def shortened(name: str, longest: int = 28) -> str:
    """A name that fits beside a figure, cut in the middle: names of sensors often differ at the end alone."""
    flat = " ".join(name.split())
    start = (longest - 1) // 2
    return flat if len(flat) <= longest else f"{flat[:start]}…{flat[start + 1 - longest :]}"


LONGEST = 40  # letters of a name beside a figure


def told_apart(names: Sequence[str], longest: int) -> list[str]:
    """The names, shortened to about this length: to more where they would look alike."""
    while True:
        short = [shortened(name, longest) for name in names]
        if len(set(short)) == len(set(names)) or longest >= LONGEST:
            return short
        longest += 1
