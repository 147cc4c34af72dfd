"""Does a nominal false-alarm rate hold, and what does it cost? Training, held-out and cross-fitted scores compared.

    python -m experiments.calibration [--processes 2]   run what is missing, seed by seed, then write the tables
    python -m experiments.calibration --tables          only write the tables of docs/calibration.md again

On the 8 ODDS and 4 ZeMA tasks, split as in the paper: the default, and beside it the paper's ensemble of 10 with the
ECDF, 300 steps of Adam at a fixed rate on a third of the rows, at most 256. The default takes two minutes of CPU, the
ensemble about 20. A run can be stopped and continued: all tasks of a seed come before the next seed, and the tables say
how many seeds there are.
"""

import argparse
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from sklearn.metrics import roc_auc_score

from experiments.results_file import DOCS, Results, Row, markdown
from indubio import AnchoredEnsemble, Conv1d, Dense, Detector, Ecdf, Training, evaluate
from indubio.calibration import CALIBRATIONS
from indubio.judging import select_anomalies
from indubio_lab.collections import DATASETS, ZEMA_SENSOR_SETS, Task, odds, zema

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
DETECTORS = {"default": SEEDS, "ensemble": 5}  # seeds at most
TITLES = {"default": "The default", "ensemble": "The paper's ensemble, with the ECDF"}
RATE = 0.1  # `false_alarms` of the default: the nominal rate of its verdict
FEW_ROWS, REPEATED, NEW = (10, 15, 19, 30), 60, 300
FEW = Results("few_rows", ("rows", "calibration"))
RESULTS = Results("calibration", ("detector", "collection", "task", "seed", "calibration"))


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
            {"detector": kind, "collection": collection, "task": task, "seed": seed, "calibration": way}
            for kind, most in DETECTORS.items()
            for seed in range(min(given.seeds, most))
            for collection, task in TASKS
            for way in CALIBRATIONS
        ]
        FEW.fill(
            [{"rows": rows, "calibration": way} for rows in FEW_ROWS for way in CALIBRATIONS], few, given.processes
        )
        RESULTS.fill(cells, compute, given.processes)
    write_tables()


def compute(cell: Row) -> list[Row]:
    """One task and seed, calibrated in one way."""
    if cell["collection"] == "odds":
        task = odds(cell["task"], seed=cell["seed"])
    else:
        task = zema(cell["task"], sensors="fits" if cell["collection"] == "zema fits" else "text", seed=cell["seed"])
    return [run(task, made(cell["detector"], task, cell["calibration"]))]


