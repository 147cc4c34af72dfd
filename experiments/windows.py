"""Windows of real recordings: the default, trained networks with and without spectra, and plain peers on spectra.

INDUBIO_DATA=<folder> python -m experiments.windows [processes]      fills what is missing; table of docs/windows.md

    cwru    bearing vibrations, drive end and fan end. The healthy run (97) is recorded at 48 kHz and the fault runs at
            12 kHz: taken for 12 kHz, its lines lie at 1.35, 1.60 and 3.01 shaft orders, a quarter of theirs (5.40, 6.40
            and 12.03). So it is brought down to 12 kHz first (FIR filter). The first 60 % of it train, the rest is the
            good part of every test. Windows of 1024 samples.
    skab    valve1, 8 sensors at 1 Hz, windows of 30 rows. `anomaly-free.csv` is from another day and another flow (122
            against 32), so that every window of valve1 is far from it: the first 400 rows of each file train instead,
            as the benchmark's authors do, and the others test. A window is anomalous if at least half of its rows are.
    zema    four components of a hydraulic rig, 60 samples of all 17 sensors; 70 % of the good cycles train.

All settings are the defaults, seed 0. AUROC of the mean score; kNN (k = 5) and LOF have z-scores of the same spectra.
"""

import csv
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.io import loadmat
from scipy.signal import decimate
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

from experiments.results_file import Results, Row, markdown, put_into
from indubio import AnchoredEnsemble, Detector
from indubio.inputs import Spectra
from indubio_lab.collections import zema
from indubio_lab.collections.zema import BEST, ZEMA_SENSORS

FAULTS = ("B-007-118_0", "B-021-222_0", "IR-007-105_0", "IR-021-209_0", "OR-007-@6-130@6_0", "OR-021-@6-234_0")
Fit = Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]]  # windows -> scores of windows, high for anomalous


def own(**settings: object) -> Fit:
    """A `Detector` with these settings."""
    return lambda good: _mean_score(Detector(**settings).fit(good))  # type: ignore[arg-type]


def _mean_score(detector: Detector) -> Callable[[np.ndarray], np.ndarray]:
    return lambda windows: detector.assess(windows).nll


