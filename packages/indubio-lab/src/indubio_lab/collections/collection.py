"""What a public collection is, and what one of its tasks hands to the user.

Facts travel with the arrays: where they come from, under which licence, in which units and at which rate,
and whether they are the real data at all.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from jaxtyping import Bool, Float, Int

from indubio.errors import ConfigError
from indubio_lab.collections.splits import TaskSplit


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A zip at a public home that holds several files of a collection.

    Args:
        name: what it is called in the cache.
        addresses: where it can be downloaded, tried in this order.
        size: bytes, None where nobody told us.
    """

    name: str
    addresses: tuple[str, ...]
    size: int | None = None


@dataclass(frozen=True, kw_only=True)
class CollectionFile:
    """One file of a collection: downloaded by itself, or a member of an archive.

    Args:
        path: its place in a data folder and in the cache, such as `odds/cardio.mat`.
        sha256: None where the published file has never been in our hands; its reader then checks the shape.
        size: bytes, None as above.
        addresses: where the file itself can be downloaded, tried in this order.
        archive: the zip it is in, if it is in one.
    """

    path: str
    sha256: str | None = None
    size: int | None = None
    addresses: tuple[str, ...] = ()
    archive: Archive | None = None

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class Collection:
    """A public collection: its tasks, its files, and whom to thank for it."""

    name: str
    title: str
    tasks: tuple[str, ...]
    files: tuple[CollectionFile, ...]
    sources: tuple[str, ...]
    licence: str
    citation: str

    def check_task(self, task: str) -> None:
        """Refuse a task that the collection does not have."""
        if task not in self.tasks:
            raise ConfigError(f"`task` must be one of {', '.join(self.tasks)} ({self.title}), got {task!r}.")


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """A measured channel: its unit, and the rate in Hz at which it was recorded."""

    name: str
    unit: str
    rate: int


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledTable:
    """A whole table with its labels, not parted yet.

    Args:
        rows: raw values.
        anomalous: which rows are anomalies.
        names: the features' names; made of their numbers where there are none.
    """

    rows: Float[np.ndarray, "rows features"]
    anomalous: Bool[np.ndarray, " rows"]
    names: tuple[str, ...]


# Arrays have no single truth value, so two tasks are equal only if they are the same object.
@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """One anomaly-detection task, split as the paper splits it. Values are raw: scaling is the detector's.

    Args:
        collection: name of the collection.
        name: name of the task.
        train: inliers to learn from, (N, D) for tables and (N, L, K) for windows.
        test_inliers: inliers kept back.
        test_anomalies: all anomalies.
        names: the features' names, or the sensors' names for windows.
        units: their units, None where unknown or scaled away.
        sampling_rate: steps per second along L, None for tables.
        split: how train and test were parted.
        files: what was read, so that a result can be traced back.
        licence: of the data.
        citation: of the data.
        generated: True if the values were made up in the collection's format and are not the real recordings.
        remarks: what must be said beside any result on this task.
    """

    collection: str
    name: str
    train: Float[np.ndarray, "train ..."]
    test_inliers: Float[np.ndarray, "inliers ..."]
    test_anomalies: Float[np.ndarray, "anomalies ..."]
    names: tuple[str, ...]
    units: tuple[str | None, ...]
    sampling_rate: float | None
    split: TaskSplit
    files: tuple[str, ...]
    licence: str
    citation: str
    generated: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def test(self) -> Float[np.ndarray, "test ..."]:
        """Test inliers, then anomalies."""
        return np.concatenate([self.test_inliers, self.test_anomalies])

    @property
    def labels(self) -> Int[np.ndarray, " test"]:
        """0 for an inlier and 1 for an anomaly, in the order of `test`."""
        return np.repeat([0, 1], [len(self.test_inliers), len(self.test_anomalies)])

    @property
    def features(self) -> int:
        """Values per example: D, or L x K."""
        return prod(self.train.shape[1:])

    @property
    def title(self) -> str:
        """The name for tables and figures; it says so when the values are generated."""
        return f"{self.collection}/{self.name}" + (" (generated traces)" if self.generated else "")
