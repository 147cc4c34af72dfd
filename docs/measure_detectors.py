"""Measure what resampling does to other packages' detectors, on ODDS, for docs/any-detector.md: `make detectors`."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pyod.models.copod import COPOD
from pyod.models.ecod import ECOD
from pyod.models.knn import KNN
from rich.progress import track
from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

from indubio import evaluate
from indubio.calibration import CrossFit
from indubio.detector import EnsembleDetector, distance_to_centre
from indubio.evaluation import auroc
from indubio.judging import Ecdf, FittedConversion
from indubio.prepare import MinMax
from indubio_lab.collections import odds

PAGE = Path(__file__).parent / "any-detector.md"
SEEDS = range(3)
TASKS = ("cardio", "lympho", "thyroid", "ionosphere", "pima", "vowels")  # the two others have over 5,000 rows
SMALL = ("lympho", "ionosphere", "pima")
BASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "isolation forest, 50 trees": (IsolationForest(n_estimators=50), {}),
    "LOF, 20 neighbours": (LocalOutlierFactor(n_neighbors=20, novelty=True), {}),
    "LOF, 3 neighbours": (LocalOutlierFactor(n_neighbors=3, novelty=True), {}),
    "KNN, 5 neighbours": (KNN(), {}),
    "KNN, 1 neighbour": (KNN(n_neighbors=1), {}),
    "one-class SVM": (OneClassSVM(nu=0.1), {}),
    "k-means, 8 centres": (KMeans(n_clusters=8, n_init=1), {"scored_by": distance_to_centre}),
}
WAYS: dict[str, dict[str, Any]] = {
    "itself": {"members": 1, "bootstrap": False},
    "bootstrap": {"bootstrap": True},
    "subsample": {"bootstrap": "subsample"},
    "subsample, cross-fitted": {"bootstrap": "subsample", "calibration": CrossFit()},
}


def resampling() -> Iterator[str]:
    """AUROC, W and Gain of GSS, and the false-alarm rate at nominal 5 %, mean over tasks and seeds."""
    yield "| detector | refits | AUROC | GSS | W | Gain, total | Gain, epistemic | false alarms at 5 % |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, (base, settings) in track(BASES.items(), description="resampling"):
        for way, how in WAYS.items():
            detector = EnsembleDetector(base, scaling=MinMax(), conversion=Ecdf(), one_by_one=False, **settings, **how)
            runs = [_run(detector, task, seed) for task in TASKS for seed in SEEDS]
            yield f"| {name} | {way} | " + " | ".join(f"{100 * value:.1f}" for value in np.mean(runs, axis=0)) + " |"


def _run(detector: EnsembleDetector, task: str, seed: int) -> list[float]:
    data = odds(task, seed=seed)
    found = detector.set_params(seed=seed).fit(data.train).assess(data.test)
    total = evaluate(data.labels, found.prediction, found.total, scores=found.nll)
    epistemic = evaluate(data.labels, found.prediction, found.epistemic)
    scores = {"scores": detector.conversion_.parameters["scores"]}
    chain = detector.chain_
    conversion = FittedConversion(conversion=Ecdf(scaled=False), parameters=scores)
    other = detector.of_chain(replace(chain, calibrated=replace(chain.calibrated, conversion=conversion)))
    unscaled = other.assess(data.test_inliers).probability
    return [
        total.metrics["auroc"],
        total.gss.base,
        total.gss.weighted_average,
        total.gss.gain,
        epistemic.gss.gain,
        float(np.mean(unscaled >= 0.95)),
    ]


def company() -> Iterator[str]:
    """AUROC of detectors whose score depends on the batch, alone and with all test rows in one batch."""
    yield "| detector | task | rows one by one | all test rows at once |"
    yield "|---|---|---|---|"
    for base in track((ECOD(), COPOD()), description="company"):
        for task in SMALL:
            data = odds(task)
            ways = [
                EnsembleDetector(base, members=1, bootstrap=False, one_by_one=alone)
                .fit(data.train)
                .assess(data.test)
                .nll
                for alone in (True, False)
            ]
            values = " | ".join(f"{100 * auroc(data.labels, nll):.1f}" for nll in ways)
            yield f"| {type(base).__name__} | {task} | {values} |"


if __name__ == "__main__":
    text = PAGE.read_text()
    for name, lines in (("company", company()), ("resampling", resampling())):
        table = "\n".join(lines)
        marked = rf"(<!-- {name}: made by `make detectors` -->\n).*?(<!-- end -->)"
        text = re.sub(marked, lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}", text, flags=re.DOTALL)
    PAGE.write_text(text)
