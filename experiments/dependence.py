"""Does the rate of false alarms hold on good examples that come later, where examples know each other?

    python -m experiments.dependence [--processes 2]   fills what is missing; the tables of docs/dependence.md
    python -m experiments.dependence --tables          only writes the tables again

About five minutes of CPU. Simulated: 1,000 training rows of six features, `SEEDS` times. Files: the good rows of a run
that came first train, those that came later are judged. Where a file knows no anomalies, later rows are made into some
by moving one feature by five standard deviations.
"""

import argparse
import csv
import gzip
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import lfilter
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from experiments.results_file import Results, Row, markdown, put_into
from experiments.window_sets import SETS
from indubio import CrossFit, Detector
from indubio.calibration import INDEPENDENT, Dependence, Plan
from indubio.calibration.calibration import Groups
from indubio.detector import EnsembleDetector
from indubio.errors import DataWarning

RESULTS = Results("dependence", ("data", "detector", "how", "seed"))
SEEDS, ROWS, LATER, FEATURES, FAR = 10, 1000, 2000, 6, 5.0
SIMULATED = ("independent", "AR(.9)", "AR(.99)", "batches of 20", "every row twice", "every row ten times")
FILES = (
    "SKAB, anomaly-free run",
    *(f"SKAB, valve1/{number}" for number in range(8)),
    "SKAB, 7 runs, then valve1/3",
    "SKAB, 7 runs, then valve1/7",
    "air quality, halves",
    "wind turbine, 10 weeks each",
    "C-MAPSS, rows of 60 engines, then 40",
)
WINDOWS = ("skab 0", "skab 3", "skab 6", "cmapss", "gearbox seen loads", "gearbox other loads", "cwru")
Set = tuple[np.ndarray, np.ndarray, np.ndarray]  # what trains, what is good later, anomalies


@dataclass(frozen=True, kw_only=True)
class AsBefore(CrossFit):
    """Folds that take no notice of how examples depend on each other."""

    def plan(
        self,
        examples: int,
        draws: int,
        seed: int,
        groups: Groups | None = None,
        dependence: Dependence = INDEPENDENT,
    ) -> Plan:
        """Of random rows, or of rows in order without a gap."""
        del dependence
        return super().plan(examples, draws, seed, groups)


def cells() -> Iterator[Row]:
    """All that should be there in the end."""
    for how in ("before", "after"):
        for data in SIMULATED:
            for seed in range(SEEDS):
                yield {"data": data, "detector": "default", "how": how, "seed": seed}
                yield {"data": data, "detector": "LOF", "how": how, "seed": seed}
        for data in (*FILES, *WINDOWS):
            yield {"data": data, "detector": "default", "how": how, "seed": 0}


