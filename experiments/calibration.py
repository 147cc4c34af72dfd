"""Does a nominal false-alarm rate hold, and what does it cost? Training, held-out and cross-fitted scores compared.

    python -m experiments.calibration            run what is missing, seed by seed, then write the tables
    python -m experiments.calibration --tables   only write the tables of docs/calibration.md again

On the 8 ODDS and 4 ZeMA tasks, split as in the paper; BAE ensembles of 10, 100 epochs at a fixed rate. A run can be
stopped and continued: all tasks of a seed come before the next seed, and the tables say how many seeds each task has.
"""

import argparse
import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from indubio import AnchoredEnsemble, Conv1d, Dense, Detector, Training, evaluate
from indubio.calibration import CALIBRATIONS
from indubio.data.datasets import DATASETS, Task, odds, zema

SEEDS = 10
LEVELS = (0.01, 0.05, 0.1)
FDR = 0.1
RESULTS = Path(__file__).parent / "results" / "calibration.csv"
PAGE = Path(__file__).parents[1] / "docs" / "calibration.md"
BLOCK = re.compile(r"(<!-- made by `python -m experiments.calibration` -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
SLOWEST = ("pendigits", "optdigits")  # come last within a seed
TASKS = sorted(
    ((name, task) for name in ("odds", "zema") for task in DATASETS[name].tasks), key=lambda t: t[1] in SLOWEST
)

Row = dict[str, str]


def main() -> None:
    """Run the study, or write its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds 0 to this, exclusive")
    parser.add_argument("--collection", choices=sorted({name for name, _ in TASKS}), help="run only this one's tasks")
    parser.add_argument("--tables", action="store_true", help="run nothing")
    given = parser.parse_args()
    if not given.tables:
        for row in missing_runs(given.seeds, given.collection):
            append(row)
            print(" ".join(f"{name}={value}" for name, value in row.items()), flush=True)
    if not given.collection:
        write_tables()


def missing_runs(seeds: int, only: str | None = None) -> Iterator[dict[str, object]]:
    """Every run that is not in the results yet, all tasks of a seed before the next seed."""
    done = {(row["collection"], row["task"], row["seed"], row["calibration"]) for row in read()}
    for seed in range(seeds):
        for collection, name in TASKS:
            ways = [way for way in CALIBRATIONS if (collection, name, str(seed), way) not in done]
            if ways and only in (None, collection):
                task = odds(name, seed=seed) if collection == "odds" else zema(name, seed=seed)
                for way in ways:
                    yield {"collection": collection, "task": name, "seed": seed, "calibration": way} | run(task, way)


def run(task: Task, way: str) -> dict[str, object]:
    """Train on the task, calibrated in this way, and measure."""
    tables = task.train.ndim == 2
    detector = Detector(
        posterior=AnchoredEnsemble(members=10),
        architecture=Dense() if tables else Conv1d(linear=(100,)),  # a tenth of the paper's, for time
        training=Training(epochs=100, batches=3 if tables else 5, learning_rate=0.005),
        calibration=CALIBRATIONS[way](),
        seed=task.split.seed,
    ).fit(task.train)
    # What the training scores would say as p-values, which the detector itself refuses to give.
    assert detector.reference_ is not None
    detector.reference_ = replace(detector.reference_, unseen=True)
    found = detector.assess(task.test)
    good, labels = task.labels == 0, task.labels
    chosen = found.selected(FDR)
    measured = evaluate(labels, found.prediction, found.total)
    return {
        "rows": len(task.train),
        "reference": detector.n_reference_,
        **{f"alarms_{100 * level:g}": round(float((found.p_value[good] <= level).mean()), 5) for level in LEVELS},
        "flagged": round(float(found.prediction[good].mean()), 5),
        "referred": round(float((found.verdict[good] == "REFER").mean()), 5),
        "selected": int(chosen.sum()),
        "false_share": round(float(chosen[good].sum() / max(1, chosen.sum())), 5),
        "found_share": round(float(chosen[~good].mean()), 5),
        "gss": round(float(measured.gss.base), 5),
        "w": round(float(measured.gss.weighted_average), 5),
        "gain": round(float(measured.gss.gain), 5),
        "auroc": round(float(roc_auc_score(labels, found.nll)), 5),
    }


def read() -> list[Row]:
    """The results so far."""
    if not RESULTS.exists():
        return []
    with RESULTS.open(newline="") as file:
        return list(csv.DictReader(file))


def append(row: dict[str, object]) -> None:
    """Add one run to the results."""
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)


def complete(rows: list[Row]) -> list[Row]:
    """The runs of those tasks and seeds that are there for every calibration."""
    ways = Counter((row["task"], row["seed"]) for row in rows)
    return [row for row in rows if ways[row["task"], row["seed"]] == len(CALIBRATIONS)]


def mean(rows: list[Row], name: str, **where: str) -> float:
    """Mean of one measure over the runs that match: of each task over its seeds, then over the tasks."""
    chosen = [row for row in rows if all(row[key] == value for key, value in where.items())]
    tasks = {row["task"] for row in chosen}
    return float(np.mean([np.nanmean([float(row[name]) for row in chosen if row["task"] == task]) for task in tasks]))


def tables(rows: list[Row]) -> str:
    """The tables of the page."""
    done = {row["task"] for row in rows}
    seeds = min(len({row["seed"] for row in rows if row["task"] == task}) for _, task in TASKS)
    said = f"{len(done)} of {len(TASKS)} tasks; {seeds} of {SEEDS} seeds are complete for all of them. All in %."
    return "\n".join([said, "", *_by_task(rows), "", *_overall(rows), ""])


def _by_task(rows: list[Row]) -> Iterator[str]:
    yield "False alarms among good test examples at a nominal 1, 5 and 10 %, and W^GSS (Gain) by total uncertainty:\n"
    ways = list(CALIBRATIONS)
    yield "| task | rows | seeds | " + " | ".join(ways) + " | " + " | ".join(f"W, {way}" for way in ways) + " |"
    yield "|---|---|---|" + "---|" * (2 * len(ways))
    for collection, task in TASKS:
        of = {"collection": collection, "task": task}
        seeds = len({row["seed"] for row in rows if row["task"] == task})
        if not seeds:
            continue
        alarms = [
            " / ".join(_percent(mean(rows, f"alarms_{100 * level:g}", calibration=way, **of)) for level in LEVELS)
            for way in ways
        ]
        gains = [_gain(rows, calibration=way, **of) for way in ways]
        yield f"| {task} | {mean(rows, 'rows', **of):.0f} | {seeds} | " + " | ".join(alarms + gains) + " |"
    means = [
        " / ".join(f"**{_percent(mean(rows, f'alarms_{100 * level:g}', calibration=way))}**" for level in LEVELS)
        for way in ways
    ]
    yield (
        "| mean of the tasks | | | "
        + " | ".join(means + [f"**{_gain(rows, calibration=way)}**" for way in ways])
        + " |"
    )


def _overall(rows: list[Row]) -> Iterator[str]:
    measures = {
        "good examples called anomalies (probability >= 0.5)": "flagged",
        "good examples referred, of a budget of 5": "referred",
        "false share of what is selected at a false-discovery rate of 10": "false_share",
        "anomalies selected at that rate": "found_share",
        "GSS, nothing rejected": "gss",
        "W^GSS by total uncertainty": "w",
        "Gain^GSS": "gain",
        "AUROC of the mean score": "auroc",
    }
    yield "Means over the tasks:\n"
    yield "| | " + " | ".join(CALIBRATIONS) + " |"
    yield "|---|" + "---|" * len(CALIBRATIONS)
    for words, name in measures.items():
        yield f"| {words} | " + " | ".join(_percent(mean(rows, name, calibration=way)) for way in CALIBRATIONS) + " |"


def _gain(rows: list[Row], **where: str) -> str:
    return f"{_percent(mean(rows, 'w', **where))} ({100 * mean(rows, 'gain', **where):+.1f})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def write_tables() -> None:
    """Put the tables into the page."""
    rows = complete(read())
    text = PAGE.read_text()
    if not rows or not BLOCK.search(text):
        raise SystemExit(f"nothing is complete yet, or {PAGE} has no block for the tables")
    PAGE.write_text(BLOCK.sub(lambda match: match[1] + tables(rows) + match[3], text))


if __name__ == "__main__":
    main()
