"""From a cell's raw scores to W, Base and Gain under every conversion and uncertainty.

The paper tries four distributions with and without the customised scaling: eight conversions. The scaling has two
readings (the CDF of the mean score, as in the formula; the mean of the CDF over scores, as in the scripts), so eight
conversions within each reading and twelve in all. A choice of the best is made among the eight of one reading: the
scripts', by which the paper's numbers were made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import numpy as np
from jaxtyping import Bool, Float

from indubio.chain import Assessment
from indubio.decision import ANOMALY_THRESHOLD, predictions
from indubio.evaluation import RejectionCurve, accuracy_rejection_curve
from indubio.judging import PAPER_CONVERSIONS, UNCERTAINTIES, Conversion, Level, Uncertainty, mean_nll, quantify
from indubio_lab.paper.reproduction.cells import CellOutcome

LEVELS: tuple[Level, ...] = get_args(Level)
PAPERS_LEVEL: Level = "mean_of_cdf"
FORMULAS_LEVEL: Level = "cdf_of_mean"
METRICS = ("gss", "auroc")
OWN = "own"  # the conversion of a detector for use


@dataclass(frozen=True, order=True)
class Judgement:
    """One number of one cell: a conversion and an uncertainty, judged by a metric; as fractions, not percent."""

    conversion: str
    uncertainty: str
    metric: str
    weighted_average: float
    base: float

    @property
    def gain(self) -> float:
        """What rejecting by this uncertainty adds on average."""
        return self.weighted_average - self.base


def conversions() -> dict[str, Conversion]:
    """The twelve by name: "ecdf", "ecdf+scale" (level by the formula), "ecdf+scale*" (by the scripts)."""
    named: dict[str, Conversion] = {}
    for name, conversion in PAPER_CONVERSIONS.items():
        named[name] = conversion(scaled=False)
        for level, mark in zip(LEVELS, ("+scale", "+scale*"), strict=True):
            named[name + mark] = conversion(scaled=True, level=level)
    return named


def within(level: Level) -> list[str]:
    """The names of the eight conversions of one reading of the scaling."""
    mark = {"cdf_of_mean": "+scale", "mean_of_cdf": "+scale*"}[level]
    return [name + end for name in PAPER_CONVERSIONS for end in ("", mark)]


def judge(outcome: CellOutcome) -> Iterator[Judgement]:
    """All of a cell: 12 conversions, or a detector's own, x 5 uncertainties x 2 metrics.

    With a single draw the epistemic uncertainty and the variance of the scores are 0 everywhere: left out, as the paper
    does.
    """
    labels = outcome.labels.astype(bool)
    for name in conversions() if outcome.own is None else (OWN,):
        quantified = uncertainty(outcome, name) if outcome.own is None else outcome.own
        for by in applicable(outcome.test_nll):
            for metric in METRICS:
                drawn = curve(labels, quantified, mean_nll(outcome.test_nll), by=by, metric=metric)
                yield Judgement(name, by, metric, drawn.weighted_average, drawn.base)


def applicable(nll: Float[np.ndarray, "draws examples"]) -> list[str]:
    """Those of the paper's five uncertainties that these draws can have."""
    return [name for name in UNCERTAINTIES if len(nll) > 1 or name not in ("epistemic", "var_nll")]


def uncertainty(outcome: CellOutcome, conversion: str) -> Uncertainty:
    """Probability and uncertainties of the test examples, the CDFs fitted on the training scores."""
    fitted = conversions()[conversion].fit(outcome.train_nll)
    largest = float(mean_nll(outcome.train_nll).max())
    probability = fitted.probability(outcome.test_nll)
    return quantify(probability, outcome.test_nll, largest, outcome.train_nll.shape[1])


def curve(
    labels: Bool[np.ndarray, " examples"],
    quantified: Uncertainty | Assessment,
    scores: Float[np.ndarray, " examples"],
    *,
    by: str,
    metric: str,
) -> RejectionCurve:
    """The accuracy-rejection curve of one uncertainty."""
    called = predictions(quantified.probability, ANOMALY_THRESHOLD)
    return accuracy_rejection_curve(labels, called, getattr(quantified, by), metric=metric, scores=scores)
