"""All cells of docs/reproduction.md: `python -m experiments.paper FOLDER`; some: `... FOLDER odds/text zema/authors`.

A cell that is in the folder is not run again, so that a run may be killed and goes on. Three seeds of everything come
first, then single changes of settings, then up to ten seeds. `python -m docs.make_reproduction FOLDER` makes the page.
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from indubio.errors import TrainingError
from indubio_lab.collections import DATASETS
from indubio_lab.grids import GridAdvance, run_grid
from indubio_lab.paper import CellStore, CollectionName
from indubio_lab.paper.presets import OTHER_MODELS, Protocol
from indubio_lab.paper.reproduction import published
from indubio_lab.paper.reproduction.cells import FOR_USE, Cell, grid

FIRST, ALL = range(3), range(10)
LARGEST = "optdigits"  # nine tenths of the cost of ODDS
DEFAULT = "Default of use"
# Collection, protocol, sensors. The default of use has no protocol, and is run beside the text's.
EXPERIMENTS: tuple[tuple[CollectionName, Protocol, str], ...] = (
    ("odds", "text", "-"),
    ("odds", "authors", "-"),
    ("zema", "authors", "authors"),
    ("zema", "text", "authors"),
    ("zema", "text", "text"),
)
# What a missed number might hang on: settings changed one at a time, by experiment and model.
CHANGES: dict[tuple[CollectionName, Protocol, str], dict[str, tuple[str, ...]]] = {
    ("odds", "text", "-"): {
        "BAE-BBB": (
            "architecture.activation=selu",
            "architecture.layer_norm=false",
            "training.epochs=300",
            "scaling.clip=false",
        ),
    },
    ("zema", "authors", "authors"): {
        "BAE-Ensemble": ("architecture.activation=selu", "architecture.bias=true", "training.epochs=300"),
    },
    ("zema", "text", "authors"): {
        "BAE-Ensemble": ("architecture.activation=selu", "architecture.bias=true"),
        "VAE": ("architecture.code_heads=linear",),
    },
}
# The other posteriors of docs/posteriors.md, by the scripts' settings.
POSTERIORS = ("BAE-SGHMC", *OTHER_MODELS, *(name for name in FOR_USE if name != DEFAULT))


def cells() -> list[Cell]:
    """In the order in which they are run: within each step what costs much, or says little, comes last."""
    steps = [_main(FIRST), _changed(), _main(ALL), _posteriors()]
    ordered = [cell for step in steps for cell in sorted(step, key=_is_late)]
    return list(dict.fromkeys(ordered))


def _is_late(cell: Cell) -> tuple[bool, bool, bool]:
    return cell.sensors == "text", cell.sensors == "authors" and cell.protocol == "text", cell.task == LARGEST


def _main(seeds: range) -> Iterator[Cell]:
    for collection, protocol, sensors in EXPERIMENTS:
        models = [*published.MODELS_OF_THE_PAPER, *([DEFAULT] if protocol == "text" else [])]
        yield from grid([collection], protocols=[protocol], sensors=[sensors], models=models, seeds=seeds)


def _changed() -> Iterator[Cell]:
    for (collection, protocol, sensors), changes in CHANGES.items():
        tasks = [task for task in DATASETS[collection].tasks if task != LARGEST]
        for model, variants in changes.items():
            yield from grid(
                [collection],
                protocols=[protocol],
                sensors=[sensors],
                models=[model],
                tasks=tasks,
                variants=variants,
                seeds=FIRST,
            )


def _posteriors() -> Iterator[Cell]:
    yield from grid(["odds"], protocols=["authors"], models=POSTERIORS, seeds=FIRST)
    without = [task for task in DATASETS["odds"].tasks if task != LARGEST]
    yield from grid(["odds"], protocols=["authors"], models=POSTERIORS, tasks=without, seeds=ALL)


def _tell(advance: GridAdvance) -> None:
    left = "" if advance.cpu_left is None else f"{advance.cpu_left / 60:.0f} min of CPU left"
    print(f"{advance.done}/{advance.total} {'' if advance.latest is None else advance.latest.name} {left}", flush=True)


def main() -> None:
    """Run what is missing, in one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("only", nargs="*", help="COLLECTION/PROTOCOL, several; all without it")
    given = parser.parse_args()
    chosen = [cell for cell in cells() if not given.only or f"{cell.collection}/{cell.protocol}" in given.only]
    store = CellStore(given.folder)
    with ThreadPoolExecutor(1) as one:
        try:
            run_grid(chosen, store, executor=one, tell=_tell)
        except TrainingError as error:  # cells that do not train are no reason to stop: they are named
            print(error)


if __name__ == "__main__":
    main()