def simulated(kind: str, seed: int) -> Set:
    """Rows of a known dependence; later ones go on where the first end, and copies are of the first alone."""
    random = np.random.default_rng(seed)
    mixing = random.normal(size=(FEATURES, FEATURES))
    count = ROWS + LATER
    hidden = random.normal(size=(count, FEATURES))
    if kind.startswith("AR"):
        memory = float(kind[3:-1])
        long = random.normal(size=(count + 2000, FEATURES))
        hidden = lfilter([np.sqrt(1 - memory**2)], [1, -memory], long, axis=0)[2000:]
    elif kind.startswith("batches"):
        hidden = np.repeat(hidden[: count // 20], 20, axis=0) + 0.05 * random.normal(size=(count, FEATURES))
    elif kind.startswith("every"):
        times = 2 if "twice" in kind else 10
        hidden = np.concatenate([np.repeat(hidden[: ROWS // times], times, axis=0), hidden[ROWS:]])
    train, later = hidden[:ROWS] @ mixing, hidden[ROWS:] @ mixing
    moved = hidden[ROWS:].copy()
    moved[np.arange(LATER), random.integers(FEATURES, size=LATER)] += random.choice([-FAR, FAR], LATER)
    return train, later, moved @ mixing


def _moved(later: np.ndarray, train: np.ndarray) -> np.ndarray:
    random = np.random.default_rng(0)
    moved, place = later.copy(), random.integers(later.shape[1], size=len(later))
    moved[np.arange(len(later)), place] += random.choice([-FAR, FAR], len(later)) * train.std(axis=0)[place]
    return moved


def _table(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with path.open() as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    sensors = [name for name in rows[0] if name not in ("datetime", "anomaly", "changepoint")]
    values = np.array([[float(row[name]) for name in sensors] for row in rows])
    return values, np.array([float(row.get("anomaly", 0)) > 0 for row in rows])


def from_file(name: str) -> Set:
    """What came first of a file, and what came later."""
    folder = Path(os.environ["INDUBIO_DATA"])
    if name.startswith("SKAB, anomaly"):
        values, _ = _table(folder / "skab" / "anomaly-free.csv")
        cut = int(0.7 * len(values))
        return values[:cut], values[cut:], _moved(values[cut:], values[:cut])
    if name.startswith("SKAB"):
        number = int(name[-1])
        runs = [_table(folder / "skab" / "valve1" / f"{one}.csv") for one in range(8)]
        values, bad = runs[number]
        if "runs" in name:
            others = [run[~labels] for place, (run, labels) in enumerate(runs) if place != number]
            return np.concatenate(others), values[~bad], values[bad]
        return values[:400], values[400:][~bad[400:]], values[400:][bad[400:]]
    if name.startswith("air"):
        lines = (folder / "plant" / "AirQuality.csv").read_text(encoding="latin-1").splitlines()[1:]
        cells = [line.split(";")[2:15] for line in lines if line.split(";")[0]]
        values = np.array([[float(cell.replace(",", ".")) for cell in row] for row in cells])
        values = np.delete(values, (0, 2, 5, 7), axis=1)  # the reference instruments, which mostly have no value
        values = values[(values > -199).all(axis=1)]
        cut = len(values) // 2
    elif name.startswith("wind"):
        lines = (folder / "plant" / "wind_turbine_T1.csv").read_text(encoding="latin-1").splitlines()[1:20001]
        values, cut = np.array([[float(line.split(",")[place]) for place in (1, 2, 4)] for line in lines]), 10000
    else:
        with gzip.open(folder / "cmapss" / "train_FD001.txt.gz", "rt") as file:
            table = np.array([[float(value) for value in line.split()] for line in file])
        engines = [table[table[:, 0] == unit][:, 5:] for unit in np.unique(table[:, 0])]
        halves = [engine[: len(engine) // 2] for engine in engines]
        return np.concatenate(halves[:60]), np.concatenate(halves[60:]), np.concatenate([e[-20:] for e in engines[60:]])
    return values[:cut], values[cut:], _moved(values[cut:], values[:cut])


def sets(name: str, seed: int) -> Set:
    """The examples of a cell."""
    if name in SIMULATED:
        return simulated(name, seed)
    if name in FILES:
        return from_file(name)
    train, tests = SETS[name]()
    pairs = list(tests())
    good = np.concatenate([values[labels == 0] for _, values, labels in pairs[:1]])
    return train, good, np.concatenate([values[labels == 1] for _, values, labels in pairs])


def compute(cell: Row) -> list[Row]:
    """The false alarms of one fit, what it said of stretches it had not seen, and what it finds."""
    train, later, bad = sets(cell["data"], cell["seed"])
    given: dict[str, Any] = {}
    if cell["how"] == "before":
        given["calibration"] = AsBefore(rows="in order" if train.ndim == 3 else "random")
    detector: Any = Detector(**given)
    if cell["detector"] == "LOF":
        detector = EnsembleDetector(LocalOutlierFactor(novelty=True), members=5, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        detector.fit(train)
    good, odd = detector.assess(later), detector.assess(bad)
    said = detector.unseen_alarms_ if cell["how"] == "after" else None
    labels = np.repeat([0, 1], [len(later), len(bad)])
    return [
        {
            "false_alarms": float(good.prediction.mean()),
            "found": float(odd.prediction.mean()),
            "auroc": float(roc_auc_score(labels, np.concatenate([good.nll, odd.nll]))),
            **(
                {}
                if said is None
                else {"said": float(said.mean()), "best": float(said.min()), "worst": float(said.max())}
            ),
        }
    ]


def tables() -> str:
    """The tables of docs/dependence.md."""
    rows, made = RESULTS.rows(), []
    for title, names, detector in (
        ("Simulated: the default", SIMULATED, "default"),
        ("Simulated: `EnsembleDetector` with LOF", SIMULATED, "LOF"),
        ("Rows of files", FILES, "default"),
        ("Windows", WINDOWS, "default"),
    ):
        lines = []
        for name in names:
            own = {
                how: [row for row in rows if (row["data"], row["detector"], row["how"]) == (name, detector, how)]
                for how in ("before", "after")
            }
            if all(own.values()):
                lines.append([name, *_told(own["before"]), *_told(own["after"]), _said(own["after"])])
        headers = ["", "before", "found", "AUROC", "after", "found", "AUROC", "it said"]
        made.append(f"### {title}\n{markdown(headers, lines)}")
    return "\n".join(made)


def _told(rows: list[Row]) -> list[str]:
    alarms, found, auroc = (np.array([row[name] for row in rows]) for name in ("false_alarms", "found", "auroc"))
    worst = f" ({100 * alarms.max():.0f})" if len(rows) > 1 else ""
    return [f"{100 * alarms.mean():.0f}{worst}", f"{100 * found.mean():.0f}", f"{auroc.mean():.3f}"]


def _said(rows: list[Row]) -> str:
    said = [row for row in rows if "said" in row]
    if not said:
        return ""
    mean, best, worst = (100 * float(np.mean([row[name] for row in said])) for name in ("said", "best", "worst"))
    return f"{mean:.0f} ({best:.0f} to {worst:.0f})"


def main() -> None:
    """Fill what is missing, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--tables", action="store_true")
    asked = parser.parse_args()
    if not asked.tables:
        RESULTS.fill(cells(), compute, asked.processes)
    put_into("dependence.md", tables())


if __name__ == "__main__":
    main()