def on_spectra(peer: Fit) -> Fit:
    """A peer on z-scores of the spectra."""

    def fit(good: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        spectra = Spectra().fit(good)
        features = spectra.features(good)
        middle, spread = features.mean(axis=0), features.std(axis=0)
        spread[spread < 1e-12] = 1.0
        scores = peer((features - middle) / spread)
        return lambda windows: scores((spectra.features(windows) - middle) / spread)

    return fit


def nearest(good: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Distance to the fifth neighbour."""
    neighbours = NearestNeighbors(n_neighbors=5).fit(good)
    return lambda rows: np.asarray(neighbours.kneighbors(rows)[0][:, -1])


def outlier_factor(good: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """LOF, with scikit-learn's defaults."""
    factor = LocalOutlierFactor(novelty=True).fit(good)
    return lambda rows: np.asarray(-factor.score_samples(rows))


DETECTORS: dict[str, Fit] = {  # one line more is one column more
    "raw windows, Conv1d": own(posterior=AnchoredEnsemble(), spectra=False),
    "spectra, Dense": own(posterior=AnchoredEnsemble(), spectra=Spectra()),
    "default": own(),
    "raw windows, Prototypes": own(spectra=False),
    "spectra, kNN": on_spectra(nearest),
    "spectra, LOF": on_spectra(outlier_factor),
}


def run(cell: Row) -> list[Row]:
    """One detector on one training set, and its tests."""
    train, tests = SETS[cell["set"]]()
    start = time.process_time()
    scores = DETECTORS[cell["detector"]](train)
    seconds = time.process_time() - start
    return [
        {"test": name, "auroc": float(roc_auc_score(labels, scores(windows))), "fit_cpu": seconds}
        for name, windows, labels in tests()
    ]


Tests = Callable[[], Iterator[tuple[str, np.ndarray, np.ndarray]]]


def _folder() -> Path:
    return Path(os.environ["INDUBIO_DATA"])


def _cut(samples: np.ndarray, length: int, step: int) -> np.ndarray:
    return np.ascontiguousarray(sliding_window_view(samples, length, axis=0)[::step].transpose(0, 2, 1))


@cache
def _vibrations(name: str) -> np.ndarray:
    found = loadmat(_folder() / "cwru" / f"{name}.mat")
    ends = [next(key for key in found if key.endswith(f"{end}_time")) for end in ("DE", "FE")]
    return np.stack([found[key].ravel() for key in ends], axis=1)


def cwru() -> tuple[np.ndarray, Tests]:
    """The healthy run in two parts, and six fault runs."""
    healthy = decimate(_vibrations("normal-97_Normal_0"), 4, ftype="fir", axis=0)
    cut = int(0.6 * len(healthy))
    good = _cut(healthy[cut:], 1024, 256)

    def tests() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        for name in FAULTS:
            bad = _cut(_vibrations(name), 1024, 1024)
            yield f"cwru {name[:6].strip('-')}", np.concatenate([good, bad]), np.repeat([0, 1], [len(good), len(bad)])

    return _cut(healthy[:cut], 1024, 256), tests


def skab(number: int) -> tuple[np.ndarray, Tests]:
    """One file of valve1."""
    with (_folder() / "skab" / "valve1" / f"{number}.csv").open() as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    sensors = [name for name in rows[0] if name not in ("datetime", "anomaly", "changepoint")]
    values = np.array([[float(row[name]) for name in sensors] for row in rows])
    labels = np.array([[float(row["anomaly"])] for row in rows])

    def tests() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        anomalous = _cut(labels[400:], 30, 2)[:, :, 0].mean(axis=1) >= 0.5
        yield f"skab valve1/{number}", _cut(values[400:], 30, 2), anomalous

    return _cut(values[:400], 30, 1), tests


def hydraulics(component: str) -> tuple[np.ndarray, Tests]:
    """One component of the hydraulic rig."""
    task = zema(component, sensors=tuple(ZEMA_SENSORS), folder=_folder())

    def tests() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        yield f"zema {component}", task.test, task.labels

    return task.train, tests


SETS: dict[str, Callable[[], tuple[np.ndarray, Tests]]] = {
    "cwru": cwru,
    **{f"skab {number}": (lambda number=number: skab(number)) for number in range(8)},
    **{f"zema {component}": (lambda component=component: hydraulics(component)) for component in BEST},
}


def main() -> None:
    """Fill what is missing, and write the tables."""
    os.nice(10)
    results = Results("windows", ("set", "detector"))
    cells = [{"set": name, "detector": detector} for detector in reversed(DETECTORS) for name in SETS]
    results.fill(cells, run, int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    rows = {(row["test"], row["detector"]): row for row in results.rows()}
    tests = list(dict.fromkeys(test for test, _ in rows))
    table = [[test, *(_number(rows.get((test, name))) for name in DETECTORS)] for test in sorted(tests)]
    for group in ("cwru", "skab", "zema"):
        own_tests = [test for test in tests if test.startswith(group)]
        table.append([f"**{group}, mean**", *(_mean(rows, own_tests, name, "auroc") for name in DETECTORS)])
        table.append([f"{group}, CPU s of a fit", *(_mean(rows, own_tests, name, "fit_cpu") for name in DETECTORS)])
    put_into("windows.md", markdown(["AUROC of windows", *DETECTORS], table))


def _number(row: Row | None) -> str:
    return "-" if row is None else f"{row['auroc']:.3f}"


def _mean(rows: dict[tuple[str, str], Row], tests: list[str], name: str, of: str) -> str:
    found = [rows[test, name][of] for test in tests if (test, name) in rows]
    return f"{np.mean(found):.3f}" if of == "auroc" and found else f"{np.mean(found):.1f}" if found else "-"


if __name__ == "__main__":
    main()
