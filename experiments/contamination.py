"""Training data that is not all good: what trimming brings, and what it costs.

python -m experiments.contamination [--seeds 1] [--sets 24] [--processes 1] fills what is missing: docs/contamination.md

Half of the inliers, at most 500, train, with anomalies among them: 0, 2 or 10 % of the rows, or as many as half of
the anomalies are. The other half of the anomalies and the other inliers, at most 1,000 of each, are the test. Sets:
ODDS (`INDUBIO_DATA`/odds) and the odd-numbered ones of ADBench (`INDUBIO_DATA`/adbench) of at most 60 features.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from experiments.results_file import Results, Row, markdown, put_into
from indubio import CrossFit, Detector
from indubio.chain import ChainEstimator
from indubio.detector import EnsembleDetector
from indubio.errors import CalibrationWarning
from indubio.fitting import Trimming
from indubio.prepare import ZScore
from indubio_lab.collections import odds

ODDS = ("cardio", "lympho", "pendigits", "thyroid", "ionosphere", "pima", "vowels")
SHARES = (0.0, 0.02, 0.1)
HOW = {
    "none": None,
    "a tenth": Trimming(),
    "a fifth": Trimming(share=0.2),
    "a tenth, drop": Trimming(reference="drop"),
}
DETECTORS = ("Detector", "kNN", "isolation forest")
MOST_TRAINED, MOST_TESTED, MOST_FEATURES, LEVEL = 500, 1000, 60, 0.05


class Distances:
    """Mean distance to the five nearest training rows."""

    def fit(self, rows: np.ndarray) -> "Distances":
        """Keep the rows."""
        self.near_ = NearestNeighbors(n_neighbors=min(5, len(rows))).fit(rows)
        return self

    def score(self, rows: np.ndarray) -> np.ndarray:
        """High for anomalous."""
        return np.asarray(self.near_.kneighbors(rows)[0].mean(axis=1))


def sets() -> list[str]:
    """The names of all sets."""
    files = sorted((Path(os.environ["INDUBIO_DATA"]) / "adbench").glob("*.npz"), key=lambda file: file.stat().st_size)
    small = [file.stem for file in files if np.load(file)["X"].shape[1] <= MOST_FEATURES]
    return [*(f"odds/{name}" for name in ODDS), *(f"adbench/{name}" for name in small)]


def examples(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inliers and anomalies."""
    collection, task = name.split("/")
    if collection == "odds":
        data = odds(task)
        return np.concatenate([data.train, data.test_inliers]), data.test_anomalies
    held = np.load(Path(os.environ["INDUBIO_DATA"]) / "adbench" / f"{task}.npz")
    return held["X"][held["y"] == 0].astype(np.float64), held["X"][held["y"] == 1].astype(np.float64)


def made(kind: str, how: str, seed: int) -> ChainEstimator:
    """An unfitted detector."""
    if kind == "Detector":
        return Detector(trimming=HOW[how], seed=seed)
    if kind == "isolation forest":
        return EnsembleDetector(
            IsolationForest(), members=5, bootstrap=False, calibration=CrossFit(), trimming=HOW[how], seed=seed
        )
    return EnsembleDetector(
        Distances(),
        scored_by=lambda model, rows: model.score(rows),
        one_by_one=False,
        scaling=ZScore(),
        calibration=CrossFit(),
        trimming=HOW[how],
        seed=seed,
    )


def run(cell: Row) -> list[Row]:
    """All shares, detectors and ways to trim, on one set."""
    random = np.random.default_rng(cell["seed"])
    good, bad = (random.permutation(rows) for rows in examples(cell["set"]))
    trained = min(len(good) // 2, MOST_TRAINED)
    inliers, anomalies = good[trained:][:MOST_TESTED], bad[len(bad) // 2 :][:MOST_TESTED]
    test, actual = np.concatenate([inliers, anomalies]), np.repeat([0, 1], [len(inliers), len(anomalies)])
    rows = []
    for share in SHARES:
        mixed = min(round(share / (1 - share) * trained), len(bad) // 2)
        data = random.permutation(np.concatenate([good[:trained], bad[:mixed]]))
        for kind in DETECTORS:
            for how in HOW if kind != "isolation forest" else ("none",):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", CalibrationWarning)
                    detector = made(kind, how, cell["seed"]).fit(data)
                found = detector.assess(test)
                alarm = found.p_value <= LEVEL
                rows.append(
                    {
                        "share": share,
                        "mixed": mixed / len(data),
                        "detector": kind,
                        "how": how,
                        "auroc": float(roc_auc_score(actual, found.nll)),
                        "false_alarms": float(alarm[actual == 0].mean()),
                        "found": float(alarm[actual == 1].mean()),
                        "called_good": float(found.prediction[actual == 0].mean()),
                        "called_bad": float(found.prediction[actual == 1].mean()),
                        "dropped": detector.reference_.dropped / len(data),
                    }
                )
    return rows


def table(rows: list[Row], kind: str) -> str:
    """Means over sets and seeds, in per cent."""
    lines = []
    for share in SHARES:
        for how in HOW:
            own = [row for row in rows if (row["share"], row["detector"], row["how"]) == (share, kind, how)]
            if not own:
                continue
            names = ("auroc", "false_alarms", "found", "called_good", "called_bad", "dropped")
            means = [f"{100 * np.mean([row[name] for row in own]):.1f}" for name in names]
            lines.append([f"{100 * share:g} %: {how}", *means])
    headers = ["bad rows: trimming", "AUROC", f"false alarms at p <= {LEVEL}", "anomalies found at it"]
    return markdown([*headers, "inliers called anomalies", "anomalies called so", "reference dropped"], lines)


def main() -> None:
    """Fill what is missing, and write the tables of the page."""
    options = argparse.ArgumentParser(prog="python -m experiments.contamination")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--sets", type=int, help="the first so many, ODDS and then ADBench by size; all without it")
    options.add_argument("--processes", type=int, default=1)
    chosen = options.parse_args()
    os.nice(10)
    results = Results("contamination", ("set", "seed"))
    cells = [{"set": name, "seed": seed} for seed in range(chosen.seeds) for name in sets()[: chosen.sets]]
    results.fill(cells, run, chosen.processes)
    rows = results.rows()
    count = len({row["set"] for row in rows}), len({row["seed"] for row in rows})
    parts = [f"Means over {count[0]} sets, seeds: {count[1]}, in per cent.\n"]
    parts += [f"### {kind}\n\n{table(rows, kind)}" for kind in DETECTORS]
    put_into("contamination.md", "\n".join(parts))


if __name__ == "__main__":
    main()
