"""The summary of an experiment: its tables, claims and tests."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from indubio.paper.presets import CollectionName
from indubio.paper.reproduction.cell_store import Record
from indubio.paper.reproduction.cells import NO_SENSORS, Cell
from indubio.paper.reproduction.choice import Choice, judged_as_chosen
from indubio.paper.reproduction.claims import claims
from indubio.paper.reproduction.result_tables import (
    LEVEL_OF,
    Mean,
    TableEntry,
    auroc_by_series,
    gain_table,
    positive_runs,
    sizes,
)
from indubio.paper.reproduction.statistics import (
    RunComparison,
    models_against_deterministic,
    uncertainties_against_total,
)
from indubio.paper.reproduction.variants import AS_THE_PROTOCOL
from indubio.probability import Level
from indubio.report.sheets import Sheet
from indubio.uncertainty import UNCERTAINTIES

WORDS = {"epistemic": "U_epi", "aleatoric": "U_ale", "total": "U_total", "exceed": "U_exceed", "var_nll": "Var[NLL]"}
CHOICES: dict[Choice, str] = {
    "oracle": "conversion chosen on the test labels (an oracle, as in the paper)",
    "fixed": "one conversion, ECDF + scale, that needs no labels",
}
LEVELS: dict[Level, str] = {
    "cdf_of_mean": "scaling level: CDF of the mean score (the text's formula)",
    "mean_of_cdf": "scaling level: mean of the CDF over scores (the authors' scripts)",
}
FEW_MISSING = 10  # cells that are named
METRICS = {"gss": "W^GSS", "auroc": "W^AUROC"}


@dataclass(frozen=True)
class Experiment:
    """The cells of one collection, one protocol and one set of sensors, and those of them that are done."""

    cells: tuple[Cell, ...]
    records: tuple[Record, ...]

    @property
    def first(self) -> Cell:
        """Any cell; all share collection, protocol and sensors."""
        return self.cells[0]

    @property
    def level(self) -> Level:
        """The protocol's reading of the scaling."""
        return LEVEL_OF[self.first.protocol]

    @property
    def name(self) -> str:
        """For files: odds-authors, zema-text-fits."""
        cell = self.first
        return "-".join(
            [cell.collection, cell.protocol, *(part for part in (cell.sensors, cell.variant) if part != "-")]
        )

    @property
    def title(self) -> str:
        """For people; it says so when the data is generated."""
        cell = self.first
        sensors = "" if cell.sensors == NO_SENSORS else f", sensors: {cell.sensors}"
        variant = "" if cell.variant == AS_THE_PROTOCOL else f", {cell.variant}"
        made_up = " (generated traces, not the real data)" if any(record.generated for record in self.records) else ""
        return f"{cell.collection.upper()}, protocol: {cell.protocol}{sensors}{variant}{made_up}"


def sheets(experiment: Experiment) -> list[Sheet]:
    """All tables of an experiment."""
    records, collection = experiment.records, experiment.first.collection
    levels = sorted(LEVELS, key=lambda level: level != experiment.level)
    made = [_progress(experiment), _sizes(experiment), _models_beside_each_other(experiment)]
    for metric in METRICS:
        for choice in CHOICES:
            entries = gain_table(records, collection, metric=metric, level=experiment.level, choice=choice)
            made.append(_gains(entries, metric, choice, experiment.level))
    made += [_claims(experiment), _positive(experiment, experiment.level)]
    for choice in CHOICES:
        made += _tests(records, experiment.level, choice)
    made += [_auroc(records)]
    other = levels[1]
    entries = gain_table(records, collection, metric="gss", level=other, choice="oracle")
    return [*made, _gains(entries, "gss", "oracle", other), _positive(experiment, other)]


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
    return f"Not complete: means are over the cells that are done.{named}"