def made(kind: str, task: Task, way: str) -> Detector:
    """An unfitted detector for the task."""
    given = {"calibration": CALIBRATIONS[way](), "seed": task.split.seed}
    if kind == "default":
        return Detector(**given)
    batches = max(FEWEST_BATCHES, -(-len(task.train) // MOST_ROWS))
    return Detector(
        posterior=AnchoredEnsemble(members=10),
        conversion=Ecdf(),
        architecture=Dense() if task.train.ndim == 2 else Conv1d(linear=(100,)),  # a tenth of the paper's, for time
        training=Training(epochs=round(STEPS / batches), batches=batches, learning_rate=0.005),
        **given,
    )


def run(task: Task, detector: Detector) -> Row:
    """Fit on the task, and measure."""
    detector.fit(task.train)
    # What the training scores would say as p-values, which the detector itself refuses to give.
    chain = detector.fitted_chain
    assert chain.calibrated.reference is not None
    told = replace(chain.calibrated, reference=replace(chain.calibrated.reference, unseen=True))
    p_value = detector.of_chain(replace(chain, calibrated=told)).assess(task.test).p_value
    found = detector.assess(task.test)
    good, labels = task.labels == 0, task.labels
    chosen = select_anomalies(p_value, FDR, smallest_p=1 / (detector.n_reference_ + 1))
    measured = evaluate(labels, found.prediction, found.total)
    return {
        "rows": len(task.train),
        "good": int(good.sum()),
        "reference": detector.n_reference_,
        **{f"alarms_{100 * level:g}": float((p_value[good] <= level).mean()) for level in LEVELS},
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


def few(cell: Row) -> list[Row]:
    """Good rows of five independent normal features that the default calls anomalies, fitted on few of them."""
    flagged = []
    for seed in range(REPEATED):
        random = np.random.default_rng(seed)
        detector = Detector(calibration=CALIBRATIONS[cell["calibration"]](), seed=seed)
        detector.fit(random.normal(size=(cell["rows"], 5)))
        flagged.append(detector.assess(random.normal(size=(NEW, 5))).prediction.mean())
    return [{"flagged": float(np.mean(flagged))}]


def few_rows(rows: list[Row]) -> str:
    """The table of it."""
    by = {(row["rows"], row["calibration"]): _percent(row["flagged"]) for row in rows}
    lines = [[f"{count} rows", *(by[count, way] for way in CALIBRATIONS)] for count in FEW_ROWS]
    said = (
        f"Good examples that the verdict calls anomalies, of a nominal {100 * RATE:g} %, {REPEATED} repetitions, five "
        "independent normal features:"
    )
    return f"### The default, fitted on few rows\n\n{said}\n\n{markdown(['fitted on', *CALIBRATIONS], lines)}"


def complete(rows: list[Row], kind: str) -> list[Row]:
    """The runs of a detector, of those tasks and seeds that are there for every calibration."""
    own = [row for row in rows if row["detector"] == kind]
    ways = Counter((row["collection"], row["task"], row["seed"]) for row in own)
    return [row for row in own if ways[row["collection"], row["task"], row["seed"]] == len(CALIBRATIONS)]


def mean(rows: list[Row], name: str, **where: str) -> float:
    """Mean of one measure over the runs that match: of each task over its seeds, then over the tasks."""
    chosen = [row for row in rows if all(row[key] == value for key, value in where.items())]
    if "task" not in where:
        chosen = [row for row in chosen if (row["collection"], row["task"]) not in BLIND]
    tasks = {row["task"] for row in chosen}
    values = {task: [row[name] for row in chosen if row["task"] == task] for task in tasks}
    return float(np.mean([np.nanmean(np.array(each, dtype=float)) for each in values.values()]))


def noise(rows: list[Row], rate: float, **where: str) -> float:
    """Two standard errors of a rate of false alarms, were it the nominal one.

    Both the good examples of the test and those that they are compared with are a sample of the task, and every seed
    draws another: a (1 - a) (1 / tested + 1 / compared with) / seeds.
    """
    seeds = len(_seeds(rows, where["collection"], where["task"]))
    shares = 1 / mean(rows, "good", **where) + 1 / mean(rows, "reference", **where)
    return float(2 * np.sqrt(rate * (1 - rate) * shares / seeds))


def tables(rows: list[Row], kind: str) -> str:
    """The tables of a detector."""
    seeds = min(len(_seeds(rows, *which)) for which in TASKS)
    said = f"{seeds} of {DETECTORS[kind]} seeds are complete for all tasks. All in %."
    verdicts = [*_verdicts_by_task(rows), ""] if kind == "default" else []
    return "\n".join([f"### {TITLES[kind]}\n\n{said}\n", *verdicts, *_by_task(rows), "", *_overall(rows), ""])


def _seeds(rows: list[Row], collection: str, task: str) -> set[int]:
    return {row["seed"] for row in rows if (row["collection"], row["task"]) == (collection, task)}


def _named(collection: str, task: str) -> str:
    """The task, with its sensor where it has been looked at with two."""
    if (collection, task) not in BLIND + SEEING:
        return task
    return f"{task}, {ZEMA_SENSOR_SETS['fits' if collection == 'zema fits' else 'text'][task]}"


def _verdicts_by_task(rows: list[Row]) -> Iterator[str]:
    yield (
        f"Good test examples that the verdict calls anomalies, of a nominal {100 * RATE:g}; beside it two standard "
        "errors of a rate that holds; outside of it in bold:\n"
    )
    yield "| task | rows | " + " | ".join(f"{way} | +-" for way in CALIBRATIONS) + " |"
    yield "|---|---|" + "---|" * (2 * len(CALIBRATIONS))
    for collection, task in TASKS:
        of = {"collection": collection, "task": task}
        cells = []
        for way in CALIBRATIONS:
            rate, off = mean(rows, "flagged", calibration=way, **of), noise(rows, RATE, calibration=way, **of)
            cells += [_percent(rate) if abs(rate - RATE) <= off else f"**{_percent(rate)}**", _percent(off)]
        yield f"| {_named(collection, task)} | {mean(rows, 'rows', **of):.0f} | " + " | ".join(cells) + " |"
    means = [f"{_percent(mean(rows, 'flagged', calibration=way))} | " for way in CALIBRATIONS]
    yield "| mean of twelve | | " + " | ".join(means) + " |"


def _by_task(rows: list[Row]) -> Iterator[str]:
    yield (
        "Good test examples with a p-value of at most 1, 5 and 10 %, above the nominal rate by more than two standard "
        "errors in bold; and W^GSS (Gain) by total uncertainty:\n"
    )
    ways = list(CALIBRATIONS)
    yield "| task | " + " | ".join(ways) + " | " + " | ".join(f"W, {way}" for way in ways) + " |"
    yield "|---|" + "---|" * (2 * len(ways))
    for collection, task in TASKS:
        of = {"collection": collection, "task": task}
        alarms = [" / ".join(_alarms(rows, level, calibration=way, **of) for level in LEVELS) for way in ways]
        gains = [_gain(rows, calibration=way, **of) for way in ways]
        yield f"| {_named(collection, task)} | " + " | ".join(alarms + gains) + " |"
    means = [
        " / ".join(_percent(mean(rows, f"alarms_{100 * level:g}", calibration=way)) for level in LEVELS) for way in ways
    ]
    yield "| mean of twelve | " + " | ".join(means + [_gain(rows, calibration=way) for way in ways]) + " |"


def _alarms(rows: list[Row], level: float, **where: str) -> str:
    rate = mean(rows, f"alarms_{100 * level:g}", **where)
    return f"**{_percent(rate)}**" if rate > level + noise(rows, level, **where) else _percent(rate)


def _overall(rows: list[Row]) -> Iterator[str]:
    measures = {
        "good examples called anomalies": "flagged",
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
    rows, text = RESULTS.rows(), PAGE.read_text()
    parts = [tables(own, kind) for kind in DETECTORS if (own := complete(rows, kind))]
    if not parts or not BLOCK.search(text):
        raise SystemExit(f"nothing is complete yet, or {PAGE} has no block for the tables")
    parts.append(few_rows(FEW.rows()))
    PAGE.write_text(BLOCK.sub(lambda match: match[1] + "\n".join(parts) + match[3], text))


if __name__ == "__main__":
    main()
