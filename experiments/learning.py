"""Labels that come back: what is learned from the most uncertain tenth, and from a random tenth?

python -m experiments.learning [--seeds 10]        fills what is missing; docs/learning.md

The default is fitted on 30 % of a task's inliers. The others, with all anomalies among them, arrive in four batches. Of
each batch a tenth is labelled, and the detector learns from all labels so far (`Detector.learn`); the next batch tells
what they bought. No label of a batch is used before it is measured; all ways share the first detector and the batches.

    none, all       nothing is labelled, or everything: the bounds
    random          any tenth
    uncertain       that of the highest total uncertainty
    alarms first    what the default rule refers: the uncertainty of a probable inlier counts half
    mixed           half alarms first, half at random
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy.stats import binomtest, wilcoxon

from experiments.results_file import Results, Row, markdown, put_into
from indubio import Budget, Detector, evaluate
from indubio.chain import Assessment
from indubio.evaluation import auroc
from indubio_lab.collections import ODDS, Task, odds

TRAIN_SHARE, BATCHES, REVIEWED = 0.3, 4, 0.1
WAYS = ("none", "random", "uncertain", "alarms first", "mixed", "all")
COMPARED = [(way, other) for other in ("random", "none") for way in ("uncertain", "alarms first", "mixed")]
MEASURES = {"error": "wrong predictions", "gss": "GSS", "auroc": "AUROC of the probability", "w": "W^GSS"}
TIES_APART = 1e-9  # a probability has steps, and among equal ones the score decides


def run(cell: Row) -> list[Row]:
    """One task and seed, in every way."""
    data = odds(cell["task"], train_share=TRAIN_SHARE, seed=cell["seed"])
    batches = np.array_split(np.random.default_rng(cell["seed"]).permutation(len(data.test)), BATCHES)
    first = Detector(seed=cell["seed"]).fit(data.train)
    return [{"way": way} | row for way in WAYS for row in one_way(data, batches, first, way, cell["seed"])]


def one_way(data: Task, batches: Sequence[np.ndarray], first: Detector, way: str, seed: int) -> list[Row]:
    """All batches, one after the other: assess, label, learn."""
    random = np.random.default_rng([seed, 1])
    detector, rows, labelled = first, [], np.empty(0, dtype=int)
    for number, batch in enumerate(batches):
        found, labels = detector.assess(data.test[batch]), data.labels[batch]
        chosen = labelled_next(way, doubt(way, found), round(REVIEWED * len(batch)), random)
        row = {"batch": number, "labelled": len(chosen), "anomalies": int(labels[chosen].sum())}
        rows.append(row | measured(labels, found))
        labelled = np.concatenate([labelled, batch[chosen]])
        y = data.labels[labelled]
        if 0 < y.sum() < len(y):  # until both kinds are there, there is nothing to tell apart
            detector = first.learn(data.test[labelled], y, recent=data.test[np.concatenate(batches[: number + 1])])
    return rows


def doubt(way: str, found: Assessment) -> np.ndarray:
    """What decides who is asked about first."""
    return Budget(inlier_weight=1 if way == "uncertain" else Budget().inlier_weight).doubt(found.to_dict())


def labelled_next(way: str, doubt: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Places of the examples of a batch that people are asked about."""
    uncertain, any_order = np.argsort(-doubt, kind="stable"), random.permutation(len(doubt))
    first = {"random": 0, "mixed": count - count // 2}.get(way, count)
    others = any_order[~np.isin(any_order, uncertain[:first])]
    chosen = np.concatenate([uncertain[:first], others[: count - first]])
    return {"none": np.empty(0, dtype=int), "all": np.arange(len(doubt))}.get(way, chosen)


def measured(labels: np.ndarray, found: Assessment) -> Row:
    """What the detector makes of a batch; NaN for what needs both kinds, where there is only one."""
    row = {
        "error": float((found.prediction != labels).mean()),
        "referred": float((found.verdict == "REFER").mean()),
    }
    if labels.min() == labels.max():
        return row | {"gss": np.nan, "auroc": np.nan, "w": np.nan}
    curve = evaluate(labels, found.prediction, found.total).gss
    by_score = np.argsort(np.argsort(found.nll))
    return row | {
        "gss": float(curve.base),
        "w": float(curve.weighted_average),
        "auroc": auroc(labels, found.probability + TIES_APART * by_score),
    }


def means(rows: list[Row]) -> dict[tuple[str, str, str], np.ndarray]:
    """By task, way and measure: the mean over the batches after the first; one value per seed."""
    found: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["batch"]:
            found[row["task"], row["way"], row["seed"]].append(row)
    made: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for (task, way, _), batches in sorted(found.items()):
        for name in (*MEASURES, "referred"):
            known = [batch[name] for batch in batches if batch[name] is not None]
            made[task, way, name].append(float(np.mean(known)) if known else np.nan)
    return {key: np.array(values) for key, values in made.items()}


def page(rows: list[Row]) -> str:
    """A table of every measure, and what tests over the tasks and over the runs say."""
    found = means(rows)
    tasks = [task for task in ODDS.tasks if (task, "none", "error") in found]
    text = []
    for name, words in MEASURES.items():
        better = -1 if name == "error" else 1
        table = []
        for task in tasks:
            values = {way: found[task, way, name] for way in WAYS}
            gain = values["mixed"] - values["random"]
            ahead, behind = int((better * gain > 0).sum()), int((better * gain < 0).sum())
            cells = [f"{100 * np.nanmean(values[way]):.1f}" for way in WAYS]
            table.append([f"{task} ({len(gain)})", *cells, f"{100 * np.nanmean(gain):+.1f}", f"{ahead} : {behind}"])
        overall = {way: np.array([np.nanmean(found[task, way, name]) for task in tasks]) for way in WAYS}
        gain = overall["mixed"] - overall["random"]
        table.append(["mean", *(f"{100 * overall[way].mean():.1f}" for way in WAYS), f"{100 * gain.mean():+.1f}", ""])
        headers = ["task (seeds)", *WAYS, "mixed - random", "runs ahead : behind"]
        compared = [_compared(one, other, name, better, found, tasks) for one, other in COMPARED]
        text.append(f"### {words[0].upper()}{words[1:]}\n\n{markdown(headers, table)}\n" + "\n".join(compared) + "\n")
    referred = {way: 100 * np.mean([np.nanmean(found[task, way, "referred"]) for task in tasks]) for way in WAYS}
    shares = ", ".join(f"{way} {share:.1f} %" for way, share in referred.items())
    return "\n".join([*text, f"Referred, of a budget of 5 % of recent examples: {shares}.\n"])


def _compared(
    one: str, other: str, name: str, better: int, found: dict[tuple[str, str, str], np.ndarray], tasks: list[str]
) -> str:
    gains = [better * (found[task, one, name] - found[task, other, name]) for task in tasks]
    by_task, runs = np.array([np.nanmean(gain) for gain in gains]), np.concatenate(gains)
    ahead, behind = int((runs > 0).sum()), int((runs < 0).sum())
    return (
        f"- {one} against {other}: better on {int((by_task > 0).sum())} of {len(tasks)} tasks (Wilcoxon over them: "
        f"p = {wilcoxon(by_task).pvalue:.3f}); ahead in {ahead} runs, behind in {behind} (sign test: "
        f"p = {binomtest(ahead, ahead + behind).pvalue:.2g})."
    )


def main() -> None:
    """Fill what is missing, and write the page."""
    options = argparse.ArgumentParser(prog="python -m experiments.learning")
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--processes", type=int, default=1, help="of one thread each")
    chosen = options.parse_args()
    os.nice(10)
    results = Results("learning", ("task", "seed"))
    cells = [{"task": task, "seed": seed} for seed in range(chosen.seeds) for task in ODDS.tasks]
    results.fill(cells, run, chosen.processes)
    put_into("learning.md", page(results.rows()))


if __name__ == "__main__":
    main()