def _hours(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def _sizes(experiment: Experiment) -> Sheet:
    found = sizes(experiment.records, experiment.first.collection)
    rows = tuple(
        (
            size.task,
            str(size.train),
            str(size.inliers),
            str(size.anomalies),
            "yes" if size.agrees else f"no: {size.paper}",
        )
        for size in found
    )
    return Sheet("Examples", ("task", "train", "test inliers", "test anomalies", "as in the paper"), rows)


def _models_beside_each_other(experiment: Experiment) -> Sheet:
    header, rows = model_rows(experiment.records, experiment.first.collection, experiment.level)
    note = (
        "By total uncertainty; means over tasks and seeds. Detectors for use have a conversion of their own, in both."
    )
    return Sheet("All models beside each other", header, rows, note)


def model_rows(
    records: Sequence[Record], collection: CollectionName, level: Level
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Header and rows of a table of all models: W^GSS by total uncertainty, AUROC, and what a fit costs."""
    weighted = {
        (entry.model, choice): f"{mean_text(entry.weighted_average)} ({entry.gain.value:+.1f})"
        for choice in CHOICES
        for entry in gain_table(records, collection, metric="gss", level=level, choice=choice)
        if entry.uncertainty == "total"
    }
    aurocs, seconds = defaultdict(list), defaultdict(list)
    for record in records:
        seconds[record.cell.model].append(record.cpu_seconds)
    for series, mean in auroc_by_series(records).items():
        aurocs[series.model].append(mean.value)
    rows = tuple(
        (
            model,
            *(weighted[model, choice] for choice in CHOICES),
            f"{np.mean(aurocs[model]):.1f}",
            f"{np.mean(seconds[model]):.1f}",
        )
        for model in dict.fromkeys(model for model, _ in weighted)
        if model in seconds
    )
    return ("model", "W^GSS (Gain), oracle", "W^GSS (Gain), ECDF + scale", "AUROC", "CPU seconds of a fit"), rows


def _gains(entries: Sequence[TableEntry], metric: str, choice: Choice, level: Level) -> Sheet:
    cells = {(entry.model, entry.uncertainty): entry for entry in entries}
    models = dict.fromkeys(entry.model for entry in entries)
    rows = tuple((model, *(_gain_text(cells.get((model, name))) for name in UNCERTAINTIES)) for model in models)
    note = "W ± standard error (Gain); in brackets the paper's and our W minus the paper's. Percent."
    undefined = sum(entry.weighted_average.undefined for entry in entries if entry.model != "Mean")
    if undefined:
        note += f" {undefined} runs without a defined W are left out."
    title = f"{METRICS[metric]} (Gain): {CHOICES[choice]}; {LEVELS[level]}"
    return Sheet(title, ("model", *(WORDS[name] for name in UNCERTAINTIES)), rows, note)


def _gain_text(entry: TableEntry | None) -> str:
    if entry is None:
        return "-"
    ours = f"{mean_text(entry.weighted_average)} ({entry.gain.value:+.1f})"
    if entry.paper is None:
        return ours
    return f"{ours} [{entry.paper[0]:.1f} ({entry.paper[1]:+.1f}), {entry.difference:+.1f}]"


def mean_text(mean: Mean) -> str:
    """A mean with its standard error."""
    return f"{mean.value:.1f}" if np.isnan(mean.error) else f"{mean.value:.1f} ± {mean.error:.1f}"


def _claims(experiment: Experiment) -> Sheet:
    found = claims(experiment.records, experiment.first.collection, level=experiment.level)
    rows = tuple((claim.sentence, claim.ours, "yes" if claim.holds else "no") for claim in found)
    return Sheet("What the paper says, and whether it holds here", ("claim", "here", "holds"), rows)


def _positive(experiment: Experiment, level: Level) -> Sheet:
    found = positive_runs(experiment.records, experiment.first.collection, level=level)
    rows = tuple((runs.conversion, _share(runs.positive, runs.total), _share(*runs.paper)) for runs in found)
    return Sheet(f"Runs with Gain^GSS > 0 by U_total; {LEVELS[level]}", ("conversion", "here", "paper"), rows)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % ({part}/{whole})" if whole else "-"


def _tests(records: Sequence[Record], level: Level, choice: Choice) -> list[Sheet]:
    header = ("is", "better than", "difference of W^GSS", "p over runs (Holm)", "tasks won", "p over tasks", "so it is")
    made = {
        "U_total against the others": uncertainties_against_total(records, level=level, choice=choice),
        "Models against the deterministic AE": models_against_deterministic(records, level=level, choice=choice),
    }
    return [
        Sheet(
            f"{title}: {CHOICES[choice]}",
            header,
            tuple(_comparison(one) for one in found),
            "Wilcoxon signed rank, paired by task and seed.",
        )
        for title, found in made.items()
        if found
    ]


def _comparison(one: RunComparison) -> tuple[str, ...]:
    return (
        WORDS.get(one.better, one.better),
        WORDS.get(one.other, one.other),
        f"{one.difference:+.2f}",
        _p(one.p_pairs),
        f"{one.tasks_won} of {one.tasks}",
        _p(one.p_tasks),
        one.verdict,
    )


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _auroc(records: Sequence[Record]) -> Sheet:
    found = {(series.task, series.model): mean for series, mean in auroc_by_series(records).items()}
    return _crossed("AUROC of the mean score, nothing rejected", "task", found)


def sensor_sheet(records: Iterable[Record]) -> Sheet:
    """AUROC by sensor and task: which sensor carries the fault."""
    found = {(series.sensors, series.task): mean for series, mean in auroc_by_series(records).items()}
    return _crossed("AUROC by sensor", "sensor", found, "Mean ± standard error over the seeds, in percent.")


def _crossed(title: str, of_rows: str, found: Mapping[tuple[str, str], Mean], note: str = "") -> Sheet:
    """A table of means by what is in a row and what is in a column."""
    columns = list(dict.fromkeys(column for _, column in found))
    rows = tuple(
        (row, *(mean_text(found[row, column]) if (row, column) in found else "-" for column in columns))
        for row in dict.fromkeys(row for row, _ in found)
    )
    return Sheet(title, (of_rows, *columns), rows, note)


def variant_sheets(made: Sequence[Experiment]) -> list[Sheet]:
    """What one setting changes, on the mean and task by task."""
    return [_variants(made), *(_variants_by_task(made, model) for model in _models(made))]


def _models(made: Sequence[Experiment]) -> list[str]:
    return list(dict.fromkeys(record.cell.model for experiment in made for record in experiment.records))


def _variants_by_task(made: Sequence[Experiment], model: str) -> Sheet:
    runs: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for experiment in made:
        for cell, one in judged_as_chosen(experiment.records, level=experiment.level, choice="oracle"):
            if (cell.model, one.uncertainty, one.metric) == (model, "total", "gss"):
                runs[cell.variant, cell.task].append((cell.seed, one.weighted_average))
    found = {place: Mean.over(of_place) for place, of_place in runs.items()}
    return _crossed(f"{model}: W^GSS by total uncertainty, oracle, task by task", "variant", found)


def _variants(made: Sequence[Experiment]) -> Sheet:
    """W^GSS by total uncertainty with either choice of conversion, and AUROC."""
    header = ("variant", "model", "W^GSS, oracle", "W^GSS, ECDF + scale", "AUROC")
    rows = []
    for experiment in made:
        collection = experiment.first.collection
        tables = [
            gain_table(experiment.records, collection, metric="gss", level=experiment.level, choice=choice)
            for choice in CHOICES
        ]
        aurocs = auroc_by_series(experiment.records)
        for model in _models([experiment]):
            gss = [
                mean_text(entry.weighted_average)
                for entries in tables
                for entry in entries
                if (entry.model, entry.uncertainty) == (model, "total")
            ]
            auroc = np.mean([mean.value for series, mean in aurocs.items() if series.model == model])
            rows.append((experiment.first.variant, model, *gss, f"{auroc:.1f}"))
    first = made[0]
    tasks = ", ".join(dict.fromkeys(record.cell.task for record in first.records))
    seeds = len({record.cell.seed for record in first.records})
    note = f"Mean ± standard error over {tasks}; {seeds} seeds; percent. The variant - is the protocol as it is."
    return Sheet("One setting at a time", header, tuple(rows), note)
