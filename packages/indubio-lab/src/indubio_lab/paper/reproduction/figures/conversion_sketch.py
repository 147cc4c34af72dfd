"""Illustration: how a score becomes a probability and a variance, with and without the customised scaling."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from indubio.judging import Conversion, Level
from indubio.report import GREY, report_style
from indubio_lab.paper.reproduction.figures.look import conversion_line, conversion_name, light_grid
from indubio_lab.paper.reproduction.figures.results import Results
from indubio_lab.paper.reproduction.figures.toy import toy_detector, toy_examples
from indubio_lab.paper.reproduction.judgements import conversions, within

PAPERS = ("gaussian", "uniform")
POINTS = 300


def conversion_of_scores(results: Results) -> Figure:  # noqa: ARG001 - every figure is called alike
    """Probability and variance of one draw of the toy ensemble, for the two distributions of the paper's figure."""
    return conversion_figure(toy_detector().nll(toy_examples())[0])


def conversion_figure(
    training_scores: Float[np.ndarray, " examples"],
    *,
    distributions: Sequence[str] = PAPERS,
    level: Level = "cdf_of_mean",
) -> Figure:
    """E[y] above, Var[y] below, as functions of the score of a new example.

    Args:
        training_scores: NLL of the training examples under one draw.
        distributions: names in `PAPER_CONVERSIONS`, each drawn with and without the scaling.
        level: the reading of the scaling.
    """
    average = training_scores.mean()
    scores = np.linspace(0, max(np.quantile(training_scores, 0.999), 3 * average), POINTS)
    with report_style():
        figure = Figure(figsize=(5.2, 5.0), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True)
        handles = []
        for name, conversion in _drawn(distributions, level).items():
            p = conversion.fit(training_scores[None]).probability(scores[None])[0]
            line = conversion_line(name)
            upper.plot(scores, p, **line)
            lower.plot(scores, p * (1 - p), **line)
            handles.append(Line2D([], [], label=conversion_name(name), **line))
        for axes in (upper, lower):
            axes.axvline(average, color=GREY, linewidth=1, linestyle=":")
            light_grid(axes)
        handles.append(Line2D([], [], color=GREY, linewidth=1, linestyle=":", label="mean training score"))
        upper.set_ylabel("E[y], anomaly probability")
        lower.set_ylabel("Var[y] = p (1 - p)")
        lower.set_xlabel("NLL of a new example under one draw")
        upper.set_xlim(scores[0], scores[-1])
        figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure


def _drawn(distributions: Sequence[str], level: Level) -> dict[str, Conversion]:
    named = conversions()
    return {name: named[name] for name in within(level) if name.partition("+")[0] in distributions}
