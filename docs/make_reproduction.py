"""Put what was run into the tables of docs/reproduction.md: `python -m docs.make_reproduction`.

It trains nothing: it reads the judgements of all cells, cells-*.jsonl, from experiments/results. `indubio reproduce`
makes them, and Git does not keep them.
"""

import re
from collections import Counter, defaultdict
from pathlib import Path

from indubio.paper.presets import OTHER_MODELS, CollectionName, Protocol
from indubio.paper.reproduction import CellStore, Record, grid, published
from indubio.paper.reproduction.cells import FOR_USE
from indubio.paper.reproduction.claims import claims
from indubio.paper.reproduction.page import mean_text, model_rows
from indubio.paper.reproduction.result_tables import LEVEL_OF, TableEntry, gain_table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reproduction.md"
RESULTS = ROOT / "experiments/results"
BLOCK = "<!-- {name}: made by `python -m docs.make_reproduction` -->\n"
END = "<!-- end -->\n"
COLLECTIONS: tuple[CollectionName, ...] = ("odds", "zema")
PROTOCOLS: tuple[Protocol, ...] = ("authors", "text")
# The scripts of the paper's authors, run beside ours, seed 0, without optdigits and pendigits.
THEIRS = {("odds", "BAE-BBB"): "88.4 (6 tasks, 1 seed)"}
GREEN, RED, NEAR = "🟢", "🔴", " ≈"  # near: the paper's number is within two standard errors


def records(collection: CollectionName, protocol: Protocol) -> list[Record]:
    """All cells of ten seeds that are there, with the sensors that the protocol's source names."""
    store = CellStore(RESULTS)
    models = [*published.MODELS_OF_THE_PAPER, "BAE-SGHMC", *OTHER_MODELS, *FOR_USE]
    return list(store.records(grid([collection], protocols=[protocol], models=models)))


def summary() -> str:
    """The paper's numbers beside ours, by model."""
    lines = [
        "| W^GSS by total uncertainty | the paper | its authors' code, run by us "
        "| ours, their settings | ours, the text |"
    ]
    lines.append("|---|---|---|---|---|")
    for collection in COLLECTIONS:
        tables = {protocol: _totals(collection, protocol) for protocol in PROTOCOLS}
        for model in (*published.MODELS_OF_THE_PAPER, published.MEAN):
            target = published.weighted_average_and_gain("gss", collection, model, "total")
            assert target is not None
            ours = [_coloured(tables[protocol].get(model), target[0]) for protocol in PROTOCOLS]
            theirs = THEIRS.get((collection, model), "-")
            name = "mean of the five" if model == published.MEAN else model
            lines.append(f"| {collection.upper()}, {name} | {target[0]:.1f} | {theirs} | {' | '.join(ours)} |")
        # It has no protocol: on ODDS both see the same data, on ZeMA other sensors.
        seen = {"odds": ("text", "text"), "zema": PROTOCOLS}[collection]
        default = [_coloured(tables[protocol].get("Default of use"), None) for protocol in seen]
        lines.append(f"| {collection.upper()}, **our default of use** | - | - | {' | '.join(default)} |")
    return "\n".join(lines) + "\n"


def _totals(collection: CollectionName, protocol: Protocol) -> dict[str, TableEntry]:
    entries = gain_table(
        records(collection, protocol), collection, metric="gss", level=LEVEL_OF[protocol], choice="oracle"
    )
    return {entry.model: entry for entry in entries if entry.uncertainty == "total"}


def _coloured(entry: TableEntry | None, target: float | None) -> str:
    if entry is None:
        return "-"
    mean, said = entry.weighted_average, mean_text(entry.weighted_average)
    if target is None:
        return said
    if round(mean.value, 1) >= target:
        return f"{GREEN} {said}"
    return f"{RED} {said}{NEAR if mean.value + 2 * mean.error >= target else ''}"


def claims_held() -> str:
    """The paper's claims, and whether they hold in each of the four experiments."""
    held: dict[str, dict[tuple[str, str], str]] = {}
    for collection in COLLECTIONS:
        for protocol in PROTOCOLS:
            for claim in claims(records(collection, protocol), collection, level=LEVEL_OF[protocol]):
                if "the paper's" not in claim.sentence:
                    place = held.setdefault(claim.sentence, {})
                    place[collection, protocol] = f"{GREEN if claim.holds else RED} {claim.ours}"
    places = [(collection, protocol) for collection in COLLECTIONS for protocol in PROTOCOLS]
    lines = [f"| the claim | {' | '.join(f'{collection.upper()}, {protocol}' for collection, protocol in places)} |"]
    lines.append("|---" * (1 + len(places)) + "|")
    lines += [f"| {said} | {' | '.join(found.get(place, '-') for place in places)} |" for said, found in held.items()]
    return "\n".join(lines) + "\n"


def posteriors() -> str:
    """All posteriors on ODDS, the paper's five first: on the tasks and seeds that were run with every one of them."""
    done = records("odds", "authors")
    runs: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for record in done:
        runs[record.cell.model].add((record.cell.task, record.cell.seed))
    common = set.intersection(*runs.values())
    shared = [record for record in done if (record.cell.task, record.cell.seed) in common]
    header, rows = model_rows(shared, "odds", LEVEL_OF["authors"])
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    seeds = Counter(task for task, _ in common)
    said = "; ".join(f"{task}: {count}" for task, count in seeds.items())
    return "\n".join(lines) + f"\n\nSeeds of each task that were run with all of them: {said}.\n"


def fill(page: Path, name: str, made: str) -> None:
    """Put a table into its place on a page."""
    start, text = BLOCK.format(name=name), page.read_text()
    filled, found = re.subn(f"{re.escape(start)}.*?{END}", lambda _: start + made + END, text, flags=re.DOTALL)
    if not found:
        raise SystemExit(f"{page} has no block for {name}")
    page.write_text(filled)


if __name__ == "__main__":
    if not any(RESULTS.glob("cells-*.jsonl")):
        raise SystemExit(f"{RESULTS} has no cells-*.jsonl: `indubio reproduce` makes them.")
    fill(PAGE, "summary", summary())
    fill(PAGE, "claims", claims_held())
    fill(ROOT / "docs/posteriors.md", "posteriors", posteriors())
