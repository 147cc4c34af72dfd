"""The tables of docs/reproduction.md and docs/posteriors.md: `python -m docs.make_reproduction [FOLDER]`.

They are made of experiments/results/paper.csv, a line for each cell. With the folder of `python -m experiments.paper`
the lines are made first, of all cells that are there.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from experiments.paper import DEFAULT, EXPERIMENTS, LARGEST, cells
from indubio_lab.collections import DATASETS
from indubio_lab.paper import CellStore, experiments
from indubio_lab.paper.reproduction import published
from indubio_lab.paper.reproduction.cells import Cell
from indubio_lab.paper.reproduction.claims import Claim, claims
from indubio_lab.paper.reproduction.page import model_rows
from indubio_lab.paper.reproduction.result_tables import Mean
from indubio_lab.paper.reproduction.summary import KEYS, CellSummary, gaps, read_summaries, write_summaries
from indubio_lab.paper.reproduction.variants import AS_THE_PROTOCOL

ROOT = Path(__file__).parents[1]
SUMMARY = ROOT / "experiments/results/paper.csv"
START, END = "<!-- {name}: made by `python -m docs.make_reproduction` -->\n", "<!-- end -->\n"
K = TypeVar("K", bound=Hashable)
Experiment = tuple[str, str, str]  # collection, protocol, sensors
TITLES: dict[Experiment, str] = {
    ("odds", "text", "-"): "ODDS, text",
    ("odds", "authors", "-"): "ODDS, scripts",
    ("zema", "text", "authors"): "ZeMA, text, scripts' sensors",
    ("zema", "authors", "authors"): "ZeMA, scripts",
    ("zema", "text", "text"): "ZeMA, text, its sensors",
}
# Rows of the table: what they are called, and the experiments by the text and by the scripts.
BLOCKS: dict[str, tuple[Experiment, Experiment | None]] = {
    "ODDS": (("odds", "text", "-"), ("odds", "authors", "-")),
    "ZeMA": (("zema", "text", "authors"), ("zema", "authors", "authors")),
    "ZeMA, the text's sensors": (("zema", "text", "text"), None),
}
# The scripts of the paper's authors, run beside ours, seed 0, without optdigits and pendigits.
THEIRS = {("ODDS", "BAE-BBB"): "88.4 (6 tasks, 1 seed)"}
MET, MISSED, NEAR = "🟢", "🔴", " ≈"  # near: the paper's number is within two standard errors
MODELS = published.MODELS_OF_THE_PAPER
OFTEN_MISSED = ("BAE-BBB", "BAE-Ensemble")


def of(summaries: Iterable[CellSummary], experiment: Experiment, variant: str = AS_THE_PROTOCOL) -> list[CellSummary]:
    """The cells of an experiment."""
    return [
        one for one in summaries if (one.collection, one.protocol, one.sensors, one.variant) == (*experiment, variant)
    ]


def on_all_tasks(summaries: Iterable[CellSummary]) -> list[CellSummary]:
    """Of the models that were run on every task of the collection: a mean over other tasks could not be compared."""
    done = list(summaries)
    tasks: dict[str, set[str]] = defaultdict(set)
    for one in done:
        tasks[one.model].add(one.task)
    return [one for one in done if len(tasks[one.model]) == len(DATASETS[one.collection].tasks)]


def main_table(summaries: Sequence[CellSummary]) -> str:
    """The paper's numbers beside ours, by model."""
    header = (
        "W^GSS by total uncertainty",
        "the paper",
        "its authors' code, run by us",
        "ours, the text",
        "the text, scaling as in its formula",
        "ours, the scripts",
        "our default of use",
    )
    rows = []
    for title, (text, scripts) in BLOCKS.items():
        by_text, by_scripts = of(summaries, text), of(summaries, scripts) if scripts else []
        for model in (*(MODELS if scripts else ("BAE-Ensemble",)), published.MEAN):
            target = published.weighted_average_and_gain("gss", text[0], model, "total")
            assert target is not None
            models, name = ((model,), model) if model != published.MEAN else (MODELS, "**mean of the five**")
            rows.append(
                (
                    f"{title}, {name}",
                    f"{target[0]:.1f}",
                    THEIRS.get((title, model), "-"),
                    told(by_text, models, target[0]),
                    told(by_text, models, target[0], "formula"),
                    told(by_scripts, models, target[0]),
                    told(by_text, (DEFAULT,), None) if model == published.MEAN else "",
                )
            )
    return markdown(header, rows) + "\n" + said_of_runs(summaries)


