"""A cell of the benchmark: one detector on one set with one seed. `run` is a plain function of it."""

import hashlib
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from indubio.chain import Assessment
from indubio.decision import Evidence, Referral
from indubio.detector import own_randomness, score_of, scores
from indubio.errors import ConfigError, IndubioError, TrainingError, quoted
from indubio.io import json_text
from indubio.judging import Uncertainty
from indubio_lab.benchmark.contender import Contender
from indubio_lab.benchmark.measures import Measures, model_bytes, of_assessment, of_scores
from indubio_lab.benchmark.one_class import OneClass, OneClassRows
from indubio_lab.collections import TABLES, LabelledTable, check_labelled, own_files, own_table

REVISION = 2  # of what a cell computes: raised when old results must not be mixed with new ones


@dataclass(frozen=True, order=True)
class BenchmarkSet:
    """A table with labels, by where it is.

    Args:
        collection: "odds", "adbench", or the name of the user's folder.
        name: of the set.
        place: of a user's own: the file; of a public one: the data folder, None looks in the usual places.
        label: of a user's own: the column of labels.
        anomaly: values of it that mean anomaly.
        ignore: columns that are no features.
        own: whether it is a user's own.
    """

    collection: str
    name: str
    place: str | None = None
    label: str | None = None
    anomaly: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    own: bool = False

    def read(self) -> LabelledTable:
        """The table; the last one is kept, since cells of a set follow each other."""
        return _read(self, self.checksum())

    def checksum(self) -> str | None:
        """Of a user's own file, so that a changed one is computed again; public ones do not change."""
        if not self.own or self.place is None:
            return None
        known = Path(self.place).stat()
        return _checksum(Path(self.place), known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=1)
def _read(data: BenchmarkSet, checksum: str | None) -> LabelledTable:
    del checksum  # only for the cache: a changed file is read again
    if data.own:
        assert data.place is not None
        return own_table(data.place, label=data.label, anomaly=data.anomaly, ignore=data.ignore)
    _, read = TABLES[data.collection]
    return read(data.name, folder=data.place)


@cache
def _checksum(path: Path, changed: int, size: int) -> str:
    """Read once for every time and size that it was changed to."""
    del changed, size
    return hashlib.sha256(path.read_bytes()).hexdigest()


def benchmark_sets(
    collections: Iterable[str],
    *,
    sets: Iterable[str] | None = None,
    data: str | Path | None = None,
    label: str | None = None,
    anomaly: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
) -> list[BenchmarkSet]:
    """The sets of some collections.

    Args:
        collections: "odds", "adbench", and folders or files of one's own.
        sets: of these only the named ones; None takes all.
        data: folder with the public collections; None looks in the usual places.
        label: of own tables: the column of labels.
        anomaly: of own tables: values of it that mean anomaly, where it does not hold 0 and 1.
        ignore: of own tables: columns that are no features.
    """
    found: list[BenchmarkSet] = []
    folder = None if data is None else str(data)
    for collection in collections:
        if collection in TABLES:
            names_in, _ = TABLES[collection]
            found += [BenchmarkSet(collection, name, folder) for name in names_in(folder)]
            continue
        if not Path(collection).exists():
            raise ConfigError(f"there is no collection or folder {collection!r}; there are {quoted(list(TABLES))}.")
        found += _own_sets(Path(collection), label, None if anomaly is None else tuple(anomaly), tuple(ignore))
    return _chosen(found, sets)


def _own_sets(
    place: Path, label: str | None, anomaly: tuple[str, ...] | None, ignore: tuple[str, ...]
) -> list[BenchmarkSet]:
    files, collection = own_files(place), place.absolute().stem if place.is_file() else place.absolute().name
    stems = [path.stem for path in files]
    for path in files:
        check_labelled(path, label)  # refused now, not in every cell
    return [
        BenchmarkSet(
            collection,
            path.stem if stems.count(path.stem) == 1 else path.name,
            str(path.absolute()),
            label,
            anomaly,
            ignore,
            own=True,
        )
        for path in files
    ]


def _chosen(found: Sequence[BenchmarkSet], sets: Iterable[str] | None) -> list[BenchmarkSet]:
    if sets is None:
        return list(found)
    asked, known = list(sets), [one.name for one in found]
    for name in asked:
        if name not in known:
            raise ConfigError(f"there is no set {name!r}; there are {quoted(known)}.")
    return [one for one in found if one.name in asked]


