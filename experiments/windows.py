"""Windows of real recordings: the default, its views one by one, other posteriors, and plain peers on spectra.

INDUBIO_DATA=<folder> python -m experiments.windows [processes]      fills what is missing; table of docs/windows.md

`window_sets.py` has how each recording was cut and split. All settings are the defaults, seed 0. AUROC of the mean
score; kNN (k = 5) and LOF have z-scores of levels and spectrum. Trained networks were run on the first recordings only.
"""

import os
import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

from experiments.results_file import Results, Row, markdown, put_into
from experiments.window_sets import SETS
from indubio import AnchoredEnsemble, Detector, NormalWishart, Prototypes
from indubio.prepare import Spectra

SPECTRUM = Spectra(statistics=False, patterns=0)  # levels and spectrum
Fit = Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]]  # windows -> scores of windows, high for anomalous


def own(**settings: object) -> Fit:
    """A `Detector` with these settings."""
    return lambda good: _mean_score(Detector(**settings).fit(good))  # type: ignore[arg-type]


def _mean_score(detector: Detector) -> Callable[[np.ndarray], np.ndarray]:
    return lambda windows: detector.assess(windows).nll


def on_spectra(peer: Fit) -> Fit:
    """A peer on z-scores of levels and spectrum."""

    def fit(good: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        spectra = SPECTRUM.fit(good)
        features = spectra.features(good)
        middle, spread = features.mean(axis=0), features.std(axis=0)
        spread[spread < 1e-12] = 1.0
        scores = peer((features - middle) / spread)
        return lambda windows: scores((spectra.features(windows) - middle) / spread)

    return fit


def one_view(name: str) -> Fit:
    """The Gaussian of one view alone."""

    def fit(good: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        spectra = Spectra().fit(good)
        start = 0
        for view, count in spectra.views.items():
            if view == name:
                break
            start += count
        else:
            raise ValueError(f"windows of {good.shape[1]} samples have no view {name}.")
        columns = np.arange(spectra.count).reshape(spectra.sensors, -1)[:, start : start + count].ravel()
        detector = Detector(posterior=NormalWishart()).fit(spectra.features(good)[:, columns])
        return lambda windows: detector.assess(spectra.features(windows)[:, columns]).nll

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
    "spectra, Dense": own(posterior=AnchoredEnsemble(), spectra=SPECTRUM),
    "spectra, Prototypes": own(posterior=Prototypes()),
    "spectra, kNN": on_spectra(nearest),
    "spectra, LOF": on_spectra(outlier_factor),
    "levels": one_view("levels"),
    "spectrum": one_view("spectrum"),
    "statistics": one_view("statistics"),
    "shape": one_view("shape"),
    "default": own(),
}
TRAINED = ("raw windows, Conv1d", "spectra, Dense")
FIRST = ("cwru", *(f"skab {number}" for number in range(8)), *(name for name in SETS if name.startswith("zema ")))


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


def main() -> None:
    """Fill what is missing, and write the tables."""
    os.nice(10)
    results = Results("windows", ("set", "detector"))
    cells = [
        {"set": name, "detector": detector}
        for detector in reversed(DETECTORS)
        for name in (FIRST if detector in TRAINED else SETS)
    ]
    results.fill(cells, run, int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    rows = {(row["test"], row["detector"]): row for row in results.rows()}
    tests = list(dict.fromkeys(test for test, _ in rows))
    table = [[test, *(_number(rows.get((test, name))) for name in DETECTORS)] for test in sorted(tests)]
    groups = list(dict.fromkeys(map(_group, sorted(tests))))
    for group in groups:
        own_tests = [test for test in tests if _group(test) == group]
        table.append([f"**{group}, mean**", *(_mean(rows, own_tests, name, "auroc") for name in DETECTORS)])
        table.append([f"{group}, CPU s of a fit", *(_mean(rows, own_tests, name, "fit_cpu") for name in DETECTORS)])
    table.append(["**mean of the groups**", *(_mean_of_groups(rows, tests, groups, name) for name in DETECTORS)])
    put_into("windows.md", markdown(["AUROC of windows", *DETECTORS], table))


def _group(test: str) -> str:
    return test.rpartition(" ")[0] or test


def _mean_of_groups(rows: dict[tuple[str, str], Row], tests: list[str], groups: list[str], name: str) -> str:
    """Where the detector was run on all."""
    each = [[rows.get((test, name)) for test in tests if _group(test) == group] for group in groups]
    known = [[row["auroc"] for row in one if row is not None] for one in each]
    return f"{np.mean([np.mean(one) for one in known]):.3f}" if all(known) else "-"


def _number(row: Row | None) -> str:
    return "-" if row is None else f"{row['auroc']:.3f}"


def _mean(rows: dict[tuple[str, str], Row], tests: list[str], name: str, of: str) -> str:
    found = [rows[test, name][of] for test in tests if (test, name) in rows]
    return f"{np.mean(found):.3f}" if of == "auroc" and found else f"{np.mean(found):.1f}" if found else "-"


if __name__ == "__main__":
    main()
