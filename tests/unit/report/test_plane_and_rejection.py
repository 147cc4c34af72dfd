"""Figures are drawn from what the detector and the evaluation say."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import make_moons

from indubio import Detector
from indubio.errors import ShapeError
from indubio.evaluation import accuracy_rejection_curve
from indubio.report import plane_figure, plot_rejection_curves

MOONS = make_moons(80, noise=0.05, random_state=0)[0]


def test_the_plane_has_a_map_of_the_probability_and_each_uncertainty():
    detector = Detector().fit(MOONS)
    figure = plane_figure(detector, MOONS, resolution=12)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert len(titles) == 6
    mesh = figure.axes[0].collections[0]
    x, y = np.meshgrid(
        *(
            np.linspace(a - 0.6 * (b - a), b + 0.6 * (b - a), 12)
            for a, b in zip(MOONS.min(0), MOONS.max(0), strict=True)
        )
    )
    expected = detector.assess(np.column_stack([x.ravel(), y.ravel()])).probability
    np.testing.assert_allclose(np.asarray(mesh.get_array()).ravel(), expected)


def test_the_plane_needs_two_features():
    with pytest.raises(ShapeError, match="two features"):
        plane_figure(Detector(), np.zeros((4, 3)))


def test_a_curve_is_drawn_in_percent_with_its_summary():
    labels, predictions = np.array([0, 0, 0, 1, 1, 1, 1, 0]), np.array([0, 0, 0, 1, 1, 1, 0, 1])
    curve = accuracy_rejection_curve(labels, predictions, np.arange(8.0))
    axes = Figure().subplots()
    plot_rejection_curves(axes, {"total": curve})
    (line,) = axes.lines
    np.testing.assert_allclose(line.get_xdata(), 100 * curve.rejection_rate)
    assert "total: W" in line.get_label()
    assert "rejected [%]" in axes.get_xlabel()
