"""The paper's figures, made of a folder of results. Nothing is trained but the toy of the illustrations.

```
results = Results(store=CellStore("results"), cells=tuple(grid(["odds"])))
FIGURES["gss-curves"](results)             a matplotlib Figure; None where the cells do not have what it shows
CAPTIONS["gss-curves"]                     what it shows, in words
write_figures(store, cells, "figures")     all of them as SVG, PDF and PNG
```

A new figure is one function and one line in each list.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from matplotlib.figure import Figure

from indubio.judging import Level
from indubio_lab.paper.reproduction.cell_store import CellStore
from indubio_lab.paper.reproduction.cells import Cell
from indubio_lab.paper.reproduction.choice import Choice
from indubio_lab.paper.reproduction.figures.boxes import uncertainty_boxes
from indubio_lab.paper.reproduction.figures.conversion_sketch import conversion_of_scores
from indubio_lab.paper.reproduction.figures.curves import auroc_curves, conversion_curves, gss_curves
from indubio_lab.paper.reproduction.figures.figure_files import FORMATS, chosen_names, write_figure
from indubio_lab.paper.reproduction.figures.preprocessing import strath_pipeline
from indubio_lab.paper.reproduction.figures.results import Results
from indubio_lab.paper.reproduction.figures.toy import uncertainty_plane
from indubio_lab.paper.reproduction.figures.training_size import gain_by_training_size
from indubio_lab.paper.reproduction.judgements import PAPERS_LEVEL

__all__ = ["CAPTIONS", "FIGURES", "Results", "write_figures"]

# In the order of the paper.
FIGURES: Mapping[str, Callable[[Results], Figure | None]] = MappingProxyType(
    {
        "conversion": conversion_of_scores,
        "plane": uncertainty_plane,
        "boxes": uncertainty_boxes,
        "gss-curves": gss_curves,
        "training-size": gain_by_training_size,
        "strath-pipeline": strath_pipeline,
        "auroc-curves": auroc_curves,
        "conversion-curves": conversion_curves,
    }
)

CURVES_SAID = (
    "Each seed's curve is read as steps at common rejection rates, up to its own last point; the mean is over the "
    "seeds that are defined there, and is drawn where at least half of them are. An axis begins at the "
    "lowest mean with at most half rejected; curves may leave it beyond, where hardly an anomaly is left."
)
CAPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "conversion": "From the score (NLL) of one draw to the anomaly probability (above) and its variance (below), "
        "without and with the customised scaling. The scores are those of one draw of the toy ensemble.",
        "plane": "Anomaly probability and the five uncertainties of a BAE-Ensemble on a toy set with 2 features. "
        "Green dots are training examples; darker is higher.",
        "boxes": "Total uncertainty of correct and of wrong predictions: deterministic AE, VAE, and BAE with MC "
        "dropout, Bayes by Backprop, ensemble, SGHMC. No box where a model has no such prediction.",
        "gss-curves": "Accuracy-rejection curves of the models: GSS of what is kept when the most uncertain "
        f"predictions by total uncertainty are rejected. {CURVES_SAID}",
        "training-size": "Gain of GSS against the number of training examples: one point per task. The dotted line at "
        "0 is what no uncertainty would give. The deterministic AE has no epistemic uncertainty and no Var[NLL].",
        "strath-pipeline": "How STRATH's recordings become examples, and how the parts get their labels.",
        "auroc-curves": "Accuracy-rejection curves of the models: AUROC of what is kept when the most uncertain "
        f"predictions by total uncertainty are rejected. {CURVES_SAID}",
        "conversion-curves": "Accuracy-rejection curves of the eight conversions for BAE-Ensemble: GSS of what is kept "
        f"when the most uncertain predictions by total uncertainty are rejected. {CURVES_SAID}",
    }
)


def write_figures(
    store: CellStore,
    cells: Iterable[Cell],
    folder: str | Path,
    *,
    level: Level = PAPERS_LEVEL,
    choice: Choice = "oracle",
    names: Sequence[str] | None = None,
    formats: Iterable[str] = FORMATS,
) -> dict[str, list[Path]]:
    """Write the figures that the cells have what they need for; the paths by the figure's name.

    Args:
        store: the folder of results.
        cells: of one protocol; those that are not done are left out.
        folder: where to; made if it is not there.
        level: the reading of the customised scaling.
        choice: how the conversion is chosen: "oracle" or "fixed".
        names: of `FIGURES`; None takes all.
        formats: "svg", "pdf", "png".
    """
    results, formats = Results(store=store, cells=tuple(cells), level=level, choice=choice), list(formats)
    written = {}
    for name in chosen_names(names, FIGURES):
        figure = FIGURES[name](results)
        if figure is not None:
            written[name] = write_figure(figure, Path(folder) / name, formats)
    return written
