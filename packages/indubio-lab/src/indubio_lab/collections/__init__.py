"""Public collections. The paper's three are one function each, that gives a task as the paper splits it.

    task = odds("cardio")
    task.train, task.test, task.labels        # raw values; the detector scales them

Tables with their labels, to be parted by somebody else, are `odds_table`, `adbench_table` and `own_table`.

Files come from a local folder (the argument `folder`, else INDUBIO_DATA), else from a cache that is filled from the
public homes. A new collection is one new file, a line in DATASETS and, where it is of tables with
labels that the benchmark may take, one in TABLES.
"""

from collections.abc import Callable

from indubio_lab.collections.adbench_collection import ADBENCH, adbench_names, adbench_table
from indubio_lab.collections.collection import Archive, Collection, CollectionFile, LabelledTable, Sensor, Task
from indubio_lab.collections.download import cache_folder, data_folder, fetch, find
from indubio_lab.collections.odds_collection import ODDS, odds, odds_table
from indubio_lab.collections.own_tables import check_labelled, own_files, own_table
from indubio_lab.collections.splits import TaskSplit, count_repeated, count_shared
from indubio_lab.collections.strath_collection import (
    BIN_SIZE,
    DIMENSION,
    FORCE,
    MARKER,
    MEASUREMENTS,
    PARTS,
    SENSORS,
    STRATH,
    binned,
    deviations,
    fences,
    forging,
    local_recordings,
    outside_fences,
    recording,
    strath,
)
from indubio_lab.collections.zema_collection import ZEMA, ZEMA_SENSOR_SETS, ZEMA_SENSORS, zema

DATASETS: dict[str, Collection] = {"odds": ODDS, "zema": ZEMA, "strath": STRATH, "adbench": ADBENCH}
TABLES: dict[str, tuple[Callable[[str | None], list[str]], Callable[..., LabelledTable]]] = {
    "odds": (lambda _: list(ODDS.tasks), odds_table),
    "adbench": (adbench_names, adbench_table),
}
__all__ = [
    "ADBENCH",
    "BIN_SIZE",
    "DATASETS",
    "DIMENSION",
    "FORCE",
    "MARKER",
    "MEASUREMENTS",
    "ODDS",
    "PARTS",
    "SENSORS",
    "STRATH",
    "TABLES",
    "ZEMA",
    "ZEMA_SENSORS",
    "ZEMA_SENSOR_SETS",
    "Archive",
    "Collection",
    "CollectionFile",
    "LabelledTable",
    "Sensor",
    "Task",
    "TaskSplit",
    "adbench_names",
    "adbench_table",
    "binned",
    "cache_folder",
    "check_labelled",
    "count_repeated",
    "count_shared",
    "data_folder",
    "deviations",
    "fences",
    "fetch",
    "find",
    "forging",
    "local_recordings",
    "odds",
    "odds_table",
    "outside_fences",
    "own_files",
    "own_table",
    "recording",
    "strath",
    "zema",
]
