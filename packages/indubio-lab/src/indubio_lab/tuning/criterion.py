r"""How good settings are, without labels.

Held-out NLL alone is a trap. An autoencoder's NLL is no density: the code is made from the very row that it explains,
so a network that copies its input, by skips or by a code as wide as the row, has the best NLL of all and finds no
anomaly. So by default settings are judged by how well they tell held-out rows from the same rows with one column
broken:

    separation = P(nll(broken row) > nll(row)),   broken: one column's value replaced by that of another held-out row

Each broken value is one that occurs; only its company is wrong. A copying network scores 1/2, as a blind one does.

It rewards what it asks for: knowing how the columns go together. Where they are independent there is nothing to know,
and all settings score about 1/2; anomalies that break no dependence, such as a value beyond all others, are found by
most settings alike and do not count. `nll` is there for comparison; skips are then off, and the widest code wins.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from sklearn.metrics import roc_auc_score

from indubio.calibration import TrainScores
from indubio.detector import Detector
from indubio.errors import data_warnings_told_otherwise
from indubio.judging import mean_nll
from indubio_lab.tuning.sample import Sample

By = Literal["separation", "nll"]
BREAKING = 10  # marks the random stream of the broken rows


@dataclass(frozen=True, kw_only=True)
class SettingsQuality:
    """How good settings are.

    Args:
        separation: from 1/2, blind, to 1.
        nll: mean held-out NLL; comparable only between settings of one likelihood.
    """

    separation: float
    nll: float


def judged(detector: Detector, sample: Sample) -> SettingsQuality:
    """Train on some rows and judge by the others.

    Args:
        detector: the settings; it is not changed.
        sample: rows.
    """
    with data_warnings_told_otherwise():
        fitted = Detector(**(detector.get_params(deep=False) | {"calibration": TrainScores()})).fit(sample.trained)
    good = mean_nll(fitted.nll(sample.held_out))
    bad = mean_nll(fitted.nll(broken(sample, detector.seed)))
    labels = np.repeat([0, 1], [len(good), len(bad)])
    return SettingsQuality(
        separation=float(roc_auc_score(labels, np.concatenate([good, bad]))),
        nll=float(good.mean()),
    )


def broken(sample: Sample, seed: int) -> Float[np.ndarray, "held ..."]:
    """The held-out rows, each with a column (of a window or image: half of a sensor or channel) taken from another."""
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(BREAKING,)))
    rows = sample.held_out
    count = len(rows)
    other = (np.arange(count) + random.integers(1, count, count)) % count
    which = random.integers(len(sample.columns), size=count)
    out = rows.copy()
    for column, places in enumerate(sample.columns):
        chosen: Int[np.ndarray, " chosen"] = np.flatnonzero(which == column)
        part = out[chosen]
        start = 0 if rows.ndim == 2 else rows.shape[1] // 2
        part[:, start:][..., places] = rows[other[chosen]][:, start:][..., places]
        out[chosen] = part
    return out


def value_of(found: SettingsQuality, by: By) -> float:
    """What the search maximises."""
    return found.separation if by == "separation" else -found.nll


def described(found: dict[str, Any]) -> SettingsQuality:
    """What a study keeps of a trial, as it was."""
    return SettingsQuality(separation=float(found["separation"]), nll=float(found["nll"]))
