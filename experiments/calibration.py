"""Does a nominal false-alarm rate hold, and what does it cost? Training, held-out and cross-fitted scores compared.

    python -m experiments.calibration [--processes 2]   run what is missing, seed by seed, then write the tables
    python -m experiments.calibration --tables          only write the tables of docs/calibration.md again

On the 8 ODDS and 4 ZeMA tasks, split as in the paper; BAE ensembles of 10, 300 steps of Adam at a fixed rate on a
third of the rows, at most 256. About 20 minutes of CPU. A run can be stopped and continued: all tasks of a seed come
before the next seed, and the tables say how many seeds each task has.
"""

import argparse
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from sklearn.metrics import roc_auc_score

from experiments.results_file import DOCS, Results, Row
from indubio import AnchoredEnsemble, Conv1d, Dense, Detector, Ecdf, Training, evaluate
from indubio.calibration import CALIBRATIONS
from indubio.collections import DATASETS, Task, odds, zema
from indubio.collections.zema import ZEMA_SENSOR_SETS

SEEDS = 10
STEPS, FEWEST_BATCHES, MOST_ROWS = 300, 3, 256
LEVELS = (0.01, 0.05, 0.1)
FDR = 0.1
PAGE = DOCS / "calibration.md"
BLOCK = re.compile(r"(<!-- made by `python -m experiments.calibration` -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
# The text's sensor does not see the fault of two tasks. What calibration does to GSS is seen with one that does, which
# was chosen on test labels; the means are of these twelve.
BLIND = [("zema", "valve"), ("zema", "pump")]
SEEING = [("zema fits", task) for _, task in BLIND]
TASKS = [(name, task) for name in ("odds", "zema") for task in DATASETS[name].tasks] + SEEING
RESULTS = Results("calibration", ("collection", "task", "seed", "calibration"))


def main() -> None:
    """Run the study, or write its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds 0 to this, exclusive")
    parser.add_argument("--processes", type=int, default=1, help="of one thread each")
    parser.add_argument("--tables", action="store_true", help="run nothing")
    given = parser.parse_args()
    if not given.tables:
        os.nice(10)
        cells = [
            {"collection": collection, "task": task, "seed": seed, "calibration": way}
            for seed in range(given.seeds)
            for collection, task in TASKS
            for way in CALIBRATIONS
        ]
        RESULTS.fill(cells, compute, given.processes)
    write_tables()


def compute(cell: Row) -> list[Row]:
    """One task and seed, calibrated in one way."""
    if cell["collection"] == "odds":
        return [run(odds(cell["task"], seed=cell["seed"]), cell["calibration"])]
    sensors = "fits" if cell["collection"] == "zema fits" else "text"
    return [run(zema(cell["task"], sensors=sensors, seed=cell["seed"]), cell["calibration"])]


def run(task: Task, way: str) -> Row:
    """Train on the task, calibrated in this way, and measure."""
    batches = max(FEWEST_BATCHES, -(-len(task.train) // MOST_ROWS))
    detector = Detector(
        posterior=AnchoredEnsemble(members=10),
        conversion=Ecdf(),
        architecture=Dense() if task.train.ndim == 2 else Conv1d(linear=(100,)),  # a tenth of the paper's, for time
        training=Training(epochs=round(STEPS / batches), batches=batches, learning_rate=0.005),
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
        **{f"alarms_{100 * level:g}": float((found.p_value[good] <= level).mean()) for level in LEVELS},
        "flagged": float(found.prediction[good].mean()),
        "referred": float((found.verdict[good] == "REFER").mean()),
        "selected": int(chosen.sum()),
        "false_share": float(chosen[good].sum() / max(1, chosen.sum())),
        "found_share": float(chosen[~good].mean()),
        "gss": float(measured.gss.base),
        "w": float(measured.gss.weighted_average),
        "gain": float(measured.gss.gain),
        "auroc": float(roc_auc_score(labels, found.nll)),
    }


def complete(rows: list[Row]) -> list[Row]:
    """The runs of those tasks and seeds that are there for every calibration."""
    ways = Counter((row["collection"], row["task"], row["seed"]) for row in rows)
    return [row for row in rows if ways[row["collection"], row["task"], row["seed"]] == len(CALIBRATIONS)]


def mean(rows: list[Row], name: str, **where: str) -> float:
    """Mean of one measure over the runs that match: of each task over its seeds, then over the tasks."""
    chosen = [row for row in rows if all(row[key] == value for key, value in where.items())]
    if "task" not in where:
        chosen = [row for row in chosen if (row["collection"], row["task"]) not in BLIND]
    tasks = {row["task"] for row in chosen}
    values = {task: [row[name] for row in chosen if row["task"] == task] for task in tasks}
    return float(np.mean([np.nanmean(np.array(each, dtype=float)) for each in values.values()]))


def tables(rows: list[Row]) -> str:
    """The tables of the page."""
    done = {row["task"] for row in rows}
    wanted = {task for _, task in TASKS}
    seeds = min(len(_seeds(rows, *which)) for which in TASKS)
    said = f"{len(done)} of {len(wanted)} tasks; {seeds} of {SEEDS} seeds are complete for all of them. All in %."
    return "\n".join([said, "", *_by_task(rows), "", *_overall(rows), ""])


def _seeds(rows: list[Row], collection: str, task: str) -> set[int]:
    return {row["seed"] for row in rows if (row["collection"], row["task"]) == (collection, task)}


def zema_sensor(collection: str, task: str) -> str:
    """The sensor of a task of ZeMA."""
    return ZEMA_SENSOR_SETS["fits" if collection == "zema fits" else "text"][task]


def _by_task(rows: list[Row]) -> Iterator[str]:
    yield "False alarms among good test examples at a nominal 1, 5 and 10 %, and W^GSS (Gain) by total uncertainty:\n"
    ways = list(CALIBRATIONS)
    yield "| task | rows | seeds | " + " | ".join(ways) + " | " + " | ".join(f"W, {way}" for way in ways) + " |"
    yield "|---|---|---|" + "---|" * (2 * len(ways))
    for collection, task in TASKS:
        of = {"collection": collection, "task": task}
        seeds = len(_seeds(rows, collection, task))
        if not seeds:
            continue
        alarms = [
            " / ".join(_percent(mean(rows, f"alarms_{100 * level:g}", calibration=way, **of)) for level in LEVELS)
            for way in ways
        ]
        gains = [_gain(rows, calibration=way, **of) for way in ways]
        sensor = f", {zema_sensor(collection, task)}" if (collection, task) in BLIND + SEEING else ""
        yield f"| {task}{sensor} | {mean(rows, 'rows', **of):.0f} | {seeds} | " + " | ".join(alarms + gains) + " |"
    means = [
        " / ".join(f"**{_percent(mean(rows, f'alarms_{100 * level:g}', calibration=way))}**" for level in LEVELS)
        for way in ways
    ]
    yield (
        "| mean of twelve | | | " + " | ".join(means + [f"**{_gain(rows, calibration=way)}**" for way in ways]) + " |"
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
    rows = complete(RESULTS.rows())
    text = PAGE.read_text()
    if not rows or not BLOCK.search(text):
        raise SystemExit(f"nothing is complete yet, or {PAGE} has no block for the tables")
    PAGE.write_text(BLOCK.sub(lambda match: match[1] + tables(rows) + match[3], text))


if __name__ == "__main__":
    main()
