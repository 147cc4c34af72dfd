"""Several detectors on the same examples."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from indubio.errors import ConfigError
from indubio.evaluation import compare, evaluate
from indubio.report import plot_rejection_curves

RNG = np.random.default_rng(0)
LABELS = np.repeat([0, 1], [80, 20])
SCORES = {"good": LABELS + 0.4 * RNG.normal(size=100), "poor": LABELS + 2 * RNG.normal(size=100)}
PREDICTIONS = {name: scores > 0.5 for name, scores in SCORES.items()}
UNCERTAINTIES = {name: -np.abs(scores - 0.5) for name, scores in SCORES.items()}


def poor_first(values):
    return {name: values[name] for name in ("poor", "good")}


def test_every_detector_is_evaluated_as_if_alone():
    found = compare(LABELS, PREDICTIONS, UNCERTAINTIES, scores=SCORES)
    for name, evaluation in found.evaluations.items():
        alone = evaluate(LABELS, PREDICTIONS[name], UNCERTAINTIES[name], scores=SCORES[name])
        assert evaluation.to_dict() == alone.to_dict()


@pytest.mark.parametrize("metric", ["gss", "auroc"])
def test_curves_and_table_have_the_best_first(metric):
    found = compare(LABELS, poor_first(PREDICTIONS), UNCERTAINTIES, scores=SCORES)
    assert list(found.evaluations) == ["poor", "good"]
    curves = found.curves(metric)
    assert list(curves) == ["good", "poor"]
    assert curves["good"].weighted_average > curves["poor"].weighted_average
    assert [row["detector"] for row in found.table()] == ["good", "poor"]
    assert found.table()[0]["gss_w"] == found.curves()["good"].weighted_average


def test_a_detector_without_a_defined_curve_is_last():
    few = np.repeat([0, 1], [98, 2])
    found = compare(few, PREDICTIONS, UNCERTAINTIES)
    assert all(np.isnan(curve.weighted_average) for curve in found.curves().values())
    assert len(found.table()) == 2


def test_the_curves_are_drawn_on_one_pair_of_axes():
    axes = Figure().subplots()
    plot_rejection_curves(axes, compare(LABELS, poor_first(PREDICTIONS), UNCERTAINTIES).curves())
    assert [text.get_text().split(":")[0] for text in axes.get_legend().get_texts()] == ["good", "poor"]


def test_names_must_agree_and_scores_are_needed_for_auroc():
    with pytest.raises(ConfigError, match='`uncertainties` must be of the detectors "good", "poor"'):
        compare(LABELS, PREDICTIONS, {"good": UNCERTAINTIES["good"]})
    with pytest.raises(ConfigError, match="at least one detector"):
        compare(LABELS, {}, {})
    found = compare(LABELS, PREDICTIONS, UNCERTAINTIES)
    with pytest.raises(ConfigError, match='needs the `scores` of "good", "poor"'):
        found.curves("auroc")
    with pytest.raises(ConfigError, match="must be gss or auroc"):
        found.curves("f1")
