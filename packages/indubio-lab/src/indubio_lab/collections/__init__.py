"""Public collections. The paper's three are one function each, that gives a task as the paper splits it.

    task = odds("cardio")
    task.train, task.test, task.labels        # raw values; the detector scales them

Tables with their labels, to be parted by somebody else, are `odds_table`, `adbench_table` and `own_table`.

Files come from a local folder (the argument `folder`, else INDUBIO_DATA), else from a cache that is filled from the
public homes. A new collection is one new file, a line in DATASETS and, where it is of tables with
labels that the benchmark may take, one in TABLES.
"""

from collections.abc import Callable

from indubio_lab.collections.adbench import ADBENCH, adbench_names, adbench_table
from indubio_lab.collections.collection import Archive, Collection, CollectionFile, LabelledTable, Sensor, Task
from indubio_lab.collections.download import cache_folder, data_folder, fetch, find
from indubio_lab.collections.odds import ODDS, odds, odds_table
from indubio_lab.collections.own_tables import check_labelled, own_files, own_table
from indubio_lab.collections.splits import TaskSplit, count_repeated, count_shared
from indubio_lab.collections.strath import STRATH, strath
from indubio_lab.collections.zema import ZEMA, ZEMA_SENSOR_SETS, ZEMA_SENSORS, zema

DATASETS: dict[str, Collection] = {"odds": ODDS, "zema": ZEMA, "strath": STRATH, "adbench": ADBENCH}
# Names of a collection's tables in a folder, and how one of them is read.
TABLES: dict[str, tuple[Callable[[str | None], list[str]], Callable[..., LabelledTable]]] = {
    "odds": (lambda _: list(ODDS.tasks), odds_table),
    "adbench": (adbench_names, adbench_table),
}

__all__ = [
    "DATASETS",
    "TABLES",
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
    "cache_folder",
    "check_labelled",
    "count_repeated",
    "count_shared",
    "data_folder",
    "fetch",
    "find",
    "odds",
    "odds_table",
    "own_files",
    "own_table",
    "strath",
    "zema",
]
