"""The traditional detectors that the paper names as background, on the same splits and through the same method.

Ten refits on bootstrap samples are their draws. Settings are scikit-learn's own: nothing was tuned.
"""

from collections.abc import Callable
from typing import Any

from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest
from sklearn.svm import OneClassSVM

from indubio.ensemble import EnsembleDetector, distance_to_centre
from indubio.inputs import MinMax

MEMBERS = 10  # as many as the ensemble of autoencoders has


def isolation_forest(seed: int) -> EnsembleDetector:
    """Isolation forest."""
    return _ensemble(IsolationForest(), seed)


def one_class_svm(seed: int) -> EnsembleDetector:
    """One-class support vector machine with a Gaussian kernel."""
    return _ensemble(OneClassSVM(), seed)


def k_means(seed: int) -> EnsembleDetector:
    """Distance to the nearest of eight cluster centres."""
    return _ensemble(KMeans(n_clusters=8, n_init=1), seed, distance_to_centre)


BASELINES: dict[str, Callable[[int], EnsembleDetector]] = {
    "Isolation forest": isolation_forest,
    "One-class SVM": one_class_svm,
    "K-means": k_means,
}


def _ensemble(base: Any, seed: int, scored_by: Callable[..., Any] | None = None) -> EnsembleDetector:
    scaling = MinMax(clip=True)  # as the autoencoders get the data
    return EnsembleDetector(base, members=MEMBERS, scored_by=scored_by, one_by_one=False, scaling=scaling, seed=seed)
