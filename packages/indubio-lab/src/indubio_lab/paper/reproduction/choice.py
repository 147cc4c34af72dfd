"""Which conversion a number is made with: the best on the test labels, as in the paper, or one fixed beforehand.

The paper reports, for every task, model and uncertainty, the conversion with the best W, averaged over the seeds. That
choice looks at the test labels: it is an oracle, which nobody has in use.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from indubio.judging import Level
from indubio_lab.paper.reproduction.cell_store import Record
from indubio_lab.paper.reproduction.cells import Cell
from indubio_lab.paper.reproduction.judgements import OWN, Judgement, within

Choice = Literal["oracle", "fixed"]

Key = tuple[Cell, str, str]  # series of cells, uncertainty, metric


def fixed_conversion(level: Level) -> str:
    """ECDF with the customised scaling: what a user without labels takes."""
    return next(name for name in within(level) if name.startswith("ecdf+"))


def chosen_conversions(records: Iterable[Record], *, level: Level, choice: Choice) -> dict[Key, str]:
    """The conversion for every series of cells, uncertainty and metric.

    Args:
        records: cells that are done.
        level: the reading of the scaling; the oracle picks among its eight conversions.
        choice: "oracle" or "fixed".
    """
    weighted: dict[Key, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for one in record.judged:
            key = (record.cell.series, one.uncertainty, one.metric)
            weighted[key][one.conversion].append(one.weighted_average)
    among = within(level) if choice == "oracle" else [fixed_conversion(level)]
    return {key: OWN if OWN in of else _best({name: of[name] for name in among}) for key, of in weighted.items()}


def _best(weighted: Mapping[str, list[float]]) -> str:
    means = {name: _mean(values) for name, values in weighted.items()}
    return max(means, key=lambda name: means[name])


def _mean(values: list[float]) -> float:
    defined = [value for value in values if np.isfinite(value)]
    return sum(defined) / len(defined) if defined else -np.inf


def judged_as_chosen(records: Iterable[Record], *, level: Level, choice: Choice) -> list[tuple[Cell, Judgement]]:
    """For every cell, uncertainty and metric the one number that counts."""
    done = list(records)
    chosen = chosen_conversions(done, level=level, choice=choice)
    return [
        (record.cell, one)
        for record in done
        for one in record.judged
        if chosen[record.cell.series, one.uncertainty, one.metric] == one.conversion
    ]
