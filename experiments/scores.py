"""Scores other than the NLL: which of them find anomalies, and what they cost.

    python -m experiments.scores [--seeds 5]      fills what is missing; the tables of docs/scores.md
    python -m experiments.scores --tables         only writes the tables again

nll         the negative log-likelihood, mean over the draws
epistemic   variance of the reconstruction over the draws, mean over the values
aleatoric   noise that the decoder expects, mean over values and draws; only where it is asked for it
waic        mean and variance of the NLL over the draws

On ODDS and ZeMA (the scripts' sensors), with the paper's settings as its text has them: BAE-Ensemble and BAE-MCD, each
with a noise of 1 and with one that the decoder gives for every value ("per example"). A network is trained once and
scores in every way.
"""

import argparse
import os
import time
from collections.abc import Iterable, Sequence

import numpy as np

from experiments.results_file import Results, Row, markdown, put_into
from indubio import Detector
from indubio.errors import TrainingError, data_warnings_told_otherwise
from indubio.evaluation import auroc
from indubio.judging import SCORES, mean_nll, scored_by
from indubio.networks import GaussianLikelihood
from indubio_lab.collections import DATASETS, Task, odds, zema
from indubio_lab.paper.presets import MODELS, preset

TASKS = tuple(f"{name}/{task}" for name in ("odds", "zema") for task in DATASETS[name].tasks)
POSTERIORS = ("BAE-Ensemble", "BAE-MCD")
NOISES = {"unit": ("nll", "epistemic", "waic"), "per_example": ("nll", *SCORES)}
TITLES = {"unit": "noise 1", "per_example": "noise per example"}
CLEAR = 1.0  # points of AUROC that count as better or worse


def task_of(name: str, seed: int) -> Task:
    """A task by name."""
    collection, task = name.split("/")
    return odds(task, seed=seed) if collection == "odds" else zema(task, sensors="authors", seed=seed)


def made(cell: Row) -> Detector:
    """An unfitted detector."""
    collection, task = cell["task"].split("/")
    likelihood = GaussianLikelihood(noise=cell["noise"])
    return preset(collection, task).set_params(
        posterior=MODELS[cell["posterior"]], likelihood=likelihood, seed=cell["seed"]
    )


def run(cell: Row) -> list[Row]:
    """All scores of one network; without numbers where it does not train."""
    data, start = task_of(cell["task"], cell["seed"]), time.process_time()
    try:
        with data_warnings_told_otherwise():
            detector = made(cell).fit(data.train)
    except TrainingError:
        return [{"score": name, "auroc": float("nan")} for name in NOISES[cell["noise"]]]
    fitted, rows = time.process_time() - start, []
    values = detector.fitted_chain.preparation.prepared(data.test).values
    for name in NOISES[cell["noise"]]:
        score, start = scored_by(name, detector.draws_, (detector.draws_.count,)), time.process_time()
        found = mean_nll(score.nll(values))
        spent = (time.process_time() - start) / len(values)
        rows.append({"score": name, "auroc": auroc(data.labels, found), "fit": fitted, "microseconds": 1e6 * spent})
    return rows


def chosen(rows: Iterable[Row], name: str, **fields: str) -> list[float]:
    """One number of the rows with these fields, where it is known."""
    return [
        row[name]
        for row in rows
        if row.get(name) is not None and all(row[field] == value for field, value in fields.items())
    ]


def ways() -> list[tuple[str, str]]:
    """Noise and score of every column."""
    return [(noise, score) for noise, scores in NOISES.items() for score in scores]


def table(rows: Sequence[Row], posterior: str) -> str:
    """AUROC of every task, and means over the tasks; the best of a line in bold."""
    known = {
        task: [
            100 * np.mean(found) if found else np.nan
            for noise, score in ways()
            for found in [chosen(rows, "auroc", task=task, posterior=posterior, noise=noise, score=score)]
        ]
        for task in TASKS
    }
    lines = [[task, *_told(values)] for task, values in known.items()]
    for collection in ("odds", "zema"):
        own = [values for task, values in known.items() if task.startswith(collection)]
        means = np.mean([values for values in own if not np.isnan(values).all()], axis=0)
        lines.append([f"**mean of {collection}**", *_told(means)])
    for word, sign in (("better", 1), ("worse", -1)):
        counts = []
        for place, (noise, score) in enumerate(ways()):
            usual = ways().index((noise, "nll"))
            off = [sign * (values[place] - values[usual]) for values in known.values()]
            counts.append("" if score == "nll" else str(sum(one > CLEAR for one in off)))
        lines.append([f"tasks {word} than nll by a point", *counts])
    headers = ["AUROC", *(f"{score}, {TITLES[noise]}" for noise, score in ways())]
    return f"### {posterior}\n\n{markdown(headers, lines)}"


def _told(values: Sequence[float]) -> list[str]:
    told = ["-" if np.isnan(value) else f"{value:.1f}" for value in values]
    best = max((float(one) for one in told if one != "-"), default=0)
    return [one if one == "-" or float(one) < best else f"**{one}**" for one in told]


def costs(rows: Sequence[Row]) -> str:
    """CPU of a fit, and of a row's score, as medians."""
    lines = []
    for collection in ("odds", "zema"):
        own = [row for row in rows if row["task"].startswith(collection)]
        for posterior in POSTERIORS:
            for noise, scores in NOISES.items():
                kind = {"posterior": posterior, "noise": noise}
                spent = [np.median(chosen(own, "microseconds", score=score, **kind)) for score in scores]
                told = dict(zip(scores, (f"{one:.0f}" for one in spent), strict=True))
                fit = np.median(chosen(own, "fit", **kind))
                cells = [told.get(score, "") for score in NOISES["per_example"]]
                lines.append([f"{collection}, {posterior}, {TITLES[noise]}", f"{fit:.1f}", *cells])
    headers = ["medians", "fit, s", *(f"{score}, µs a row" for score in NOISES["per_example"])]
    return f"### CPU\n\n{markdown(headers, lines)}"


def main() -> None:
    """Fill what is missing, and write the tables of the page."""
    options = argparse.ArgumentParser(prog="python -m experiments.scores")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    options.add_argument("--processes", type=int, default=1, help="of one thread each")
    options.add_argument("--tables", action="store_true", help="only write the tables of what is there")
    given = options.parse_args()
    os.nice(5)
    results = Results("scores", ("task", "posterior", "noise", "seed"))
    cells = [
        {"task": task, "posterior": posterior, "noise": noise, "seed": seed}
        for seed in range(given.seeds)
        for task in given.tasks
        for posterior in POSTERIORS
        for noise in NOISES
    ]
    results.fill([] if given.tables else cells, run, given.processes)
    rows = results.rows()
    seeds = {task: len({row["seed"] for row in rows if row["task"] == task}) for task in TASKS}
    failed = sum(row["auroc"] is None and row["score"] == "nll" for row in rows)
    said = "AUROC in percent, means over seeds: " + ", ".join(f"{task} {count}" for task, count in seeds.items())
    said += f". {failed} of {sum(row['score'] == 'nll' for row in rows)} networks did not train.\n"
    put_into("scores.md", "\n".join([said, *(table(rows, posterior) for posterior in POSTERIORS), costs(rows)]))


if __name__ == "__main__":
    main()
