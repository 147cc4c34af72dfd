"""Illustration: probability and the five uncertainties of a BAE-Ensemble around training examples of two features."""

from functools import cache

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from sklearn.datasets import make_moons

from indubio.calibration import TrainScores
from indubio.detector import Detector
from indubio.errors import data_warnings_told_otherwise
from indubio.judging import Ecdf
from indubio.posteriors import AnchoredEnsemble
from indubio.report import plane_figure, report_style
from indubio_lab.paper.reproduction.figures.results import Results

MOONS, NOISE, SEED = 500, 0.06, 0


def uncertainty_plane(results: Results) -> Figure:  # noqa: ARG001 - every figure is called alike
    """Six maps around two moons: green dots are training examples, darker is higher."""
    with report_style():
        return plane_figure(toy_detector(), toy_examples())


def toy_examples() -> Float[np.ndarray, "examples 2"]:
    """Two moons, a toy set with 2 features."""
    return np.asarray(make_moons(MOONS, noise=NOISE, random_state=SEED)[0])


@cache
def toy_detector() -> Detector:
    """A BAE-Ensemble fitted on the toy set, with the paper's ECDF of training scores; two figures use it."""
    detector = Detector(
        posterior=AnchoredEnsemble(members=10),
        conversion=Ecdf(level="mean_of_cdf"),
        calibration=TrainScores(),
        seed=SEED,
    )
    with data_warnings_told_otherwise():  # by training scores and 1/2 it calls a quarter of them anomalies
        return detector.fit(toy_examples())
