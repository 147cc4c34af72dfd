"""The runs of a recording, as rows of a report."""

import numpy as np

from indubio.chain import assess_runs, knows_runs
from indubio.report.subject import Subject
from indubio.report.words import number, percent

RUNS_LISTED = 20


def run_rows(subject: Subject) -> list[tuple[str, ...]]:
    """Name, verdict, windows, anomalies among them, probability and p-value, the highest scores first.

    None for examples that are no windows of several runs.
    """
    if not knows_runs(subject.found):
        return []
    runs = assess_runs(subject.found)
    if len(runs) < 2:
        return []
    order = np.argsort(-runs.nll, kind="stable")[:RUNS_LISTED].tolist()
    return [
        (
            str(runs.run[place]),
            str(runs.verdict[place]),
            str(runs.windows[place]),
            str(runs.anomalies[place]),
            percent(float(runs.probability[place])),
            "-" if np.isnan(runs.p_value[place]) else number(float(runs.p_value[place])),
        )
        for place in order
    ]
