"""The paper's claims in words, against our numbers: paired, so that like is compared with like, and with a test.

Runs are paired by model, task and seed: both sides saw the same split. The test (Wilcoxon signed rank over the pairs,
corrected by Holm within a table) is optimistic, since seeds of one task are not independent of each other; so it is
said in how many tasks the difference is positive.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from indubio.evaluation import holm, signed_rank_p
from indubio_lab.paper.reproduction import published as paper
from indubio_lab.paper.reproduction.result_tables import Mean, positive_runs
from indubio_lab.paper.reproduction.summary import CellSummary

BASELINE = "Deterministic AE"
OTHERS = ("epistemic", "aleatoric", "exceed", "var_nll")
EVERY_MODEL = ("aleatoric", "exceed")
WHERE = ", on the models that have both"
Runs = Mapping[tuple[str, int, str], float]  # W by task, seed and, where there are several, model


@dataclass(frozen=True)
class Claim:
    """One sentence and whether our numbers bear it out.

    Args:
        sentence: what the paper says.
        ours: the two numbers.
        holds: whether the first is the larger.
        p: of no difference, corrected; NaN where there is no test.
        tasks: "6 of 8", where the difference is positive.
    """

    sentence: str
    ours: str
    holds: bool
    p: float = np.nan
    tasks: str = "-"


def claims(summaries: Iterable[CellSummary]) -> list[Claim]:
    """What the paper says of uncertainties, models and the scaling, by W^GSS under the oracle's conversion."""
    done = [one for one in summaries if one.model in paper.MODELS_OF_THE_PAPER]
    return [*_total_is_best(done), *_better_than_deterministic(done), *_scaling_helps(done)]


def _total_is_best(done: Sequence[CellSummary]) -> list[Claim]:
    pairs = [
        (f"total is at least as good as {other}{'' if other in EVERY_MODEL else WHERE}", *_both(done, other))
        for other in OTHERS
        if any(("gss", other) in one.weighted for one in done)
    ]
    return _compared(pairs)


def _both(done: Sequence[CellSummary], other: str) -> tuple[Runs, Runs]:
    paired = [one for one in done if ("gss", other) in one.weighted]
    total, against = (
        {(one.task, one.seed, one.model): one.weighted["gss", name] for one in paired} for name in ("total", other)
    )
    return total, against


def _better_than_deterministic(done: Sequence[CellSummary]) -> list[Claim]:
    by_model: dict[str, dict[tuple[str, int, str], float]] = defaultdict(dict)
    for one in done:
        by_model[one.model][one.task, one.seed, ""] = one.weighted["gss", "total"]
    return _compared(
        [
            (f"{model} is better than the {BASELINE}", by_model[model], by_model[BASELINE])
            for model in paper.MODELS_OF_THE_PAPER[1:]
            if model in by_model and BASELINE in by_model
        ]
    )


def _compared(pairs: Sequence[tuple[str, Runs, Runs]]) -> list[Claim]:
    """The two sides of each claim, on the runs that both have."""
    found = [_comparison(sentence, first, second) for sentence, first, second in pairs]
    corrected = holm([claim.p for claim in found])
    return [replace(claim, p=p) for claim, p in zip(found, corrected, strict=True)]


def _comparison(sentence: str, first: Runs, second: Runs) -> Claim:
    shared = [run for run in first if np.isfinite([first[run], second.get(run, np.nan)]).all()]
    ours, others = (
        Mean.over(((task, model), seed, side[task, seed, model]) for task, seed, model in shared).value
        for side in (first, second)
    )
    differences = {run: first[run] - second[run] for run in shared}
    by_task: dict[str, list[float]] = defaultdict(list)
    for (task, *_), difference in differences.items():
        by_task[task].append(difference)
    won = sum(np.mean(of_task) > 0 for of_task in by_task.values())
    p = signed_rank_p([*differences.values()])
    said = f"{ours:.1f} against {others:.1f}"
    return Claim(sentence, said, ours >= others, p, f"{won} of {len(by_task)}")


def _scaling_helps(done: Sequence[CellSummary]) -> list[Claim]:
    runs = {one.conversion: one for one in positive_runs(done)}
    return [
        Claim(
            f"{name}: scaling raises the share of runs with Gain > 0",
            f"{plain.positive} to {runs[f'{name}+scale'].positive} of {plain.total}",
            runs[f"{name}+scale"].positive > plain.positive,
        )
        for name, plain in runs.items()
        if "+" not in name
    ]