@dataclass(frozen=True, order=True)
class BenchmarkCell:
    """One detector on one set with one seed.

    Args:
        collection: of the set.
        task: the set.
        detector: by name.
        seed: of the split and of everything random in the detector.
        data: where the set is.
        contender: what runs.
        protocol: how the set is parted.
    """

    collection: str
    task: str
    detector: str
    seed: int
    data: BenchmarkSet = field(compare=False)
    contender: Contender = field(compare=False)
    protocol: OneClass = field(compare=False)

    @property
    def name(self) -> str:
        """Where the cell's results are, below the folder of results."""
        return f"{self.collection}/{self.task}/{self.detector}/{self.seed}"

    @property
    def series(self) -> "BenchmarkCell":
        """The cell without its seed."""
        return replace(self, seed=0)

    def described(self) -> dict[str, Any]:
        """The cell as plain values, for a file."""
        return {name: getattr(self, name) for name in ("collection", "task", "detector", "seed")}

    def fingerprint(self) -> str:
        """Changes with the settings of the detector, the protocol, and a user's own file."""
        said = {
            "revision": REVISION,
            "cell": self.name,
            "protocol": asdict(self.protocol),
            "detector": self.contender.described,
            "data": self.data.checksum(),
        }
        return hashlib.sha256(json_text(said).encode()).hexdigest()[:16]


def benchmark_cells(
    sets: Iterable[BenchmarkSet], taking_part: Iterable[Contender], *, seeds: int = 5, protocol: OneClass | None = None
) -> list[BenchmarkCell]:
    """All cells; seed by seed, so that whatever is done when it stops is a whole benchmark of fewer seeds."""
    there, chosen = list(sets), list(taking_part)
    return [
        BenchmarkCell(data.collection, data.name, one.name, seed, data, one, protocol or OneClass())
        for seed in range(seeds)
        for data in there
        for one in chosen
    ]


@dataclass(frozen=True, kw_only=True)
class BenchmarkOutcome:
    """What a cell gives.

    Args:
        train: training rows.
        features: columns.
        inliers: test inliers.
        anomalies: test anomalies.
        measures: what was measured; None where the detector was left out.
        left_out: why it was.
    """

    train: int
    features: int
    inliers: int
    anomalies: int
    measures: Measures | None
    left_out: str | None = None


def run(cell: BenchmarkCell) -> BenchmarkOutcome:
    """Fit the detector of a cell, score its rows and measure what came of it."""
    rows = cell.protocol.parted(cell.data.read(), cell.seed)
    anomalies = int(rows.anomalous.sum())
    train, features = rows.train.shape
    left_out = cell.contender.left_out(train, features)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a package, in every cell: what comes of it is measured
            measures = None if left_out else _measured(cell, rows)
    except IndubioError:
        raise
    except Exception as error:
        raise TrainingError(f"{cell.contender.title}: {type(error).__name__}: {error}") from error
    return BenchmarkOutcome(
        train=train,
        features=features,
        inliers=len(rows.test) - anomalies,
        anomalies=anomalies,
        measures=measures,
        left_out=left_out,
    )


def _measured(cell: BenchmarkCell, rows: OneClassRows) -> Measures:
    contender = cell.contender
    train, test = rows.train, rows.test
    if contender.form != "own":
        train, test = _z_scores(train, test)
    detector = contender.detector(cell.seed, len(train))  # before the clock: it may import a package
    started = time.process_time()
    if contender.form == "plain":
        with own_randomness(cell.seed):
            detector.fit(train)
            fitted = time.process_time()
            scored = scores(contender.scored_by or score_of(detector), detector, test)[0]
        done = time.process_time()
        found = of_scores(rows.anomalous, scored)
    else:
        detector.fit(train)
        fitted = time.process_time()
        assessed = detector.assess(test)
        done = time.process_time()
        settings = detector.settings_in_use()
        found = of_assessment(rows.anomalous, assessed, _doubt(settings.referral, assessed), settings.false_alarms)
    return Measures(
        **found, fit_seconds=fitted - started, score_seconds=done - fitted, model_bytes=model_bytes(detector)
    )


def _doubt(rule: Referral, found: Assessment) -> Float[np.ndarray, " test"]:
    """What the rule goes by; the total uncertainty for one that ranks an example among the reference examples."""
    known = Uncertainty(**{field.name: getattr(found, field.name) for field in fields(Uncertainty)})
    if rule.NEEDS_RANKS:
        return known.total
    return rule.doubt(Evidence(uncertainty=known, prediction=found.prediction, below=None, reference=1))


def _z_scores(
    train: Float[np.ndarray, "train features"], test: Float[np.ndarray, "test features"]
) -> tuple[Float[np.ndarray, "train features"], Float[np.ndarray, "test features"]]:
    """Both in units of the training rows' standard deviation; a constant column is only centred."""
    mean, spread = train.mean(axis=0), train.std(axis=0)
    spread[spread == 0] = 1
    return (train - mean) / spread, (test - mean) / spread