def told(summaries: Sequence[CellSummary], models: Sequence[str], target: float | None, table: str = "gss") -> str:
    """W by total uncertainty of some models, on the tasks that all of them were run on, and whether it is met."""
    shared = set.intersection(*({one.task for one in summaries if one.model == model} for model in models))
    if not shared:
        return "-"
    runs = [one for one in summaries if one.model in models and one.task in shared]
    mean = Mean.over((one.series, one.seed, one.weighted[table, "total"]) for one in runs)
    whole = len(DATASETS[runs[0].collection].tasks)
    if len(shared) < whole:
        return f"{mean} ({len(shared)} of {whole} tasks)"
    if target is None:
        return str(mean)
    if round(mean.value, 1) >= target:
        return f"{MET} {mean}"
    return f"{MISSED} {mean}{NEAR if mean.value + 2 * mean.error >= target else ''}"


def said_of_runs(summaries: Sequence[CellSummary]) -> str:
    """How many seeds there are, and which cells did not train."""
    seeds = []
    for experiment, title in TITLES.items():
        done = [one for one in on_all_tasks(of(summaries, experiment)) if one.model in MODELS]
        counts = Counter(one.series for one in done).values()
        if counts:
            few, most = min(counts), max(counts)
            seeds.append(f"{title} {most}" if few == most else f"{title} {few} to {most}")
    missing = gaps(one for experiment in EXPERIMENTS for one in of(summaries, experiment))
    trained = (
        f"Did not train, and are left out: {'; '.join(missing)}." if missing else "Every cell that was run trained."
    )
    return f"Seeds of a task and model so far, of ten: {', '.join(seeds)}. {trained}\n"


def claims_table(summaries: Sequence[CellSummary]) -> str:
    """The paper's claims, and whether they hold in each of the experiments."""
    titles = {one: title for one, title in TITLES.items() if one != ("zema", "text", "text")}
    held: dict[str, dict[Experiment, str]] = {}
    for experiment in titles:
        for claim in claims(on_all_tasks(of(summaries, experiment))):
            held.setdefault(claim.sentence, {})[experiment] = said_of_claim(claim)
    rows = [(sentence, *(places.get(one, "-") for one in titles)) for sentence, places in held.items()]
    return markdown(("the claim", *titles.values()), rows)


def said_of_claim(claim: Claim) -> str:
    """Met or not; with a star where the difference is significant over runs."""
    return f"{MET if claim.holds else MISSED} {claim.ours}{' *' if claim.p < 0.05 else ''}"


def changes_table(summaries: Sequence[CellSummary]) -> str:
    """Settings changed one at a time, task by task, beside the protocol on the same tasks and seeds."""
    rows = []
    for experiment, title in TITLES.items():
        changed = [
            one for one in summaries if (one.collection, one.protocol, one.sensors) == experiment and one.variant != "-"
        ]
        for model, of_model in grouped(changed, lambda one: one.model).items():
            for variant, runs in grouped(of_model, lambda one: one.variant).items():
                shared = {(one.task, one.seed) for one in runs}
                plain = [
                    one for one in of(summaries, experiment) if one.model == model and (one.task, one.seed) in shared
                ]
                seeds = len({seed for _, seed in shared})
                rows.append(
                    (
                        f"{title}: {model}, `{variant}`",
                        str(seeds),
                        mean_text(runs),
                        mean_text(plain),
                        moved(runs, plain),
                    )
                )
    return markdown(
        ("one setting changed", "seeds", "W^GSS", "as the protocol", "tasks that moved by more than 2"), rows
    )


def mean_text(runs: Sequence[CellSummary]) -> str:
    """W^GSS by total uncertainty over tasks."""
    return str(Mean.over((one.task, one.seed, one.weighted["gss", "total"]) for one in runs))


