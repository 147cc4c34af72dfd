"""How soon drift is found, and how often it is found where there is none.

python -m experiments.drift_delay        fills what is missing; table of docs/drift.md

Five independent standard normal features; one of them changes after so many quiet examples. alpha = 0.05.
"""

import os
from collections.abc import Callable

import numpy as np

from experiments.results_file import Results, Row, markdown, put_into
from indubio.drift import DriftMonitor, DriftReference, DriftTest

FEATURES, AFTER, RUNS = 5, 2000, 20
CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda x: x,
    "mean + 0.5": lambda x: x + 0.5,
    "mean + 1": lambda x: x + 1,
    "mean + 3": lambda x: x + 3,
    "scale x 1.5": lambda x: 1.5 * x,
    "scale x 2": lambda x: 2 * x,
}


def run(cell: Row) -> list[Row]:
    """All changes for one size of the training data and one quiet time."""
    rows = []
    for name, change in CHANGES.items():
        found, delays = 0, []
        for seed in range(RUNS):
            random = np.random.default_rng(seed)
            reference = DriftReference.fit(random.normal(size=(cell["training"], FEATURES)), tuple("abcde"))
            new = random.normal(size=(cell["quiet"] + AFTER, FEATURES))
            new[cell["quiet"] :, 1] = change(new[cell["quiet"] :, 1])
            drift = DriftMonitor.fresh(reference, DriftTest(alpha=0.05)).updated(new, np.ones(len(new))).drift()
            found += drift.alarm
            delays += [one.since - cell["quiet"] for one in drift.changed[:1] if one.since is not None]
        rows.append(
            {"change": name, "found": found / RUNS, "delay": float(np.median(delays)) if delays else float("nan")}
        )
    return rows


def main() -> None:
    """Fill what is missing, and write the table."""
    os.nice(10)
    results = Results("drift_delay", ("training", "quiet"))
    results.fill([{"training": n, "quiet": quiet} for n in (50, 500, 5000) for quiet in (0, 1000)], run)
    rows = {(row["training"], row["quiet"], row["change"]): row for row in results.rows()}
    keys = [(n, quiet) for n in (50, 500, 5000) for quiet in (0, 1000)]
    table = []
    for change in CHANGES:
        cells = [rows[*key, change] for key in keys]
        told = [f"{100 * c['found']:.0f} %" + (f", {c['delay']:.0f}" if c["delay"] is not None else "") for c in cells]
        table.append([change, *told])
    headers = ["change of one feature", *(f"{n} rows" + (", after 1,000" if quiet else "") for n, quiet in keys)]
    put_into("drift.md", markdown(headers, table))


if __name__ == "__main__":
    main()
