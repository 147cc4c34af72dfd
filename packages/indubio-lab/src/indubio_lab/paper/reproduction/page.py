"""The page of an experiment: its tables and claims."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from indubio.judging import UNCERTAINTIES
from indubio.report import Sheet
from indubio_lab.paper.reproduction.cell_store import Record
from indubio_lab.paper.reproduction.cells import NO_SENSORS, Cell
from indubio_lab.paper.reproduction.claims import claims
from indubio_lab.paper.reproduction.result_tables import (
    Mean,
    TableEntry,
    auroc_by_series,
    gain_table,
    positive_runs,
    sizes,
)
from indubio_lab.paper.reproduction.summary import CellSummary, summarised
from indubio_lab.paper.reproduction.variants import AS_THE_PROTOCOL

WORDS = {
    "epistemic": "U_epi",
    "aleatoric": "U_ale",
    "total": "U_total",
    "exceed": "U_exceed",
    "var_nll": "Var[NLL]",
}
FEW_MISSING = 10  # cells that are named
METRICS = {"gss": "W^GSS", "auroc": "W^AUROC"}
BY_TOTAL = {"gss": "oracle", "formula": "oracle, the formula's scaling", "fixed": "ECDF + scale"}


@dataclass(frozen=True)
class Experiment:
    """The cells of one collection, one protocol and one set of sensors, and those of them that are done."""

    cells: tuple[Cell, ...]
    records: tuple[Record, ...]

    @property
    def first(self) -> Cell:
        """Any cell; all share collection, protocol, sensors and variant."""
        return self.cells[0]

    @cached_property
    def summaries(self) -> list[CellSummary]:
        """A line of each cell that is done."""
        return summarised(self.records)

    @property
    def name(self) -> str:
        """The name of the page's files: odds-authors, zema-text-fits."""
        cell = self.first
        return "-".join(
            [cell.collection, cell.protocol, *(part for part in (cell.sensors, cell.variant) if part != "-")]
        )

    @property
    def title(self) -> str:
        """The title for people; it says so when the data is generated."""
        cell = self.first
        sensors = "" if cell.sensors == NO_SENSORS else f", sensors: {cell.sensors}"
        variant = "" if cell.variant == AS_THE_PROTOCOL else f", {cell.variant}"
        made_up = " (generated traces, not the real data)" if any(record.generated for record in self.records) else ""
        return f"{cell.collection.upper()}, protocol: {cell.protocol}{sensors}{variant}{made_up}"


def sheets(experiment: Experiment) -> list[Sheet]:
    """All tables of an experiment."""
    done = experiment.summaries
    return [
        _progress(experiment),
        _sizes(experiment.records),
        *(_gains(gain_table(done, table), table) for table in METRICS),
        _models(done),
        _claims(done),
        _positive(done),
        _auroc(done),
    ]


def _progress(experiment: Experiment) -> Sheet:
    done = experiment.records
    seeds = sorted({record.cell.seed for record in done})
    remarks = list(dict.fromkeys(remark for record in done for remark in record.remarks))
    return Sheet(
        "What was run",
        ("cells done", "of", "seeds", "processor time"),
        ((f"{len(done)}", f"{len(experiment.cells)}", f"{len(seeds)}", _hours(sum(r.cpu_seconds for r in done))),),
        " ".join([_what_is_missing(experiment), *remarks]),
    )


def _what_is_missing(experiment: Experiment) -> str:
    done = {record.cell for record in experiment.records}
    missing = [cell.name for cell in experiment.cells if cell not in done]
    if not missing:
        return "Complete."
    named = f" Missing: {', '.join(missing)}." if len(missing) <= FEW_MISSING else ""
    return f"Not complete: means are over the tasks, in each over the seeds that are done.{named}"


