"""Make the pictures of the documentation: `make figures`."""

from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.model_selection import train_test_split

from indubio import Detector
from indubio.evaluation import accuracy_rejection_curve
from indubio.report import plane_figure, plot_rejection_curves

IMAGES = Path(__file__).parent / "images"


def plane() -> None:
    """Probability and five uncertainties around two moons."""
    moons, _ = make_moons(500, noise=0.06, random_state=0)
    plane_figure(Detector().fit(moons), moons).savefig(IMAGES / "plane.png", dpi=110)


def rejection_curves() -> None:
    """What each uncertainty buys on the data of `make demo`."""
    import numpy as np

    data = load_breast_cancer()
    train, unseen = train_test_split(data.data[data.target == 1], train_size=0.7, random_state=0)
    test = np.concatenate([unseen, data.data[data.target == 0]])
    labels = np.repeat([0, 1], [len(unseen), len(test) - len(unseen)])
    found = Detector().fit(train).assess(test)
    curves = {
        name: accuracy_rejection_curve(labels, found.prediction, getattr(found, name))
        for name in ("total", "aleatoric", "epistemic", "exceed", "var_nll")
    }
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    plot_rejection_curves(axes, curves)
    axes.set_title("Breast cancer Wisconsin, BAE-Ensemble, W (Gain)", fontsize=10)
    figure.savefig(IMAGES / "rejection.png", dpi=110)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    plane()
    rejection_curves()
