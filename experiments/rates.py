"""The default rate of false alarms: what a verdict costs where one example in a hundred is an anomaly.

python -m experiments.rates [--seeds 1] [--processes 1] [--confirm]    fills what is missing; docs/verdicts.md

A missed anomaly costs 20, a false alarm 1, a review .2. Of each set half of the inliers, at most 100 or 1,000, train
the default, once for each rate; the other inliers and the anomalies, at most 2,000 of each, are weighed by 99 to 1.
Sets to choose by: ODDS and the odd-numbered ones of ADBench, as `experiments.contamination` has them. `--confirm`
adds those of OddBench of at most 60 features.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np

from experiments import contamination
from experiments.results_file import Results, Row, markdown
from indubio import Detector
from indubio.errors import CalibrationWarning, DataWarning

RATES = (0.01, 0.02, 0.03, 0.05, 0.1)
TRAINED = (100, 1000)
MISS, FALSE_ALARM, REVIEW = 20.0, 1.0, 0.2
PREVALENCE = 0.01
MOST_TESTED = 2000
GROUPS = {"odds": "chosen by", "adbench": "chosen by", "oddbench": "confirmed by"}


def confirming() -> list[str]:
    """The names of the sets of OddBench."""
    files = sorted((Path(os.environ["INDUBIO_DATA"]) / "oddbench").glob("*.npz"))
    return [f"oddbench/{file.stem}" for file in files if np.load(file)["X"].shape[1] <= contamination.MOST_FEATURES]


def examples(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inliers and anomalies; numbers only."""
    collection, task = name.split("/")
    if collection != "oddbench":
        return contamination.examples(name)
    held = np.load(Path(os.environ["INDUBIO_DATA"]) / "oddbench" / f"{task}.npz")
    rows, bad = held["X"].astype(np.float64), held["y"] == 1
    return rows[~bad], rows[bad]


def run(cell: Row) -> list[Row]:
    """All rates, on one set."""
    random = np.random.default_rng(cell["seed"])
    good, bad = (random.permutation(rows) for rows in examples(cell["set"]))
    trained = min(len(good) // 2, cell["trained"])
    inliers, anomalies = good[trained:][:MOST_TESTED], bad[:MOST_TESTED]
    test, actual = np.concatenate([inliers, anomalies]), np.repeat([False, True], [len(inliers), len(anomalies)])
    rows = []
    for rate in RATES:
        with warnings.catch_warnings():
            for kind in (CalibrationWarning, DataWarning):
                warnings.simplefilter("ignore", kind)
            verdict = Detector(false_alarms=rate, seed=cell["seed"]).fit(good[:trained]).assess(test).verdict
        shares = {
            f"{truth} {name}": float((verdict[own] == name).mean())
            for truth, own in (("good", ~actual), ("bad", actual))
            for name in ("ANOMALY", "REFER", "INLIER")
        }
        cost = PREVALENCE * (MISS * shares["bad INLIER"] + REVIEW * shares["bad REFER"])
        cost += (1 - PREVALENCE) * (FALSE_ALARM * shares["good ANOMALY"] + REVIEW * shares["good REFER"])
        rows.append({"rate": rate, "cost": cost, **shares})
    return rows


def table(rows: list[Row]) -> str:
    """Means over sets and seeds; what doing nothing costs is `PREVALENCE * MISS`."""
    lines = []
    for group in dict.fromkeys(GROUPS.values()):
        for trained in TRAINED:
            mine = [row for row in rows if GROUPS[row["set"].split("/")[0]] == group and row["trained"] == trained]
            for rate in RATES if mine else ():
                own = [row for row in mine if row["rate"] == rate]
                names = ("good ANOMALY", "good REFER", "bad ANOMALY", "bad REFER", "bad INLIER")
                shares = [f"{100 * np.mean([row[name] for row in own]):.1f}" for name in names]
                lines.append(
                    [f"{group}, {trained} rows: {rate:g}", f"{np.mean([row['cost'] for row in own]):.4f}", *shares]
                )
    headers = ["sets, training rows: rate", "cost", "good: anomaly", "good: refer", "bad: anomaly", "bad: refer"]
    return markdown([*headers, "bad: inlier"], lines)


def main() -> None:
    """Fill what is missing, and print the table."""
    options = argparse.ArgumentParser(prog="python -m experiments.rates")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--confirm", action="store_true")
    chosen = options.parse_args()
    os.nice(10)
    results = Results("rates", ("set", "trained", "seed"))
    sets = [*contamination.sets(), *(confirming() if chosen.confirm else [])]
    cells = [
        {"set": name, "trained": trained, "seed": seed}
        for seed in range(chosen.seeds)
        for name in sets
        for trained in TRAINED
    ]
    results.fill(cells, run, chosen.processes)
    print(table(results.rows()))


if __name__ == "__main__":
    main()
