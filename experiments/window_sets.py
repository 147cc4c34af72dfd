"""Recordings of machines for `experiments.windows`: how each was cut and split.

cwru    bearing vibrations, drive end and fan end. The healthy run (97) is recorded at 48 kHz and the fault runs at
        12 kHz: taken for 12 kHz, its lines lie at 1.35, 1.60 and 3.01 shaft orders, a quarter of theirs (5.40, 6.40
        and 12.03). So it is brought down to 12 kHz first (FIR filter). The first 60 % of it train, the rest is the
        good part of every test. Windows of 1024 samples. Once as they are, once with noise of 0.3 g on all.
skab    valve1, 8 sensors at 1 Hz, windows of 30 rows. `anomaly-free.csv` is from another day and another flow (122
        against 32), so that every window of valve1 is far from it: the first 400 rows of each file train instead,
        as the benchmark's authors do, and the others test. A window is anomalous if at least half of its rows are.
zema    four components of a hydraulic rig, 60 samples of all 17 sensors, or of the one that the paper's text or the
        authors' scripts name; 70 % of the good cycles train.
gearbox healthy and with a broken tooth, four accelerometers, windows of 1024. Seen loads: the first 12,000 samples
        of each healthy load train. Other loads: 0 to 40 % train, 50 to 90 % test.
cmapss  turbofans that run until they fail, windows of 30 cycles of 21 sensors: the first half of the life of 60 % of
        the engines trains; of the others it is good, and the last 60 cycles are not.
"""

import csv
import gzip
import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.io import loadmat
from scipy.signal import decimate

from indubio_lab.collections import ZEMA_SENSORS, zema
from indubio_lab.collections.zema_collection import BEST

FAULTS = ("B-007-118_0", "B-021-222_0", "IR-007-105_0", "IR-021-209_0", "OR-007-@6-130@6_0", "OR-021-@6-234_0")
Tests = Callable[[], Iterator[tuple[str, np.ndarray, np.ndarray]]]


def _folder() -> Path:
    return Path(os.environ["INDUBIO_DATA"])


def _cut(samples: np.ndarray, length: int, step: int) -> np.ndarray:
    return np.ascontiguousarray(sliding_window_view(samples, length, axis=0)[::step].transpose(0, 2, 1))


@cache
def _vibrations(name: str) -> np.ndarray:
    found = loadmat(_folder() / "cwru" / f"{name}.mat")
    ends = [next(key for key in found if key.endswith(f"{end}_time")) for end in ("DE", "FE")]
    return np.stack([found[key].ravel() for key in ends], axis=1)


def cwru() -> tuple[np.ndarray, Tests]:
    """The healthy run in two parts, and six fault runs."""
    healthy = decimate(_vibrations("normal-97_Normal_0"), 4, ftype="fir", axis=0)
    cut = int(0.6 * len(healthy))
    good = _cut(healthy[cut:], 1024, 256)

    def tests() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        for name in FAULTS:
            bad = _cut(_vibrations(name), 1024, 1024)
            yield f"cwru {name[:6].strip('-')}", np.concatenate([good, bad]), np.repeat([0, 1], [len(good), len(bad)])

    return _cut(healthy[:cut], 1024, 256), tests


def skab(number: int) -> tuple[np.ndarray, Tests]:
    """One file of valve1."""
    with (_folder() / "skab" / "valve1" / f"{number}.csv").open() as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    sensors = [name for name in rows[0] if name not in ("datetime", "anomaly", "changepoint")]
    values = np.array([[float(row[name]) for name in sensors] for row in rows])
    labels = np.array([[float(row["anomaly"])] for row in rows])

    def tests() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        anomalous = _cut(labels[400:], 30, 2)[:, :, 0].mean(axis=1) >= 0.5
        yield f"skab valve1/{number}", _cut(values[400:], 30, 2), anomalous

    return _cut(values[:400], 30, 1), tests


def hydraulics(component: str, sensors: str | None) -> tuple[np.ndarray, Tests]:
    """One component of the hydraulic rig, by all sensors or by the one of a set."""
    task = zema(component, sensors=sensors or tuple(ZEMA_SENSORS), folder=_folder())

    def tests() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        yield f"zema{'' if sensors is None else f', {sensors}'} {component}", task.test, task.labels

    return task.train, tests


def noisy_cwru() -> tuple[np.ndarray, Tests]:
    """The same with noise of 0.3 g, four times the healthy signal: faults are no longer loud."""
    random = np.random.default_rng(0)
    train, tests = cwru()

    def noisy() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        for name, windows, labels in tests():
            yield f"cwru+.3g {name[5:]}", windows + 0.3 * random.normal(size=windows.shape), labels

    return train + 0.3 * random.normal(size=train.shape), noisy


def gearbox(*, seen: bool) -> tuple[np.ndarray, Tests]:
    """Healthy and with a broken tooth, at loads that were in training, or at others."""
    found = np.load(_folder() / "gearbox" / "gearbox.npz")
    trained, tested = (range(0, 100, 10), range(0, 100, 10)) if seen else (range(0, 50, 10), range(50, 100, 10))
    stop = 12000 if seen else None
    train = np.concatenate([_cut(found[f"h30hz{load}"][:stop], 1024, 256) for load in trained])

    def tests() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        good = np.concatenate([_cut(found[f"h30hz{load}"][stop or 0 :], 1024, 512) for load in tested])
        bad = np.concatenate([_cut(found[f"b30hz{load}"], 1024, 512) for load in tested])
        labels = np.repeat([0, 1], [len(good), len(bad)])
        yield f"gearbox {'seen' if seen else 'other'} loads", np.concatenate([good, bad]), labels

    return train, tests


def turbofans() -> tuple[np.ndarray, Tests]:
    """Engines that run until they fail."""
    with gzip.open(_folder() / "cmapss" / "train_FD001.txt.gz", "rt") as file:
        values = np.array([[float(value) for value in line.split()] for line in file])
    units = [values[values[:, 0] == unit][:, 5:] for unit in np.unique(values[:, 0])]
    cut = int(0.6 * len(units))

    def tests() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        good = np.concatenate([_cut(unit[: len(unit) // 2], 30, 2) for unit in units[cut:]])
        bad = np.concatenate([_cut(unit[-60:], 30, 2) for unit in units[cut:]])
        yield "cmapss", np.concatenate([good, bad]), np.repeat([0, 1], [len(good), len(bad)])

    return np.concatenate([_cut(unit[: len(unit) // 2], 30, 2) for unit in units[:cut]]), tests


SETS: dict[str, Callable[[], tuple[np.ndarray, Tests]]] = {
    "cwru": cwru,
    "cwru+.3g": noisy_cwru,
    **{f"skab {number}": partial(skab, number) for number in range(8)},
    **{f"zema {component}": partial(hydraulics, component, None) for component in BEST},
    **{
        f"zema, {one} {component}": partial(hydraulics, component, one)
        for one in ("authors", "text")
        for component in BEST
    },
    "gearbox seen loads": partial(gearbox, seen=True),
    "gearbox other loads": partial(gearbox, seen=False),
    "cmapss": turbofans,
}
