"""Names, colours and markers of the paper's figures: a model looks the same in all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from matplotlib.axes import Axes

from indubio.report import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION
from indubio_lab.collections import DATASETS

NUMERALS = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii")  # no collection has more tasks
COLLECTIONS = {"odds": "ODDS", "zema": "ZeMA", "strath": "STRATH"}
MARKERS = {"odds": "o", "zema": "s", "strath": "^"}
TASKS = {"L_ACTpos": "L-ACTpos", "A_ACTspd": "A-ACTspd", "Feedback_SPA": "Feedback-SPA", "all": "All sensors"}
GENERATED = "generated traces, not the real data"


@dataclass(frozen=True)
class ModelLook:
    """How a model is drawn; dashes tell the models apart where colours cannot.

    Args:
        short: its name where there is little room.
        colour: of its lines.
        dashes: matplotlib's line style.
    """

    short: str
    colour: str
    dashes: Any = "-"

    @property
    def line(self) -> dict[str, Any]:
        """Keyword arguments of a line."""
        return {"color": self.colour, "linestyle": self.dashes}


MODEL_LOOKS: Mapping[str, ModelLook] = MappingProxyType(
    {
        "Deterministic AE": ModelLook("AE", BLACK, (0, (4, 1.5))),
        "VAE": ModelLook("VAE", PURPLE, (0, (4, 1, 1, 1))),
        "BAE-MCD": ModelLook("MCD", ORANGE, (0, (2, 1))),
        "BAE-BBB": ModelLook("BBB", GREEN, (0, (6, 1, 1, 1, 1, 1))),
        "BAE-Ensemble": ModelLook("Ens.", BLUE),
        "BAE-SGHMC": ModelLook("SGHMC", SKY, (0, (1, 1))),
    }
)

DISTRIBUTIONS = MappingProxyType(
    {"ecdf": ("ECDF", VERMILLION), "gaussian": ("Gaussian", BLUE), "exponential": ("Exponential", ORANGE)}
    | {"uniform": ("Uniform", GREEN)}
)

UNCERTAINTY_NAMES = MappingProxyType(
    {
        "epistemic": r"$U^{\,\mathrm{epistemic}}$",
        "aleatoric": r"$U^{\,\mathrm{aleatoric}}$",
        "total": r"$U^{\,\mathrm{total}}$",
        "exceed": r"$U^{\,\mathrm{exceed}}$",
        "var_nll": "Var[NLL]",
    }
)


def task_title(collection: str, task: str) -> str:
    """The task numbered as in the paper: "(iii) Optdigits"."""
    return f"({NUMERALS[DATASETS[collection].tasks.index(task)]}) {TASKS.get(task, task.capitalize())}"


def conversion_name(name: str) -> str:
    """A conversion in words: "ecdf+scale*" is "ECDF + scale"."""
    distribution, scaled, _ = name.partition("+")
    return DISTRIBUTIONS[distribution][0] + (" + scale" if scaled else "")


def conversion_line(name: str) -> dict[str, Any]:
    """A colour for each distribution; with the scaling solid, without it dashed."""
    distribution, scaled, _ = name.partition("+")
    return {"color": DISTRIBUTIONS[distribution][1], "linestyle": "-" if scaled else (0, (3, 1.5))}


def light_grid(axes: Axes) -> None:
    """Lines to read values off, behind everything."""
    axes.grid(color=GREY, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
