"""Are the promises kept? Each of them through fitted detectors, on data of a known truth, over hundreds of fits.

    python -m experiments.promises [--processes 2]   fills what is missing; the tables of docs/promises.md
    python -m experiments.promises --tables          only writes the tables again

About 10 minutes of CPU. `experiments/simulations.py` says what is drawn, and what counts as kept.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import Any

from experiments import simulations
from experiments.results_file import Results, Row, markdown, put_into
from experiments.simulations import CALIBRATIONS, FAR, LEVELS, TRUTHS

SIZES = (20, 50, 200, 1000)
USUAL_RATE = 0.1
REPETITIONS = 300
OTHERS = {"ensemble": ("blob", "skewed", "at rest"), "isolation forest": ("blob",)}
RESULTS = Results("promises", ("cell",))


def cells() -> Iterator[Row]:
    """All that should be there in the end, the slow ones last."""
    yield from sorted(_cells(), key=lambda cell: (cell["n"], cell["detector"]))


def _cells() -> Iterator[Row]:
    for n in SIZES:
        for data in TRUTHS:
            for calibration in CALIBRATIONS:
                yield cell("good_rows", calibration, data, n, false_alarms=USUAL_RATE)
            for rate in LEVELS:
                if rate != USUAL_RATE and (n < SIZES[-1] or data == "blob"):
                    yield cell("good_rows", "CrossFit", data, n, false_alarms=rate)
    for detector, known in OTHERS.items():
        for data in known:
            for calibration in CALIBRATIONS:
                for n in (50, 200):
                    yield cell("good_rows", calibration, data, n, detector, false_alarms=USUAL_RATE)
    for data in ("blob", "skewed"):
        yield cell("discoveries", "CrossFit", data, 200)
        for calibration in CALIBRATIONS:
            yield cell("discoveries", calibration, data, 600)
        for taught in ("none", "others", "the same"):
            for labelled in (100, 300):
                yield cell("target_risk", "CrossFit", data, 200, taught=taught, labelled=labelled, alpha=0.1)
        for order in ("independent", "stations"):
            for n in (100, 500):
                yield cell("drift", "CrossFit", data, n, order=order, new=2000)
    yield cell("discoveries", "CrossFit", "blob", 200, "isolation forest")
    for n in (50, 500):
        for share in (0.15, 0.3):
            for rate in LEVELS:
                yield cell("resting", "CrossFit", "at rest", n, share=share, false_alarms=rate)


def cell(study: str, calibration: str, data: str, n: int, detector: str = "default", **more: float | str) -> Row:
    """One cell, with a name of its own."""
    which = {"study": study, "detector": detector, "calibration": calibration, "data": data, "n": n, **more}
    return {"cell": ", ".join(map(str, which.values())), **which}


def compute(cell: Row) -> list[Row]:
    """All rates of one cell."""
    rows: list[Row] = getattr(simulations, cell["study"])(cell, REPETITIONS)
    return rows


def told(row: Row) -> str:
    """A rate and its error in percent, what it should be where that is not the level itself, and where it is off."""
    off = "" if row["kept"] else " **above**" if row["rate"] > row["nominal"] else " below"
    wanted = "" if row["nominal"] == row["level"] else f" of {100 * row['nominal']:.2g}"
    return f"{100 * row['rate']:.2f} ± {100 * row['error']:.2f}{wanted}{off}"


def crossed(rows: Sequence[Row], down: Sequence[str], across: Sequence[str]) -> str:
    """A table of rates: what differs down the page, and from column to column."""
    entries = {(_values(row, down), _values(row, across)): told(row) for row in rows}
    columns = sorted({column for _, column in entries})
    table = [
        [*map(str, key), *(entries.get((key, column), "") for column in columns)]
        for key in sorted({key for key, _ in entries})
    ]
    return markdown([*down, *(", ".join(map(str, column)) for column in columns)], table)


def _values(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def page(rows: list[Row]) -> str:
    """All tables; p-values and budgets at one rate of false alarms, on which p-values do not depend."""
    by_rate = [row for row in rows if row["promise"] == "budget" and row["calibration"] == "CrossFit"]
    rates = ("verdict", "at rest")
    rows = [row for row in rows if row["promise"] in rates or row.get("false_alarms", USUAL_RATE) == USUAL_RATE]

    def table(promise: str, down: Sequence[str], across: Sequence[str], others: bool = False) -> str:
        found = [row for row in rows if row["promise"] == promise and (row["detector"] != "default") == others]
        return crossed(found, down, across)

    usual, other = (("calibration", "data", "level"), ("n",)), (("detector", "data", "level"), ("calibration", "n"))
    return "\n".join(
        [
            overview(rows),
            "### Good rows with a p-value of at most the level\n",
            table("p-value, near", *usual),
            table("p-value, near", *other, others=True),
            "### Good rows that are called anomalies, at the rate that was asked for\n",
            table("verdict", *usual),
            table("verdict", *other, others=True),
            "### Good rows that are referred, of a budget\n",
            table("budget", *usual),
            table("budget", *other, others=True),
            "The same of a blob, by the rate of false alarms that was asked for:\n",
            crossed([row for row in by_rate if row["data"] == "blob"], ("detector", "false_alarms", "level"), ("n",)),
            f"### False share of what is selected, a tenth being anomalies {FAR:g} standard deviations off\n",
            table("discoveries", *usual),
            table("discoveries", *other, others=True),
            "### Fits whose risk exceeds alpha = 0.1, by what was learned from labels before\n",
            table("risk", ("taught", "data", "level"), ("labelled",)),
            "### Streams of 2,000 unchanged rows in which drift is found\n",
            table("drift", ("order", "data", "level"), ("n",)),
            "### Fits that call a row of a machine at rest an anomaly\n",
            table("at rest", ("share", "level"), ("n",)),
        ]
    )


def overview(rows: list[Row]) -> str:
    """Each promise: how many rates were measured, and how many are off."""
    table = []
    for promise in dict.fromkeys(row["promise"] for row in rows):
        found = [row for row in rows if row["promise"] == promise and row.get("taught") != "the same"]
        above = [row for row in found if not row["kept"] and row["rate"] > row["nominal"]]
        below = [row for row in found if not row["kept"] and row["rate"] < row["nominal"]]
        worst = max(found, key=lambda row: row["rate"] - row["nominal"])
        said = f"{told(worst)} at {100 * worst['level']:g}: {worst['cell']}" if above else ""
        table.append([promise, str(len(found)), str(len(above)), str(len(below)), said])
    return markdown(["promise", "rates", "above", "below", "furthest above"], table)


def main() -> None:
    """Fill what is missing, and write the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--processes", type=int, default=1, help="of one thread each")
    options.add_argument("--tables", action="store_true", help="run nothing")
    given = options.parse_args()
    if not given.tables:
        os.nice(10)
        RESULTS.fill(cells(), compute, given.processes)
    put_into("promises.md", page(RESULTS.rows()))


if __name__ == "__main__":
    main()