def _hours(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def _sizes(done: Sequence[Record]) -> Sheet:
    rows = tuple(
        (
            size.task,
            str(size.train),
            str(size.inliers),
            str(size.anomalies),
            "yes" if size.agrees else f"no: {size.paper}",
        )
        for size in sizes(done)
    )
    return Sheet("Examples", ("task", "train", "test inliers", "test anomalies", "as in the paper"), rows)


def _gains(entries: Sequence[TableEntry], metric: str) -> Sheet:
    places = {(entry.model, entry.uncertainty): entry for entry in entries}
    models = dict.fromkeys(entry.model for entry in entries)
    rows = tuple((model, *(_gain_text(places.get((model, name))) for name in UNCERTAINTIES)) for model in models)
    note = "W ± standard error (Gain); in brackets the paper's and our W minus the paper's. Percent."
    undefined = sum(entry.weighted_average.undefined for entry in entries if entry.model != "Mean")
    if undefined:
        note += f" {undefined} runs without a defined W are left out."
    title = f"{METRICS[metric]} (Gain), conversion chosen on the test labels (an oracle, as in the paper)"
    return Sheet(title, ("model", *(WORDS[name] for name in UNCERTAINTIES)), rows, note)


def _gain_text(entry: TableEntry | None) -> str:
    if entry is None:
        return "-"
    ours = f"{entry.weighted_average} ({entry.gain.value:+.1f})"
    if entry.paper is None:
        return ours
    return f"{ours} [{entry.paper[0]:.1f} ({entry.paper[1]:+.1f}), {entry.difference:+.1f}]"


def _models(done: Sequence[CellSummary]) -> Sheet:
    header, rows = model_rows(done)
    note = (
        "By total uncertainty. ECDF + scale needs no labels. Detectors for use have their own conversion in every "
        "column."
    )
    return Sheet("All models beside each other", header, rows, note)


def model_rows(done: Sequence[CellSummary]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Header and rows of a table of all models: W^GSS by total uncertainty, AUROC, and what a fit costs."""
    weighted = {
        (entry.model, table): str(entry.weighted_average)
        for table in BY_TOTAL
        for entry in gain_table(done, table)
        if entry.uncertainty == "total"
    }
    aurocs, seconds = defaultdict(list), defaultdict(list)
    for one in done:
        seconds[one.model].append(one.cpu_seconds)
    for (model, _), mean in auroc_by_series(done).items():
        aurocs[model].append(mean.value)
    rows = tuple(
        (
            model,
            *(weighted[model, table] for table in BY_TOTAL),
            f"{np.mean(aurocs[model]):.1f}",
            f"{np.mean(seconds[model]):.1f}",
        )
        for model in dict.fromkeys(model for model, _ in weighted)
        if model in seconds
    )
    return ("model", *(f"W^GSS, {said}" for said in BY_TOTAL.values()), "AUROC", "CPU seconds of a fit"), rows


def _claims(done: Sequence[CellSummary]) -> Sheet:
    rows = tuple(
        (claim.sentence, claim.ours, "yes" if claim.holds else "no", claim.tasks, _p(claim.p)) for claim in claims(done)
    )
    note = (
        "W^GSS on the runs that both have; paired by model, task and seed. Wilcoxon signed rank over the runs (Holm), "
        "which is optimistic: seeds of one task are not independent."
    )
    return Sheet(
        "What the paper says, and whether it holds here", ("claim", "here", "holds", "tasks", "p over runs"), rows, note
    )


def _p(p: float) -> str:
    if np.isnan(p):
        return "-"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _positive(done: Sequence[CellSummary]) -> Sheet:
    rows = tuple(
        (runs.conversion, _share(runs.positive, runs.total), _share(*runs.paper)) for runs in positive_runs(done)
    )
    return Sheet("Runs with Gain^GSS > 0 by U_total", ("conversion", "here", "paper"), rows)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % ({part}/{whole})" if whole else "-"


def _auroc(done: Sequence[CellSummary]) -> Sheet:
    means = {(task, model): mean for (model, task), mean in auroc_by_series(done).items()}
    return crossed("AUROC of the mean score, nothing rejected", "task", means)


def crossed(title: str, of_rows: str, means: Mapping[tuple[str, str], Mean]) -> Sheet:
    """A table of means by what is in a row and what is in a column."""
    columns = list(dict.fromkeys(column for _, column in means))
    rows = tuple(
        (row, *(str(means.get((row, column), "-")) for column in columns))
        for row in dict.fromkeys(row for row, _ in means)
    )
    return Sheet(title, (of_rows, *columns), rows)
