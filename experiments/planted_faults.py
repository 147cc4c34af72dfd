"""A fault in one feature of good examples: is it the first that an explanation names?

python -m experiments.planted_faults        fills what is missing; table of docs/explanations.md

Every feature (sensor) in turn is moved up or down by a share of its training range, in up to 60 test inliers.
"""

import os

import numpy as np

from experiments.results_file import Results, Row, markdown, put_into
from indubio import AnchoredEnsemble, Detector, Ecdf, Training
from indubio.calibration import TrainScores
from indubio.collections import odds, zema
from indubio.explain import explained

TASKS = ("odds/lympho", "odds/vowels", "odds/cardio", "zema/pump")
SENSORS = ("PS1", "PS3", "TS4", "FS1")
RANGES = (0.25, 0.5, 1.0, 2.0)
EACH = 60


def run(cell: Row) -> list[Row]:
    """One task: how many faults of each size are detected, and in how many of these the planted feature is first."""
    collection, task = cell["task"].split("/")
    data = odds(task) if collection == "odds" else zema(task, sensors=list(SENSORS))
    epochs = 100 if collection == "odds" else 30
    detector = Detector(
        posterior=AnchoredEnsemble(members=5),
        conversion=Ecdf(),
        training=Training(epochs=epochs),
        calibration=TrainScores(),
    ).fit(data.train)
    span = np.ptp(data.train, axis=tuple(range(data.train.ndim - 1)))
    rows = []
    for size in RANGES:
        counts = np.zeros((2, len(span)), dtype=int)
        shares: list[float] = []
        for feature in np.flatnonzero(span > 0):
            random = np.random.default_rng(feature)
            examples = data.test_inliers[random.permutation(len(data.test_inliers))[:EACH]].copy()
            shift = random.choice([-1, 1], len(examples)) * size * span[feature]
            examples[..., feature] += shift.reshape(-1, *[1] * (examples.ndim - 2))
            done = explained(detector, examples)
            if done.why is None:
                continue
            detected = done.found.prediction[done.places]
            first = done.why.features.value[detected].argmax(axis=1) == feature
            counts[:, feature] += detected.sum(), first.sum()
            shares += done.why.features.share[detected, feature].tolist()
        worst = int(np.argmin(np.where(counts[0] > 0, counts[1] / np.maximum(counts[0], 1), np.inf)))
        rows.append(
            {
                "ranges": size,
                "detected": counts[0].sum() / (min(EACH, len(data.test_inliers)) * int((span > 0).sum())),
                "first": counts[1].sum() / max(counts[0].sum(), 1),
                "share": float(np.mean(shares)),
                "worst": data.names[worst],
                "worst_first": float(counts[1, worst] / max(counts[0, worst], 1)),
            }
        )
    return rows


def main() -> None:
    """Fill what is missing, and write the table."""
    os.nice(10)
    results = Results("planted_faults", ("task",))
    results.fill([{"task": task} for task in TASKS], run)
    table = [
        [
            row["task"],
            f"{row['ranges']:g}",
            *(f"{100 * row[name]:.0f} %" for name in ("detected", "first", "share")),
            f"{row['worst']}: {100 * row['worst_first']:.0f} %",
        ]
        for row in results.rows()
    ]
    headers = ["task", "fault [ranges]", "detected", "planted is first", "its mean share", "hardest feature: first"]
    put_into("explanations.md", markdown(headers, table))


if __name__ == "__main__":
    main()
