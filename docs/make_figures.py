"""Make the pictures of the documentation: `make figures`."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.ensemble import IsolationForest
from sklearn.model_selection import train_test_split
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from indubio import Detector
from indubio.detector import EnsembleDetector, distance_to_centre
from indubio.evaluation import accuracy_rejection_curve, compare
from indubio.report import COLOURS, plane_figure, plot_rejection_curves

IMAGES = Path(__file__).parent / "images"
DOUBTS = ("probability", "aleatoric", "epistemic", "novelty")


def plane() -> None:
    """Probability and five uncertainties around two moons."""
    moons, _ = make_moons(500, noise=0.06, random_state=0)
    plane_figure(Detector().fit(moons), moons).savefig(IMAGES / "plane.png", dpi=110)


def ray() -> None:
    """From the middle of two-dimensional data outwards, over rays in all directions: where each doubt is large."""
    good = np.random.default_rng(0).normal(size=(500, 2))
    distance, angle = np.linspace(0, 8, 161), np.linspace(0, 2 * np.pi, 72, endpoint=False)
    points = distance[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    found = Detector().fit(good).assess(points.reshape(-1, 2))
    shown = {name: values.reshape(161, 72).mean(axis=1) for name, values in found.to_dict().items() if name in DOUBTS}
    figure, (verdict, doubt, novelty) = plt.subplots(3, 1, figsize=(6.4, 6), sharex=True, layout="constrained")
    verdict.plot(distance, shown["probability"], color=COLOURS[7])
    verdict.axhline(0.5, color=COLOURS[7], linewidth=1, linestyle="--")
    verdict.annotate("anomaly from here", (8, 0.52), ha="right", fontsize=8)
    verdict.set_ylabel("anomaly probability")
    doubt.plot(distance, shown["aleatoric"], color=COLOURS[0], label="aleatoric: each draw is torn")
    doubt.plot(distance, shown["epistemic"], color=COLOURS[1], label="epistemic: the draws disagree")
    doubt.set_ylabel("uncertainty [variance]")
    doubt.legend(frameon=False, fontsize=8)
    novelty.plot(distance, shown["novelty"], color=COLOURS[3])
    novelty.axhline(1, color=COLOURS[7], linewidth=1, linestyle="--")
    novelty.annotate("unfamiliar above", (0, 1.05), fontsize=8, va="bottom")
    novelty.set_ylabel("novelty [1: usual]")
    novelty.set_xlabel("distance from the middle of the training data [standard deviations]")
    for axes in (verdict, doubt, novelty):
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, 8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "ray.png", dpi=110)


def breast_cancer() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The data of `make demo`: benign training rows, test rows, and their labels."""
    data = load_breast_cancer()
    train, unseen = train_test_split(data.data[data.target == 1], train_size=0.7, random_state=0)
    test = np.concatenate([unseen, data.data[data.target == 0]])
    return train, test, np.repeat([0, 1], [len(unseen), len(test) - len(unseen)])


def rejection_curves() -> None:
    """What each uncertainty buys on the data of `make demo`."""
    train, test, labels = breast_cancer()
    found = Detector().fit(train).assess(test)
    curves = {
        name: accuracy_rejection_curve(labels, found.prediction, getattr(found, name))
        for name in ("total", "aleatoric", "epistemic", "exceed", "var_nll")
    }
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    plot_rejection_curves(axes, curves)
    axes.set_title("Breast cancer Wisconsin, W (Gain)", fontsize=10)
    figure.savefig(IMAGES / "rejection.png", dpi=110)


def comparison() -> None:
    """Several detectors on one plot."""
    train, test, labels = breast_cancer()
    refits = {
        "isolation forest": (IsolationForest(n_estimators=50), {}),
        "local outlier factor": (LocalOutlierFactor(novelty=True), {"bootstrap": "subsample"}),
        "one-class SVM": (OneClassSVM(nu=0.1), {}),
        "k-means": (KMeans(8, n_init=1), {"scored_by": distance_to_centre}),
    }
    detectors = {
        name: EnsembleDetector(make_pipeline(StandardScaler(), base), **settings)
        for name, (base, settings) in refits.items()
    }
    found = {name: each.fit(train).assess(test) for name, each in {"indubio": Detector(), **detectors}.items()}
    compared = compare(
        labels, {name: one.prediction for name, one in found.items()}, {name: one.total for name, one in found.items()}
    )
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    plot_rejection_curves(axes, compared.curves())
    axes.get_legend().remove()
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)  # never on top of a curve
    axes.set_title("Breast cancer Wisconsin, rejecting by total uncertainty, W (Gain)", fontsize=10)
    figure.savefig(IMAGES / "comparison.png", dpi=110)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    plane()
    ray()
    rejection_curves()
    comparison()
