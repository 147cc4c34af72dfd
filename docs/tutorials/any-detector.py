# %% [markdown]
# # The detector you already have
#
# An isolation forest, a one-class SVM, a score of your own: none of them says how sure it is. `EnsembleDetector` refits it on resamples of the training
# rows, and everything else follows as for our own: probabilities, uncertainties, p-values, referral, reports.
#
# To run it yourself: `pip install --constraint constraints.txt . pandas`.

# %%
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor

wine = load_wine(as_frame=True)
good, other = wine.data[wine.target == 1], wine.data[wine.target != 1]
training, new = good[:50], pd.concat([good[50:], other])
labels = [0] * len(good[50:]) + [1] * len(other)

# %%
from indubio import Detector
from indubio.detector import EnsembleDetector

detectors = {
    "isolation forest": EnsembleDetector(IsolationForest(n_estimators=50), members=10),
    "LOF": EnsembleDetector(LocalOutlierFactor(novelty=True), members=10),
    "indubio": Detector(),
}
found = {name: detector.fit(training).assess(new) for name, detector in detectors.items()}
found["isolation forest"]

# %% [markdown]
# ## Side by side
# Area under the ROC curve of the scores, and what rejecting the most uncertain verdicts gains (W and Gain of the accuracy-rejection curve):

# %%
from indubio import evaluate

rows = {}
for name, one in found.items():
    result = evaluate(labels, one.prediction, one.total, scores=one.nll)
    rows[name] = {
        "AUROC": result.auroc.base,
        "GSS": result.gss.base,
        "W": result.gss.weighted_average,
        "Gain": result.gss.gain,
    }
pd.DataFrame(rows).T.round(3)

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
for ax, (name, one) in zip(axes, found.items(), strict=True):
    one.plot.scatter("epistemic", labels, ax=ax)
    ax.set_title(name, pad=28)

# %% [markdown]
# ## Your own score
# Any function that fits and any function that scores will do; high means anomalous.

# %%
import numpy as np


class Mahalanobis:
    """Distance to the mean, in units of the spread."""

    def fit(self, X, y=None):
        self.mean_, self.inverse_ = X.mean(axis=0), np.linalg.pinv(np.cov(X.T) + 1e-6 * np.eye(X.shape[1]))
        return self

    def score_samples(self, X):
        away = X - self.mean_
        return -np.einsum("ij,jk,ik->i", away, self.inverse_, away)  # scikit-learn's sign: high is normal


EnsembleDetector(Mahalanobis(), members=10).fit(training).assess(new)
