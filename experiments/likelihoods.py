"""Which likelihood and which score distribution, on 6 ODDS tasks: AUROC of the mean score, W of the conversions.

    python -m experiments.likelihoods [--seeds 3]   run what is missing, then write the tables of docs/likelihoods.md
    python -m experiments.likelihoods --tables      only the tables

An anchored ensemble of 5 without norm and bias, 100 epochs of 3 batches at a rate of 0.02, data scaled to [0, 1] and
cut, training scores as reference: only the likelihood differs. Conversions are those of the Gaussian likelihood's
scores. INDUBIO_DATA is the folder of the collection.
"""

import argparse
import os
import time
from collections.abc import Iterable

import numpy as np
from sklearn.metrics import roc_auc_score

from experiments.results_file import Results, Row, markdown, put_into
from indubio import AnchoredEnsemble, Dense, Detector, Training, TrainScores
from indubio.evaluation import accuracy_rejection_curve
from indubio.judging import CDF_CONVERSIONS
from indubio.judging.uncertainty import total
from indubio.networks import LIKELIHOODS, Likelihood
from indubio.prepare import MinMax
from indubio_lab.collections import DATASETS, odds

SLOW = ("optdigits", "pendigits")  # the two largest
TASKS = [task for task in DATASETS["odds"].tasks if task not in SLOW]
CHOICES: dict[str, Likelihood] = {
    "gaussian": LIKELIHOODS["gaussian"](),
    "gaussian, per_feature": LIKELIHOODS["gaussian"](noise="per_feature"),
    "bernoulli": LIKELIHOODS["bernoulli"](),
    "continuous_bernoulli": LIKELIHOODS["continuous_bernoulli"](),
    "truncated_gaussian, fixed": LIKELIHOODS["truncated_gaussian"](noise="fixed"),
    "truncated_gaussian, per_feature": LIKELIHOODS["truncated_gaussian"](),
    "beta, fixed": LIKELIHOODS["beta"](noise="fixed"),
    "beta, per_feature": LIKELIHOODS["beta"](),
}
RESULTS = Results("likelihoods", ("task", "seed", "likelihood"))


def main() -> None:
    """Run the study, or write its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", action="store_true", help="only write the tables")
    options = parser.parse_args()
    if not options.tables:
        cells = (
            {"task": task, "seed": seed, "likelihood": name}
            for seed in range(options.seeds)
            for task in TASKS
            for name in CHOICES
        )
        RESULTS.fill(cells, run)
    put_into("likelihoods.md", tables(RESULTS.rows()))


def run(cell: Row) -> list[Row]:
    """One ensemble on one task."""
    task = odds(cell["task"], seed=cell["seed"], folder=os.environ["INDUBIO_DATA"])
    start = time.process_time()
    detector = Detector(
        posterior=AnchoredEnsemble(members=5),
        architecture=Dense(layer_norm=False, bias=False),
        likelihood=CHOICES[cell["likelihood"]],
        training=Training(epochs=100, batches=3, learning_rate=0.02),
        scaling=MinMax(clip=True),
        calibration=TrainScores(),
        seed=cell["seed"],
    ).fit(task.train)
    seconds = time.process_time() - start
    nll = detector.nll(task.test)
    found: Row = {"auroc": float(roc_auc_score(task.labels, nll.mean(0))), "fit_cpu": seconds}
    if cell["likelihood"] == "gaussian":
        reference = detector.nll(task.train)
        for name, conversion in CDF_CONVERSIONS.items():
            for scaled in (False, True):
                p = conversion(scaled=scaled).fit(reference).probability(nll)
                curve = accuracy_rejection_curve(task.labels, p.mean(0) >= 0.5, total(p))
                found[f"{name}{'+scale' * scaled}"] = float(curve.weighted_average)
    return [found]


def tables(rows: list[Row]) -> str:
    """AUROC by task, and W of the conversions."""

    def mean(field: str, chosen: Iterable[Row]) -> str:
        return f"{np.mean([row[field] for row in chosen]):.3f}"

    seeds = len({row["seed"] for row in rows})
    lines = []
    for name in CHOICES:
        own = [row for row in rows if row["likelihood"] == name]
        by_task = [mean("auroc", (row for row in own if row["task"] == task)) for task in TASKS]
        lines.append([f"`{name}`", *by_task, mean("auroc", own), f"{np.mean([row['fit_cpu'] for row in own]):.1f}"])
    first = markdown(["AUROC", *TASKS, "mean", "CPU s"], lines)
    plain = [row for row in rows if row["likelihood"] == "gaussian"]
    second = markdown(
        ["W", "unscaled", "scaled"],
        ([f"`{name}`", mean(name, plain), mean(f"{name}+scale", plain)] for name in CDF_CONVERSIONS),
    )
    return f"Means of {seeds} seeds.\n\n{first}\n{second}"


if __name__ == "__main__":
    main()
