"""Is disagreement, 1 - ESS / M, a good uncertainty? Beside total uncertainty and the variance of the scores.

python -m experiments.disagreement [--seeds 3]      fills what is missing, and prints a table

Posteriors with draws on tables of ODDS, 100 epochs, ECDF on training scores. W^GSS and Gain of rejecting by each
uncertainty (paper, accuracy-rejection curve); AUROC of the mean score, and of each uncertainty taken for a score, as
the authors of disagreement do. Disagreement at two temperatures: 1, the mean NLL as it is, which is that of unit noise,
and that of the data: twice the mean NLL of the training rows.
"""

import argparse
import os
import time
import warnings

import numpy as np

from experiments.results_file import Results, Row, markdown
from indubio import SGHMC, VAE, AnchoredEnsemble, Detector, Ecdf, Training, TrainScores
from indubio.errors import MixingWarning
from indubio.evaluation import accuracy_rejection_curve, auroc
from indubio_lab.collections import odds
from indubio_lab.posteriors import BayesianVAE, FunctionalPrior

TASKS = ("vowels", "cardio", "thyroid", "pima")
POSTERIORS = {
    "anchored ensemble": AnchoredEnsemble(),
    "VAE": VAE(),
    "SGHMC": SGHMC(),
    "Bayesian VAE": BayesianVAE(),
    "functional prior": FunctionalPrior(),
}
SHOWN = ("total", "var_nll", "disagreement", "disagreement, T of the data")


def run(cell: Row) -> list[Row]:
    """One posterior on one table."""
    warnings.simplefilter("ignore", MixingWarning)
    task, start = odds(cell["task"], seed=cell["seed"]), time.process_time()
    detector = Detector(
        posterior=POSTERIORS[cell["posterior"]],
        training=Training(epochs=100),
        conversion=Ecdf(),
        calibration=TrainScores(),
        seed=cell["seed"],
    ).fit(task.train)
    cpu, found, labels = time.process_time() - start, detector.assess(task.test), task.labels == 1
    own = 2 * float(detector.nll(task.train).mean())
    values = {
        "total": found.total,
        "var_nll": found.var_nll,
        "disagreement": detector.disagreement(task.test),
        "disagreement, T of the data": detector.disagreement(task.test, own),
    }
    curves = {name: accuracy_rejection_curve(labels, found.prediction, each) for name, each in values.items()}
    mixing = detector.draws_.mixing
    common = {
        "auroc": float(auroc(labels, found.nll)),
        "cpu": cpu,
        "r_hat": float("nan") if mixing is None else mixing.score_r_hat,
    }
    return [
        {
            "uncertainty": name,
            "w": curve.weighted_average,
            "gain": curve.gain,
            "as_score": float(auroc(labels, values[name])),
            **common,
        }
        for name, curve in curves.items()
    ]


def table(rows: list[Row]) -> str:
    """Means over tables and seeds, by posterior."""

    def mean(name: str, **cell: str) -> float:
        own = [row[name] for row in rows if all(row[key] == value for key, value in cell.items())]
        return float(np.nanmean([np.nan if value is None else value for value in own]))

    lines = [
        [
            posterior,
            f"{mean('auroc', posterior=posterior):.3f}",
            *(
                f"{mean('w', posterior=posterior, uncertainty=name):.3f} "
                f"({100 * mean('gain', posterior=posterior, uncertainty=name):+.1f}), "
                f"{mean('as_score', posterior=posterior, uncertainty=name):.3f}"
                for name in SHOWN
            ),
            f"{mean('cpu', posterior=posterior):.1f}",
        ]
        for posterior in POSTERIORS
    ]
    return markdown(["", "AUROC", *(f"{name}: W (Gain), AUROC" for name in SHOWN), "CPU s"], lines)


def main() -> None:
    """Fill what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    results = Results("disagreement", ("task", "posterior", "seed"))
    cells = [
        {"task": task, "posterior": posterior, "seed": seed}
        for seed in range(options.seeds)
        for task in TASKS
        for posterior in POSTERIORS
    ]
    results.fill(cells, run, options.processes)
    print(table(results.rows()))


if __name__ == "__main__":
    main()
