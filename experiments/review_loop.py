"""Reviews that come back: does it help to refer the most uncertain tenth, and more than a random tenth?

python -m experiments.review_loop [--seeds 10] [--tasks ...]       fills what is missing; docs/review-loop.md

The default is fitted on 30 % of the inliers. The others, with all anomalies among them, arrive in four batches. Of each
batch a tenth goes to a person: by the default rule, where the uncertainty of a probable inlier counts half ("alarms
first"), by total uncertainty alone ("uncertain", `inlier_weight=1`), or at random; as a bound, all of it does, or
nothing. The answers come back in one of three ways, and the next batch tells what they bought:

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
from scipy.stats import wilcoxon

from experiments.results_file import Results, Row, markdown, put_into
from indubio import Budget, Detector
from indubio.evaluation import METRICS, Confusion, auroc
from indubio_lab.collections import ODDS, Task, odds

TRAIN_SHARE, BATCHES, REVIEWED = 0.3, 4, 0.1
FIRST_SEED = 10  # the ways were thought out on the seeds before
FEEDBACKS = ("trains", "calibrates", "threshold")
WAYS = ("none", "random", "uncertain", "alarms first", "all")
CHOSEN = WAYS[1:4]
COMPARED = (("alarms first", "random"), ("uncertain", "random"), ("alarms first", "uncertain"))
MEASURES = ("gss", "auroc", "false_alarms", "missed")
SMALL_FIRST = ("lympho", "ionosphere", "pima", "vowels", "thyroid", "cardio", "pendigits", "optdigits")
THRESHOLDS = np.linspace(0.01, 1, 100)


def run(cell: Row) -> list[Row]:
    """One task and seed: all feedbacks and ways to choose share the first detector and the batches."""
    data = odds(cell["task"], train_share=TRAIN_SHARE, seed=cell["seed"])
    batches = np.array_split(np.random.default_rng(cell["seed"]).permutation(len(data.test)), BATCHES)
    first = Detector(seed=cell["seed"]).fit(data.train)
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
            "alarms first": np.argsort(-Budget().doubt(found.to_dict()), kind="stable"),
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
    """The table of one feedback, and what tests over the tasks say."""
    found = means(rows)
    tasks = [task for task in SMALL_FIRST if (task, "none") in found]
    overall = {way: {m: np.array([np.nanmean(found[t, way][m]) for t in tasks]) for m in MEASURES} for way in WAYS}
    table = [_line(f"{t} ({len(found[t, 'none']['gss'])})", {way: found[t, way] for way in WAYS}) for t in tasks]
    headers = ["task (seeds)", *(f"GSS, {way}" for way in WAYS)]
    headers += [f"{name.replace('_', ' ')}: {' / '.join(WAYS[:4])}" for name in ("AUROC", *MEASURES[2:])]
    compared = [_compared(one, other, found, tasks) for one, other in COMPARED]
    return f"{markdown(headers, [*table, _line('mean', overall)])}\n" + "\n".join(compared) + "\n"


def _line(name: str, by: dict[str, dict[str, np.ndarray]]) -> list[str]:
    values = [" / ".join(f"{100 * np.nanmean(by[way][m]):.1f}" for way in WAYS[:4]) for m in MEASURES[1:]]
    return [name, *(f"{100 * np.nanmean(by[way]['gss']):.1f}" for way in WAYS), *values]


def _compared(one: str, other: str, found: dict[tuple[str, str], dict[str, np.ndarray]], tasks: list[str]) -> str:
    gains = [found[task, one]["gss"] - found[task, other]["gss"] for task in tasks]
    by_task, runs = np.array([np.nanmean(gain) for gain in gains]), np.concatenate(gains)
    return (
        f"- {one} against {other}: {100 * by_task.mean():+.1f}, better on {int((by_task > 0).sum())} of {len(tasks)} "
        f"tasks (Wilcoxon over them: p = {wilcoxon(by_task).pvalue:.2f}), in {int((runs > 0).sum())} of {len(runs)} "
        f"single runs, worse in {int((runs < 0).sum())}."
    )


def at_once(rows: list[Row]) -> str:
    """What the reviews themselves find in the first batch, before anything is learned; means over the tasks."""
    first = [row for row in rows if row["feedback"] == "trains" and row["batch"] == 0]
    tasks = [task for task in SMALL_FIRST if any(row["task"] == task for row in first)]
    shares = {
        (task, way): _found([r for r in first if (r["task"], r["way"]) == (task, way)])
        for task in tasks
        for way in CHOSEN
    }
    table = [
        [way, *(f"{100 * np.mean([shares[task, way][place] for task in tasks]):.0f} %" for place in range(3))]
        for way in CHOSEN
    ]
    headers = ["a tenth is reviewed", "wrong among them", "anomalies among them", "of all errors, put right"]
    caught = {way: np.array([shares[task, way][2] for task in tasks]) for way in CHOSEN}
    more = caught["alarms first"] - caught["uncertain"]
    each = ", ".join(
        f"{t} {100 * caught['uncertain'][i]:.0f} and {100 * caught['alarms first'][i]:.0f}" for i, t in enumerate(tasks)
    )
    ahead, behind, p = int((more > 0).sum()), int((more < 0).sum()), wilcoxon(more).pvalue
    return (
        f"{markdown(headers, table)}\nOf all errors, by total uncertainty and alarms first, in %: {each}; alarms first "
        f"is ahead on {ahead} of {len(tasks)} tasks and behind on {behind} (Wilcoxon over them: p = {p:.3f}).\n"
    )


def _found(rows: list[Row]) -> tuple[float, float, float]:
    """Of one task, all seeds together: shares of the reviewed that are wrong, and anomalies, and of errors reviewed."""
    of = {n: sum(row[n] for row in rows) for n in ("reviewed", "reviewed_anomalies", "reviewed_errors", "errors")}
    wrong, bad = of["reviewed_errors"] / of["reviewed"], of["reviewed_anomalies"] / of["reviewed"]
    return wrong, bad, of["reviewed_errors"] / of["errors"]


def main() -> None:
    """Fill what is missing, and write the page."""
    options = argparse.ArgumentParser(prog="python -m experiments.review_loop")
    options.add_argument("--seeds", type=int, default=10)
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