def moved(runs: Sequence[CellSummary], plain: Sequence[CellSummary]) -> str:
    """The tasks on which the change matters."""
    said = []
    for task, of_task in grouped(runs, lambda one: one.task).items():
        before = [one for one in plain if one.task == task]
        after, was = (
            Mean.over((task, one.seed, one.weighted["gss", "total"]) for one in side).value
            for side in (of_task, before)
        )
        if abs(after - was) > 2:
            said.append(f"{task} {was:.0f} → {after:.0f}")
    return ", ".join(said) or "-"


def by_task(summaries: Sequence[CellSummary], collection: str) -> str:
    """W^GSS of the models whose numbers are missed by some settings, and of the default, on each task."""
    tasks = DATASETS[collection].tasks
    rows = []
    for experiment, title in TITLES.items():
        done = of(summaries, experiment) if experiment[0] == collection else []
        for model in (*OFTEN_MISSED, DEFAULT):
            runs = grouped((one for one in done if one.model == model), lambda one: one.task)
            if runs:
                rows.append((f"{title}, {model}", *(mean_text(runs.get(task, [])) for task in tasks)))
    return markdown(("W^GSS", *tasks), rows)


def grouped(summaries: Iterable[CellSummary], by: Callable[[CellSummary], K]) -> dict[K, list[CellSummary]]:
    """Parted by what `by` gives, in the order of appearance."""
    parts: dict[K, list[CellSummary]] = defaultdict(list)
    for one in summaries:
        parts[by(one)].append(one)
    return parts


def posteriors_table(summaries: Sequence[CellSummary]) -> str:
    """All posteriors on ODDS, the paper's five first, on the tasks that were run with every one of them."""
    by_scripts, by_text = of(summaries, ("odds", "authors", "-")), of(summaries, ("odds", "text", "-"))
    runs = [*by_scripts, *(one for one in by_text if one.model == DEFAULT)]
    done = [one for one in runs if one.task != LARGEST]
    seeds = Counter(one.series for one in done)
    header, rows = model_rows(done)
    fewest = {name: min(count for (model, _), count in seeds.items() if model == name) for name, *_ in rows}
    return markdown((*header, "seeds"), [(*row, str(fewest[row[0]])) for row in rows])


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


TABLES: Mapping[str, Mapping[str, Callable[[Sequence[CellSummary]], str]]] = {
    "docs/reproduction.md": {
        "summary": main_table,
        "claims": claims_table,
        "changes": changes_table,
        "odds": partial(by_task, collection="odds"),
        "zema": partial(by_task, collection="zema"),
    },
    "docs/posteriors.md": {"posteriors": posteriors_table},
}


def filled(page: str, name: str, made: str) -> str:
    """The page with a table in its place."""
    start = START.format(name=name)
    whole, count = re.subn(f"{re.escape(start)}.*?{END}", lambda _: start + made + END, page, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"there must be one place for {name}, there are {count}")
    return whole


def summarise(folder: Path) -> None:
    """A line for each cell that is done: those of the folder, and of the file what the folder has less of.

    A conversion is chosen over all seeds of a task and model, so these stay together.
    """
    made = [one for done in experiments(cells(), CellStore(folder)) if done.records for one in done.summaries]
    kept = read_summaries(SUMMARY) if SUMMARY.exists() else []
    new, old = grouped(made, whole_series), grouped(kept, whole_series)
    chosen = {name: max(new.get(name, []), old.get(name, []), key=len) for name in (*old, *new)}
    order = list(dict.fromkeys(whole_series(one) for one in cells()))
    lines = [one for name in sorted(chosen, key=order.index) for one in chosen[name]]
    write_summaries(SUMMARY, lines)


def whole_series(one: CellSummary | Cell) -> tuple[str, ...]:
    """What the seeds of a task and model share."""
    return tuple(getattr(one, key) for key in KEYS)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        summarise(Path(sys.argv[1]))
    lines = read_summaries(SUMMARY)
    for name, tables in TABLES.items():
        path = ROOT / name
        text = path.read_text()
        for block, made in tables.items():
            text = filled(text, block, made(lines))
        path.write_text(text)
