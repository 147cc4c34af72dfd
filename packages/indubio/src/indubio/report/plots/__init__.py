"""Plots by the names that people guess: `found.plot.uncertainty()`, `plots.rejection(found, labels)`.

    probability     how the anomaly probability is distributed
    uncertainty     the same of an uncertainty, or of novelty
    scores          the scores, sorted
    scatter         probability against an uncertainty
    timeline        a number in the order of the examples
    verdicts        how many inliers, anomalies and referrals
    rejection       what referring the most uncertain buys; needs labels
    confusion       verdicts against labels
    contributions   what made the score of one example
    plane           probability and uncertainties around data of two features

Each takes the axes to draw on, makes a figure where none is given, and returns the axes, as pandas does. The figures of
reports are those of `indubio.report`.
"""

from indubio.report.plots.accessor import AssessmentPlots
from indubio.report.plots.assessment_plots import (
    confusion,
    contributions,
    plane,
    probability,
    rejection,
    scatter,
    scores,
    timeline,
    uncertainty,
    verdicts,
)

__all__ = [
    "AssessmentPlots",
    "confusion",
    "contributions",
    "plane",
    "probability",
    "rejection",
    "scatter",
    "scores",
    "timeline",
    "uncertainty",
    "verdicts",
]
