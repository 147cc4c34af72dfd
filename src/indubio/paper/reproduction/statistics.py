"""What is and is not significant: paired tests that the paper lacks.

Runs are paired by task and seed: both sides saw the same split. Two tests, because neither alone is honest:

- over all pairs (Wilcoxon signed rank): seeds of one task are not independent of each other, so its p is optimistic;
- over the tasks' means: independent, but with 8 tasks p is at least 0.008 and with 4 at least 0.125.

Within a table the p values of the first test are corrected for their number (Holm).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from indubio.evaluation import holm, signed_rank_p
from indubio.paper.reproduction import published as paper
from indubio.paper.reproduction.cell_store import Record
from indubio.paper.reproduction.cells import Cell
from indubio.paper.reproduction.choice import Choice, judged_as_chosen
from indubio.paper.reproduction.judgements import Judgement
from indubio.probability import Level

Pair = tuple[str, int]  # task and seed
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class RunComparison:
    """Whether one is better than the other.

    Args:
        better: what should be larger.
        other: what it is compared with.
        difference: mean difference of W, in points of percent.
        pairs: pairs of runs.
        p_pairs: of the test over all pairs, corrected by Holm.
        tasks_won: tasks in which the mean difference is positive.
        tasks: number of tasks.
        p_tasks: of the test over the tasks' means, not corrected.
    """

    better: str
    other: str
    difference: float
    pairs: int
    p_pairs: float
    tasks_won: int
    tasks: int
    p_tasks: float

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.p_pairs < SIGNIFICANT:
            return "not significant"
        direction = "better" if self.difference > 0 else "worse"
        return f"significantly {direction}" + ("" if self.p_tasks < SIGNIFICANT else " over runs, not over tasks")


def uncertainties_against_total(records: Iterable[Record], *, level: Level, choice: Choice) -> list[RunComparison]:
    """Total uncertainty against each other one: W^GSS averaged over the models that have both."""
    judged = [
        (cell, one)
        for cell, one in judged_as_chosen(records, level=level, choice=choice)
        if cell.model in paper.MODELS_OF_THE_PAPER
    ]
    others = ("epistemic", "aleatoric", "exceed", "var_nll")
    return _corrected([_against_total(judged, other) for other in others])


def _against_total(judged: Sequence[tuple[Cell, Judgement]], other: str) -> RunComparison:
    found = {name: _runs(judged, lambda one, name=name: one.uncertainty == name) for name in ("total", other)}  # type: ignore[misc]
    both = found["total"].keys() & found[other].keys()
    differences: dict[Pair, list[float]] = defaultdict(list)
    for task, seed, model in both:
        differences[task, seed].append(found["total"][task, seed, model] - found[other][task, seed, model])
    return _compared("total", other, {pair: float(np.mean(values)) for pair, values in differences.items()})


def models_against_deterministic(records: Iterable[Record], *, level: Level, choice: Choice) -> list[RunComparison]:
    """Every model against the deterministic autoencoder: W^GSS by total uncertainty."""
    judged = judged_as_chosen(records, level=level, choice=choice)
    runs = _runs(judged, lambda one: one.uncertainty == "total")
    baseline = paper.MODELS_OF_THE_PAPER[0]
    models = dict.fromkeys(cell.model for cell, _ in judged if cell.model != baseline)
    return _corrected([_against(runs, model, baseline) for model in models])


def _against(runs: Mapping[tuple[str, int, str], float], model: str, baseline: str) -> RunComparison:
    pairs = {(task, seed) for task, seed, name in runs if name == model and (task, seed, baseline) in runs}
    return _compared(model, baseline, {pair: runs[*pair, model] - runs[*pair, baseline] for pair in pairs})


def _runs(
    judged: Iterable[tuple[Cell, Judgement]], wanted: Callable[[Judgement], bool]
) -> dict[tuple[str, int, str], float]:
    return {
        (cell.task, cell.seed, cell.model): one.weighted_average
        for cell, one in judged
        if one.metric == "gss" and wanted(one) and np.isfinite(one.weighted_average)
    }


def _compared(better: str, other: str, differences: Mapping[Pair, float]) -> RunComparison:
    by_task: dict[str, list[float]] = defaultdict(list)
    for (task, _), difference in differences.items():
        by_task[task].append(difference)
    tasks = [float(np.mean(values)) for values in by_task.values()]
    return RunComparison(
        better,
        other,
        100 * float(np.mean([*differences.values()])) if differences else np.nan,
        len(differences),
        signed_rank_p([*differences.values()]),
        sum(mean > 0 for mean in tasks),
        len(tasks),
        signed_rank_p(tasks),
    )


def _corrected(comparisons: Sequence[RunComparison]) -> list[RunComparison]:
    corrected = holm([comparison.p_pairs for comparison in comparisons])
    return [replace(comparison, p_pairs=p) for comparison, p in zip(comparisons, corrected, strict=True)]
