"""Box plots of the total uncertainty of right and of wrong predictions, for every task and model."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from indubio.judging import DISPLAY_FACTOR
from indubio.report import ANOMALOUS, NORMAL
from indubio_lab.paper.reproduction.cell_store import Record
from indubio_lab.paper.reproduction.figures.look import MODEL_LOOKS, UNCERTAINTY_NAMES, light_grid
from indubio_lab.paper.reproduction.figures.panels import panels
from indubio_lab.paper.reproduction.figures.results import Results, by_model

WHISKERS = (5, 95)  # percentiles; outliers would be thousands of points
WIDTH = 0.34
GROUPS = (("correct (TP + TN)", False, NORMAL, -0.2), ("wrong (FP + FN)", True, ANOMALOUS, 0.2))


def uncertainty_boxes(results: Results) -> Figure | None:
    """U_total x 4 of correct and of wrong predictions, a pair of boxes for each model; examples of all seeds pooled."""
    models = list(by_model(results.records))

    def draw(axes: Axes, records: list[Record]) -> None:
        for model, of in by_model(records).items():
            examples = [results.as_chosen(record.cell, by="total", metric="gss") for record in of]
            values = DISPLAY_FACTOR * np.concatenate([one.quantified.total for one in examples])
            wrong = np.concatenate([one.wrong for one in examples])
            for _, is_wrong, colour, shift in GROUPS:
                _draw_box(axes, values[wrong == is_wrong], models.index(model) + shift, colour)
        axes.set_xlim(-0.6, len(models) - 0.4)
        axes.set_ylim(-0.03, 1.03)
        axes.set_xticks(range(len(models)), [MODEL_LOOKS[model].short for model in models], fontsize=7.5)
        light_grid(axes)
        axes.grid(visible=False, axis="x")

    said = ["boxes: quartiles and median of all seeds together", "whiskers: 5th to 95th percentile"]
    return panels(
        results.parts(),
        draw,
        handles=[Patch(facecolor=colour, alpha=0.6, label=label) for label, _, colour, _ in GROUPS],
        notes=[*said, *results.notes("gss")],
        xlabel="",
        ylabel=f"{UNCERTAINTY_NAMES['total']} × {DISPLAY_FACTOR}",
    )


def _draw_box(axes: Axes, values: Float[np.ndarray, " examples"], place: float, colour: str) -> None:
    if values.size == 0:
        return
    low, lower, middle, upper, high = np.percentile(values, [WHISKERS[0], 25, 50, 75, WHISKERS[1]])
    axes.bxp(
        [{"med": middle, "q1": lower, "q3": upper, "whislo": low, "whishi": high}],
        positions=[place],
        widths=WIDTH,
        showfliers=False,
        showcaps=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": colour, "alpha": 0.35, "edgecolor": "none"},
        medianprops={"color": colour, "linewidth": 1.8},
        whiskerprops={"color": colour, "linewidth": 1},
    )
