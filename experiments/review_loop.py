"""Reviews that come back: does it help to refer the most uncertain tenth, and more than a random tenth?

python -m experiments.review_loop [--seeds 3] [--tasks ...]        fills what is missing; docs/review-loop.md

A detector is trained on 30 % of the inliers. The others, with all anomalies among them, arrive in four batches. Of each
batch a tenth goes to a person, chosen by total uncertainty, or at random, or nothing does. Those that the person finds
to be good are added to the training data and the detector is updated, warm-started; then comes the next batch.
"""

import argparse
import os
from collections import defaultdict

import numpy as np

from experiments.results_file import Results, Row, markdown, put_into
from indubio import AnchoredEnsemble, Detector, Training
from indubio.calibration import CALIBRATIONS
from indubio.data.datasets import odds
from indubio.data.datasets.odds import ODDS
from indubio.evaluation import METRICS, Confusion, auroc

TRAIN_SHARE, BATCHES, REVIEWED = 0.3, 4, 0.1
WARM_EPOCHS = 20
USED = ("train", "cross")  # calibrations; the second is the default for tasks of this size
WAYS = ("uncertain", "random", "none")
MEASURES = ("gss", "auroc", "false_alarms", "missed")
SMALL_FIRST = ("lympho", "ionosphere", "pima", "vowels", "thyroid", "cardio", "pendigits", "optdigits")


def run(cell: Row) -> list[Row]:
    """One task and seed, all ways to choose, which share the first detector and the batches."""
    data = odds(cell["task"], train_share=TRAIN_SHARE, seed=cell["seed"])
    random = np.random.default_rng(cell["seed"])
    order = random.permutation(len(data.test))
    batches = np.array_split(order, BATCHES)
    first = Detector(
        posterior=AnchoredEnsemble(members=5),
        training=Training(epochs=60),
        calibration=CALIBRATIONS[cell["calibration"]](),
        seed=cell["seed"],
    ).fit(data.train)
    rows = []
    for way in WAYS:
        detector, known = first, data.train
        for number, batch in enumerate(batches):
            examples, labels = data.test[batch], data.labels[batch]
            found = detector.assess(examples)
            counts = Confusion.of(labels, found.prediction)
            rows.append(
                {
                    "way": way,
                    "batch": number,
                    "known": len(known),
                    "gss": METRICS["gss"](counts).item(),
                    "auroc": auroc(labels, found.nll),
                    "false_alarms": 1 - counts.specificity.item(),
                    "missed": 1 - counts.sensitivity.item(),
                    "reviewed_errors": 0.0,
                }
            )
            if way == "none" or number == BATCHES - 1:
                continue
            count = round(REVIEWED * len(batch))
            ranked = np.argsort(-found.total, kind="stable") if way == "uncertain" else random.permutation(len(batch))
            reviewed = ranked[:count]
            rows[-1]["reviewed_errors"] = float(np.mean(found.prediction[reviewed] != labels[reviewed]))
            confirmed = examples[reviewed][labels[reviewed] == 0]
            if len(confirmed):
                epochs = WARM_EPOCHS if cell["calibration"] == "train" else None
                detector = detector.update(confirmed, training_data=known, epochs=epochs)
                known = np.concatenate([known, confirmed])
    return rows


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
    """What the results say, for the page."""
    found = means(rows)
    tasks = [task for task in SMALL_FIRST if (task, "none") in found]
    table, wins, pairs, better = [], 0, 0, 0
    for task in tasks:
        by = {way: found[task, way] for way in WAYS}
        gain = by["uncertain"]["gss"] - by["random"]["gss"]
        wins, pairs, better = wins + int((gain > 0).sum()), pairs + len(gain), better + (np.nanmean(gain) > 0)
        table.append(
            [
                f"{task} ({len(gain)})",
                *(f"{100 * np.nanmean(by[way]['gss']):.1f}" for way in ("none", "random", "uncertain")),
                f"{100 * np.nanmean(gain):+.1f}",
                *(f"{100 * np.nanmean(by[way]['false_alarms']):.1f}" for way in ("none", "random", "uncertain")),
                *(f"{100 * np.nanmean(by[way]['missed']):.1f}" for way in ("none", "random", "uncertain")),
                *(f"{100 * np.nanmean(by[way]['auroc']):.1f}" for way in ("none", "random", "uncertain")),
            ]
        )
    ways = ("none", "random", "uncertain")
    headers = ["task (seeds)", *(f"GSS {w}" for w in ways), "uncertain - random", *(f"false alarms {w}" for w in ways)]
    headers += [*(f"missed {w}" for w in ways), *(f"AUROC {w}" for w in ways)]
    overall = {
        way: {m: np.nanmean([np.nanmean(found[task, way][m]) for task in tasks]) for m in MEASURES} for way in ways
    }
    caught = {
        way: np.mean([row["reviewed_errors"] for row in rows if row["way"] == way and row["batch"] < BATCHES - 1])
        for way in ("random", "uncertain")
    }
    table.append(
        [
            "mean",
            *(f"{100 * overall[w]['gss']:.1f}" for w in ways),
            f"{100 * (overall['uncertain']['gss'] - overall['random']['gss']):+.1f}",
            *(f"{100 * overall[w][m]:.1f}" for m in ("false_alarms", "missed", "auroc") for w in ways),
        ]
    )
    return (
        f"{markdown(headers, table)}\n"
        f"Referring the most uncertain gives the next batches a higher GSS than referring at random on {better} of "
        f"{len(tasks)} tasks on average over\nthe seeds, and in {wins} of {pairs} single runs. Of what was sent to a "
        f"person, {100 * caught['uncertain']:.0f} % were wrong predictions\nwith the most uncertain, "
        f"{100 * caught['random']:.0f} % at random.\n"
    )


def main() -> None:
    """Fill what is missing, and write the page."""
    options = argparse.ArgumentParser(prog="python -m experiments.review_loop")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--tasks", nargs="*", default=list(SMALL_FIRST), choices=ODDS.tasks)
    chosen = options.parse_args()
    os.nice(10)
    results = Results("review_loop", ("task", "seed", "calibration"))
    cells = [
        {"task": task, "seed": seed, "calibration": calibration}
        for seed in range(chosen.seeds)
        for task in chosen.tasks
        for calibration in USED
    ]
    results.fill(cells, run)
    rows = results.rows()
    parts = {name: [row for row in rows if row["calibration"] == name] for name in USED}
    made = [f"### Calibration: {name}\n\n{page(some)}" for name, some in parts.items() if some]
    put_into("review-loop.md", "\n".join(made))


if __name__ == "__main__":
    main()
