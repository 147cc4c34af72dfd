"""Put what was run into the tables of docs/reproduction.md: `python -m docs.make_reproduction`.

It trains nothing: the judgements of all cells are in experiments/results. `indubio reproduce` makes them.
"""

import re
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
GREEN, RED = "🟢", "🔴"


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
        default = tables["text"].get("Default of use")
        lines.append(f"| {collection.upper()}, **our default of use** | - | - | - | {_coloured(default, None)} |")
    return "\n".join(lines) + "\n"


def _totals(collection: CollectionName, protocol: Protocol) -> dict[str, TableEntry]:
    entries = gain_table(
        records(collection, protocol), collection, metric="gss", level=LEVEL_OF[protocol], choice="oracle"
    )
    return {entry.model: entry for entry in entries if entry.uncertainty == "total"}


def _coloured(entry: TableEntry | None, target: float | None) -> str:
    if entry is None:
        return "-"
    said = mean_text(entry.weighted_average)
    return said if target is None else f"{GREEN if round(entry.weighted_average.value, 1) >= target else RED} {said}"


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
    """All posteriors on ODDS, the paper's five first."""
    header, rows = model_rows(records("odds", "text"), "odds", LEVEL_OF["text"])
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def filled(text: str) -> str:
    """The page with its tables made again."""
    for name, made in (("summary", summary), ("claims", claims_held), ("posteriors", posteriors)):
        start = BLOCK.format(name=name)
        text, found = re.subn(
            f"{re.escape(start)}.*?{END}", lambda _, s=start, m=made: s + m() + END, text, flags=re.DOTALL
        )  # type: ignore[misc]
        if not found:
            raise SystemExit(f"{PAGE} has no block for {name}")
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
