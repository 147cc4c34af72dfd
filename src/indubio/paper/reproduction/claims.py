"""What the paper says that numbers can confirm or refute: its own figures as targets, and its claims in words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from indubio.paper.presets import CollectionName
from indubio.paper.reproduction import published as paper
from indubio.paper.reproduction.cell_store import Record
from indubio.paper.reproduction.result_tables import TableEntry, gain_table, positive_runs
from indubio.probability import Level

BEST = "BAE-Ensemble"
BASELINE = "Deterministic AE"


@dataclass(frozen=True)
class Claim:
    """One sentence and whether our numbers bear it out."""

    sentence: str
    ours: str
    holds: bool


def claims(records: Iterable[Record], collection: CollectionName, *, level: Level) -> list[Claim]:
    """With the conversion chosen on the test labels, as the paper's numbers are."""
    done = list(records)
    gss = gain_table(done, collection, metric="gss", level=level, choice="oracle")
    auroc = gain_table(done, collection, metric="auroc", level=level, choice="oracle")
    return [
        *_reached(gss, "W^GSS", collection, "gss", ("BAE-Ensemble", "BAE-BBB")),
        *_reached(auroc, "W^AUROC", collection, "auroc", ("BAE-Ensemble",)),
        *_total_is_best(gss),
        *_ensemble_beats_deterministic(gss),
        *_scaling_helps(done, collection, level),
    ]


def _reached(
    entries: Sequence[TableEntry], word: str, collection: CollectionName, metric: str, models: Sequence[str]
) -> list[Claim]:
    found = []
    for model in models:
        target = paper.weighted_average_and_gain(metric, collection, model, "total")
        ours = weighted_average(entries, model, "total")
        if target is not None and np.isfinite(ours):
            found.append(
                Claim(
                    f"{model}: {word} by total uncertainty is at least the paper's {target[0]:.1f}",
                    f"{ours:.1f}",
                    round(ours, 1) >= target[0],
                )
            )
    return found


def _total_is_best(entries: Sequence[TableEntry]) -> list[Claim]:
    total = weighted_average(entries, paper.MEAN, "total")
    others = {
        entry.uncertainty: entry.weighted_average.value
        for entry in entries
        if entry.model == paper.MEAN and entry.uncertainty != "total"
    }
    return [
        Claim(
            f"mean of the models: total is at least as good as {name}",
            f"{total:.1f} against {value:.1f}",
            total >= value,
        )
        for name, value in others.items()
    ]


def _ensemble_beats_deterministic(entries: Sequence[TableEntry]) -> list[Claim]:
    ours, baseline = (weighted_average(entries, model, "total") for model in (BEST, BASELINE))
    if not np.isfinite([ours, baseline]).all():
        return []
    return [Claim(f"{BEST} is better than the {BASELINE}", f"{ours:.1f} against {baseline:.1f}", ours > baseline)]


def _scaling_helps(records: Sequence[Record], collection: CollectionName, level: Level) -> list[Claim]:
    shares = {runs.conversion: (runs.positive, runs.total) for runs in positive_runs(records, collection, level=level)}
    found = []
    for name, (positive, total) in shares.items():
        scaled = next(other for other in shares if other.startswith(f"{name}+")) if "+" not in name else None
        if scaled is not None and total:
            with_scaling = shares[scaled][0]
            found.append(
                Claim(
                    f"{name}: scaling raises the share of runs with Gain > 0",
                    f"{positive} to {with_scaling} of {total}",
                    with_scaling > positive,
                )
            )
    return found


def weighted_average(entries: Iterable[TableEntry], model: str, uncertainty: str) -> float:
    """W of one cell of a table; NaN where it is not there."""
    here = (one.weighted_average.value for one in entries if (one.model, one.uncertainty) == (model, uncertainty))
    return next(here, np.nan)
