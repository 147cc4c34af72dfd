"""Reviews that come back: does it help to refer the most uncertain tenth, and more than a random tenth?

python -m experiments.review_loop [--seeds 6] [--tasks ...]        fills what is missing; docs/review-loop.md

A detector is trained on 30 % of the inliers. The others, with all anomalies among them, arrive in four batches. Of each
batch a tenth goes to a person, chosen by total uncertainty or at random; as a bound, all of it does, or nothing. The
answers come back in one of three ways, and the next batch tells what they bought:

    trains       what was confirmed to be good trains the next detector (`Detector.update`) and calibrates nothing
    calibrates   it also joins the rows that the next detector is calibrated on: fitted anew on all, the naive way
    threshold    no training; the probability from which on an example is an anomaly becomes the one with the best GSS
                 so far, where what no person has seen is taken for what the detector took it for
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy.stats import ttest_1samp, wilcoxon

from experiments.results_file import Results, Row, markdown, put_into
from indubio import AnchoredEnsemble, Detector, Ecdf, Training
from indubio.collections import Task, odds
from indubio.collections.odds import ODDS
from indubio.evaluation import METRICS, Confusion, auroc

TRAIN_SHARE, BATCHES, REVIEWED = 0.3, 4, 0.1
STEPS, MOST_ROWS = 300, 256
FIRST_SEED = 10  # the ways were thought out on the seeds before
FEEDBACKS = ("trains", "calibrates", "threshold")
WAYS = ("none", "random", "uncertain", "all")
MEASURES = ("gss", "auroc", "false_alarms", "missed")
SMALL_FIRST = ("lympho", "ionosphere", "pima", "vowels", "thyroid", "cardio", "pendigits")
THRESHOLDS = np.linspace(0.01, 1, 100)


def run(cell: Row) -> list[Row]:
    """One task and seed: all feedbacks and ways to choose share the first detector and the batches."""
    data = odds(cell["task"], train_share=TRAIN_SHARE, seed=cell["seed"])
    batches = np.array_split(np.random.default_rng(cell["seed"]).permutation(len(data.test)), BATCHES)
    steps = max(3, -(-len(data.train) // MOST_ROWS))
    training = Training(epochs=round(STEPS / steps), batches=steps, learning_rate=0.005)
    first = Detector(
        posterior=AnchoredEnsemble(members=5), conversion=Ecdf(), training=training, seed=cell["seed"]
    ).fit(data.train)
    return [
        {"feedback": feedback, "way": way} | row
        for feedback in FEEDBACKS
        for way in WAYS
        for row in one_way(data, batches, first, feedback, way)
    ]


def one_way(data: Task, batches: Sequence[np.ndarray], first: Detector, feedback: str, way: str) -> list[Row]:
    """All batches, one after the other: assess, review, learn."""
    random = np.random.default_rng(len(data.test))
    detector, threshold, rows = first, first.anomaly_threshold, []
    reviewed = np.empty(0, dtype=int)
    for number, batch in enumerate(batches):
        found, labels = detector.assess(data.test[batch]), data.labels[batch]
        prediction = found.probability >= threshold
        counts = Confusion.of(labels, prediction)
        chosen = {
            "none": np.empty(0, dtype=int),
            "random": random.permutation(len(batch)),
            "uncertain": np.argsort(-found.total, kind="stable"),
            "all": np.arange(len(batch)),
        }[way][: len(batch) if way == "all" else round(REVIEWED * len(batch))]
        rows.append(
            {
                "batch": number,
                "gss": METRICS["gss"](counts).item(),
                "auroc": auroc(labels, found.nll),
                "false_alarms": 1 - counts.specificity.item(),
                "missed": 1 - counts.sensitivity.item(),
                "reviewed": len(chosen),
                "reviewed_anomalies": int(labels[chosen].sum()),
                "reviewed_errors": int((prediction != labels)[chosen].sum()),
                "errors": int((prediction != labels).sum()),
            }
        )
        reviewed = np.concatenate([reviewed, batch[chosen]])
        if way == "none" or number == BATCHES - 1:
            continue
        if feedback == "threshold":
            seen = np.concatenate(batches[: number + 1])
            threshold = best_threshold(detector.assess(data.test[seen]).probability, seen, reviewed, data, threshold)
        else:
            detector = learned(first, data, data.test[reviewed][data.labels[reviewed] == 0], feedback)
    return rows


def learned(first: Detector, data: Task, confirmed: np.ndarray, feedback: str) -> Detector:
    """The next detector."""
    if not len(confirmed):
        return first
    if feedback == "trains":
        return first.update(confirmed, training_data=data.train)
    return Detector(**first.get_params(deep=False)).fit(np.concatenate([data.train, confirmed]))


def best_threshold(p: np.ndarray, seen: np.ndarray, reviewed: np.ndarray, data: Task, threshold: float) -> float:
    """The best GSS over what was seen; where several thresholds have it, the one nearest to the one there is."""
    taken_for = np.where(np.isin(seen, reviewed), data.labels[seen], p >= threshold)
    if taken_for.min() == taken_for.max():
        return threshold
    gss = np.array([METRICS["gss"](Confusion.of(taken_for, p >= t)).item() for t in THRESHOLDS])
    best = THRESHOLDS[gss >= gss.max() - 1e-12]
    return float(best[np.argmin(np.abs(best - threshold))])


def means(rows: list[Row]) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """By task and way: each measure of the batches after the first, averaged over them; one value per seed."""
    found: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["batch"]:
            found[row["task"], row["way"], row["seed"]].append(row)
    made: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (task, way, _), batches in sorted(found.items()):
        for name in MEASURES:
            known = [batch[name] for batch in batches if batch[name] is not None]
            made[task, way][name].append(float(np.mean(known)) if known else np.nan)
    return {key: {name: np.array(values) for name, values in each.items()} for key, each in made.items()}


def page(rows: list[Row]) -> str:
    """The table of one feedback, and what a test over the tasks says."""
    found = means(rows)
    tasks = [task for task in SMALL_FIRST if (task, "none") in found]
    table, gains, runs = [], [], []
    for task in tasks:
        by = {way: found[task, way] for way in WAYS}
        gain = by["uncertain"]["gss"] - by["random"]["gss"]
        gains.append(np.nanmean(gain))
        runs.append(gain)
        p = ttest_1samp(gain, 0).pvalue if np.ptp(gain) > 0 else np.nan
        table.append(
            [
                f"{task} ({len(gain)})",
                *(f"{100 * np.nanmean(by[way]['gss']):.1f}" for way in WAYS),
                f"{100 * np.nanmean(gain):+.1f} (p = {p:.2f})",
                *(_triple([by[way][name] for way in WAYS[:3]]) for name in MEASURES[1:]),
            ]
        )
    overall = {way: {m: np.array([np.nanmean(found[t, way][m]) for t in tasks]) for m in MEASURES} for way in WAYS}
    table.append(
        [
            "mean",
            *(f"{100 * overall[way]['gss'].mean():.1f}" for way in WAYS),
            f"{100 * np.mean(gains):+.1f}",
            *(_triple([overall[way][name] for way in WAYS[:3]]) for name in MEASURES[1:]),
        ]
    )
    headers = ["task (seeds)", *(f"GSS, {way}" for way in WAYS), "uncertain - random"]
    headers += [f"{name.replace('_', ' ')}: none / random / uncertain" for name in ("AUROC", *MEASURES[2:])]
    every, better = np.concatenate(runs), sum(gain > 0 for gain in gains)
    return (
        f"{markdown(headers, table)}\n"
        f"Uncertain against random: better on {better} of {len(tasks)} tasks (Wilcoxon over the tasks: p = "
        f"{wilcoxon(gains).pvalue:.2f}), in {int((every > 0).sum())} of {len(every)} single runs, worse in "
        f"{int((every < 0).sum())}.\n"
    )


def at_once(rows: list[Row]) -> str:
    """What the reviews themselves find, before anything is learned."""
    first = [row for row in rows if row["feedback"] == "trains" and row["way"] in ("random", "uncertain")]
    table = []
    for way in ("random", "uncertain"):
        some = [row for row in first if row["way"] == way]
        of = {
            name: sum(row[name] for row in some)
            for name in ("reviewed", "reviewed_anomalies", "reviewed_errors", "errors")
        }
        table.append(
            [
                way,
                f"{100 * of['reviewed_errors'] / of['reviewed']:.0f} %",
                f"{100 * of['reviewed_anomalies'] / of['reviewed']:.0f} %",
                f"{100 * of['reviewed_errors'] / of['errors']:.0f} %",
            ]
        )
    headers = ["a tenth is reviewed", "wrong among them", "anomalies among them", "of all errors, put right"]
    return markdown(headers, table)


def _triple(values: Sequence[np.ndarray]) -> str:
    return " / ".join(f"{100 * np.nanmean(value):.1f}" for value in values)


def main() -> None:
    """Fill what is missing, and write the page."""
    options = argparse.ArgumentParser(prog="python -m experiments.review_loop")
    options.add_argument("--seeds", type=int, default=6)
    options.add_argument("--tasks", nargs="*", default=list(SMALL_FIRST), choices=ODDS.tasks)
    options.add_argument("--processes", type=int, default=1, help="of one thread each")
    chosen = options.parse_args()
    os.nice(10)
    results = Results("review_loop", ("task", "seed"))
    seeds = range(FIRST_SEED, FIRST_SEED + chosen.seeds)
    results.fill([{"task": task, "seed": seed} for seed in seeds for task in chosen.tasks], run, chosen.processes)
    rows = results.rows()
    made = [f"### Feedback: {name}\n\n{page([row for row in rows if row['feedback'] == name])}" for name in FEEDBACKS]
    put_into("review-loop.md", "\n".join([at_once(rows), *made]))


if __name__ == "__main__":
    main()
