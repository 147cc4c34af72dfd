"""All cells of docs/reproduction.md: `python -m experiments.paper FOLDER`.

A cell that is in the folder is not run again, so that a run may be killed and goes on. Three seeds of everything come
first, then up to ten.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from indubio.errors import TrainingError
from indubio.grids import GridAdvance
from indubio.paper.presets import CollectionName, Protocol
from indubio.paper.reproduction import Cell, CellStore, grid, published, run_grid

SEEDS = (range(3), range(3, 10))
# Collection, protocol, sensors. The default of use has no protocol, and is run beside the text's.
EXPERIMENTS: tuple[tuple[CollectionName, Protocol, str | None], ...] = (
    ("odds", "text", None),
    ("zema", "text", "authors"),
    ("zema", "text", "text"),
    ("zema", "authors", "authors"),
    ("odds", "authors", None),
)
DEFAULT = "Default of use"


def cells() -> list[Cell]:
    """In the order in which they are run."""
    return [cell for seeds in SEEDS for experiment in EXPERIMENTS for cell in _of(*experiment, seeds)]


def _of(collection: CollectionName, protocol: Protocol, sensors: str | None, seeds: range) -> list[Cell]:
    models = [*published.MODELS_OF_THE_PAPER, *([DEFAULT] if protocol == "text" else [])]
    seen = None if sensors is None else [sensors]
    return grid([collection], protocols=[protocol], sensors=seen, models=models, seeds=seeds)


def _tell(advance: GridAdvance) -> None:
    left = "" if advance.cpu_left is None else f"{advance.cpu_left / 60:.0f} min of CPU left"
    print(f"{advance.done}/{advance.total} {'' if advance.latest is None else advance.latest.name} {left}", flush=True)


def main() -> None:
    """Run what is missing, in one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    store = CellStore(parser.parse_args().folder)
    with ThreadPoolExecutor(1) as one:
        try:
            run_grid(cells(), store, executor=one, tell=_tell)
        except TrainingError as error:
            print(error)


if __name__ == "__main__":
    main()
