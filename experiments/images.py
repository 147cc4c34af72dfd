"""Images: scikit-learn's handwritten digits, some of them good and others anomalies.

python -m experiments.images [processes]      fills what is missing; table of docs/images.md

1,797 grey images of 8 x 8 pixels, about 180 of each digit.

    one digit      two thirds of a digit's images train; the rest are good, and all images of the others are anomalies
    all but one    two thirds of nine digits train; the rest are good, and all images of the tenth are anomalies

Every digit in turn, with three seeds of the split and of the detector, and with one where all but one digit train. All
settings are the defaults but those that are named. AUROC is of the mean score; false alarms and anomalies found are by
the verdict before referral.
"""

import os
import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from experiments.results_file import Results, Row, markdown, put_into
from indubio import AnchoredEnsemble, Conv2d, Dense, Detector, MCDropout

DETECTORS: dict[str, Callable[[int], Detector]] = {
    "default": lambda seed: Detector(seed=seed),
    "Conv2d, MC dropout": lambda seed: Detector(posterior=MCDropout(), seed=seed),
    "Conv2d, MC dropout of 0.2": lambda seed: Detector(posterior=MCDropout(dropout=0.2), seed=seed),
    "Conv2d with skips, MC dropout of 0.2": lambda seed: Detector(
        posterior=MCDropout(dropout=0.2), architecture=Conv2d(skips=True), seed=seed
    ),
    "Conv2d, anchored ensemble": lambda seed: Detector(posterior=AnchoredEnsemble(), seed=seed),
    "Conv2d with skips, anchored ensemble": lambda seed: Detector(
        posterior=AnchoredEnsemble(), architecture=Conv2d(skips=True), seed=seed
    ),
    "Conv2d, code of 32, anchored ensemble": lambda seed: Detector(
        posterior=AnchoredEnsemble(), architecture=Conv2d(latent=32), seed=seed
    ),
    "Dense, anchored ensemble": lambda seed: Detector(posterior=AnchoredEnsemble(), architecture=Dense(), seed=seed),
}
NEAREST = "5th neighbour"
TASKS = {"one digit": 3, "all but one": 1}  # and how many seeds


def split(task: str, digit: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images to train on, to test with, and which of these are anomalies."""
    digits = load_digits()
    images, anomalous = digits.images[..., None], digits.target != digit
    anomalous = anomalous if task == "one digit" else ~anomalous
    good = np.random.default_rng(seed).permutation(np.flatnonzero(~anomalous))
    train, rest = np.split(good, [2 * len(good) // 3])
    test = np.concatenate([rest, np.flatnonzero(anomalous)])
    return images[train], images[test], anomalous[test]


def run(cell: Row) -> list[Row]:
    """One detector on one split."""
    train, test, labels = split(cell["task"], cell["digit"], cell["seed"])
    start = time.process_time()
    if cell["detector"] == NEAREST:
        neighbours = NearestNeighbors(n_neighbors=5).fit(train.reshape(len(train), -1))
        score = neighbours.kneighbors(test.reshape(len(test), -1))[0][:, -1]
        return [{"auroc": float(roc_auc_score(labels, score)), "fit_cpu": time.process_time() - start}]
    detector = DETECTORS[cell["detector"]](cell["seed"]).fit(train)
    seconds = time.process_time() - start
    found = detector.assess(test)
    return [
        {
            "auroc": float(roc_auc_score(labels, found.nll)),
            "false_alarms": float(found.prediction[~labels].mean()),
            "found": float(found.prediction[labels].mean()),
            "fit_cpu": seconds,
        }
    ]


def main() -> None:
    """Fill what is missing, and write the table."""
    os.nice(10)
    names = (*DETECTORS, NEAREST)
    results = Results("images", ("task", "digit", "seed", "detector"))
    cells = [
        {"task": task, "digit": digit, "seed": seed, "detector": name}
        for task, seeds in TASKS.items()
        for seed in range(seeds)
        for digit in range(10)
        for name in names
    ]
    results.fill(cells, run, int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    rows = results.rows()
    table = [_line(task, name, rows) for task in TASKS for name in names]
    headers = [
        "good images",
        "detector",
        "cells",
        "AUROC",
        "lowest",
        "false alarms",
        "anomalies found",
        "CPU s of a fit",
    ]
    put_into("images.md", markdown(headers, table))


def _line(task: str, name: str, rows: list[Row]) -> list[str]:
    own = [row for row in rows if (row["task"], row["detector"]) == (task, name)]

    def mean(of: str, digits: str) -> str:
        known = [row[of] for row in own if of in row]
        return format(np.mean(known), digits) if known else "-"

    lowest = f"{min(row['auroc'] for row in own):.3f}" if own else "-"
    alarms = (mean("false_alarms", ".1%"), mean("found", ".1%"))
    return [task, name, str(len(own)), mean("auroc", ".4f"), lowest, *alarms, mean("fit_cpu", ".1f")]


if __name__ == "__main__":
    main()
