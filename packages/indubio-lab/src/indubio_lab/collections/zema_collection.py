"""ZeMA: condition monitoring of a hydraulic test rig, 2205 cycles of 60 s, 17 sensors, 4 components that wear.

An inlier is a cycle with the task's component in its best state, whatever the others are like; an anomaly has this
component worse and the other three at their best. This gives the counts of the paper's dataset table; its text
("the remaining states as anomalies") does not. Cycles with several worn components are in neither.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from indubio.errors import ConfigError, DataError
from indubio_lab.collections.collection import Archive, Collection, CollectionFile, Sensor, Task
from indubio_lab.collections.download import fetch, find_local
from indubio_lab.collections.splits import Duplicates, TaskSplit, train_test

TRAIN_SHARE = 0.7  # paper, dataset table and text
SECONDS = 60  # of a cycle, and steps after downsampling to 1 Hz

# The best state of each component, in the order of the columns of profile.txt.
BEST = {"cooler": 100, "valve": 100, "pump": 0, "accumulator": 130}

ZEMA_SENSORS = {
    sensor.name: sensor
    for sensor in (
        *(Sensor(name=f"PS{n}", unit="bar", rate=100) for n in range(1, 7)),
        Sensor(name="EPS1", unit="W", rate=100),
        *(Sensor(name=f"FS{n}", unit="l/min", rate=10) for n in (1, 2)),
        *(Sensor(name=f"TS{n}", unit="°C", rate=1) for n in range(1, 5)),
        Sensor(name="VS1", unit="mm/s", rate=1),
        Sensor(name="CE", unit="%", rate=1),
        Sensor(name="CP", unit="kW", rate=1),
        Sensor(name="SE", unit="%", rate=1),
    )
}

# One sensor per task: the paper's text, the authors' scripts, and what separates best.
ZEMA_SENSOR_SETS = {
    "text": dict(zip(BEST, ("TS4", "TS4", "PS6", "TS4"), strict=True)),
    "authors": dict(zip(BEST, ("PS3", "PS3", "SE", "PS3"), strict=True)),
    "fits": dict(zip(BEST, ("TS4", "PS1", "SE", "TS4"), strict=True)),
}
CHOSEN_ON_TEST = 'the sensor set "fits" was chosen on test labels'

Downsampling = Literal["mean", "fourier"]

# No checksum of either zip is known to us. What is known is that of the members at 1 Hz, and the full-rate ones are
# checked by their shape.
ARCHIVE = Archive(
    name="zema.zip",
    addresses=(
        "https://archive.ics.uci.edu/static/public/447/condition+monitoring+of+hydraulic+systems.zip",
        "https://zenodo.org/record/1323611/files/data.zip?download=1",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00447/data.zip",
    ),
    size=76_601_704,  # the first one, as public repositories report it
)

_KNOWN = {
    "profile": ("867987ca884b2f0fd607ad3918329eba887d095af2befa21122cea518eaa584a", 31_196),
    "TS1": ("49cae5e9013d8e230698d95f53a98bb77fedfe3c86985b812cf701dcc9ef06d8", 904_586),
    "TS2": ("34115a5b86886d83c0592c1ed259605634a8c83d3a051e97bf3e5790f1db58fa", 910_594),
    "TS3": ("cc271852b4caad39a3b8f5c36d948b57f6cab761dad8b4c7bdd7cb7e99c0b980", 908_805),
    "TS4": ("548b903f7cd4ea7f2497c0063bdda4bdf8793d55ff43a7d694b8cb835eaf2f55", 910_127),
    "VS1": ("a6227d9bcb807ee9835c32e73834d3eb9262f0f5cad1b176ca10c473ced25e99", 778_499),
    "CE": ("2adc6e258be8e3b7a303b7962f485a7984099cea21248c3bf9f18c7d87283c09", 911_516),
    "CP": ("63f60132cb5a30879c6f5c73640a39c69e416013195fe62dafe5133b0747baf4", 779_343),
    "SE": ("4c04994cb28b82c001b4931acecf8099e9fe5c864f361c0a7435fbf8745361a1", 824_838),
}


def _file(name: str) -> CollectionFile:
    sha256, size = _KNOWN.get(name, (None, None))
    return CollectionFile(path=f"zema/{name}.txt", sha256=sha256, size=size, archive=ARCHIVE)


FILES = {name: _file(name) for name in ("profile", *ZEMA_SENSORS)}

ZEMA = Collection(
    name="zema",
    title="ZeMA, condition monitoring of hydraulic systems",
    tasks=tuple(BEST),
    files=tuple(FILES.values()),
    sources=(
        "https://archive.ics.uci.edu/dataset/447/condition+monitoring+of+hydraulic+systems",
        "https://doi.org/10.5281/zenodo.1323611",
    ),
    licence="CC BY 4.0",
    citation="N. Helwig, E. Pignanelli, A. Schütze (2015). Condition Monitoring of a Complex Hydraulic System Using "
    "Multivariate Statistics. I2MTC 2015, PPS1-39. doi:10.1109/I2MTC.2015.7151267. "
    "Data: doi:10.24432/C5CW21, doi:10.5281/zenodo.1323611",
)


def zema(
    task: str,
    *,
    sensors: str | Sequence[str] = "text",
    downsample: Downsampling = "mean",
    train_share: float = TRAIN_SHARE,
    seed: int = 0,
    duplicates: Duplicates = "as_is",
    folder: str | Path | None = None,
    progress: bool | None = None,
) -> Task:
    """One component of the test rig; arrays are (N, 60, K), one step a second.

    Args:
        task: cooler, valve, pump or accumulator.
        sensors: one of the 17 sensors, several of them, or a set by name: "text" (the paper's text), "authors" (their
            scripts) or "fits" (chosen on test labels: only for finding out what the others lack).
        downsample: "mean" of each second, or "fourier" (scipy.signal.resample), for sensors above 1 Hz. "fourier"
            needs the full-rate file; "mean" also reads `*_1hz.txt`, which holds the means.
        train_share: share of the inliers in train.
        seed: of the shuffling.
        duplicates: "as_is", or "one_side" to keep exactly equal windows together.
        folder: local data folder, by default what INDUBIO_DATA names; what is not there is downloaded.
        progress: show a progress bar for a download, by default on a terminal.
    """
    ZEMA.check_task(task)
    split = TaskSplit(train_share=train_share, seed=seed, duplicates=duplicates)
    if downsample not in get_args(Downsampling):
        raise ConfigError(f"`downsample` must be one of {', '.join(get_args(Downsampling))}, got {downsample!r}.")
    chosen = _chosen(sensors, task)

    inlier, anomalous = _labels(fetch(FILES["profile"], folder=folder, progress=progress), task)
    paths = [_sensor_file(sensor, downsample, folder, progress) for sensor in chosen]
    windows = np.stack(
        [_at_1hz(_cycles(path, sensor, len(inlier)), downsample) for path, sensor in zip(paths, chosen, strict=True)],
        axis=-1,
    )
    train, test_inliers = train_test(windows[inlier], windows[anomalous], split)
    return Task(
        collection=ZEMA.name,
        name=task,
        train=train,
        test_inliers=test_inliers,
        test_anomalies=windows[anomalous],
        names=tuple(sensor.name for sensor in chosen),
        units=tuple(sensor.unit for sensor in chosen),
        sampling_rate=1.0,
        split=split,
        files=tuple(path.name for path in paths),
        licence=ZEMA.licence,
        citation=ZEMA.citation,
        remarks=(CHOSEN_ON_TEST,) if sensors == "fits" else (),
    )


def _chosen(sensors: str | Sequence[str], task: str) -> tuple[Sensor, ...]:
    if isinstance(sensors, str):
        sensors = (ZEMA_SENSOR_SETS[sensors][task] if sensors in ZEMA_SENSOR_SETS else sensors,)
    unknown = [name for name in sensors if name not in ZEMA_SENSORS]
    if unknown or not sensors or len(set(sensors)) < len(sensors):
        raise ConfigError(
            f"`sensors` must be one or several different of {', '.join(ZEMA_SENSORS)}, or one of the sets "
            f"{', '.join(ZEMA_SENSOR_SETS)}, got {', '.join(map(repr, unknown or sensors)) or 'none'}."
        )
    return tuple(ZEMA_SENSORS[name] for name in sensors)


def _labels(profile: Path, task: str) -> tuple[Bool[np.ndarray, " cycles"], Bool[np.ndarray, " cycles"]]:
    """Which cycles are inliers, and which are anomalies. The stability flag, the fifth column, is not used."""
    states = _numbers(profile)
    if states.shape[1] != len(BEST) + 1:
        raise DataError(f"{profile}: 5 columns are needed (4 components, stability), got {states.shape[1]}.")
    at_best = states[:, : len(BEST)] == list(BEST.values())
    inlier = at_best[:, list(BEST).index(task)]
    only_this_worse = ~inlier & (at_best.sum(axis=1) == len(BEST) - 1)
    return inlier, only_this_worse


def _sensor_file(sensor: Sensor, downsample: Downsampling, folder: str | Path | None, progress: bool | None) -> Path:
    """The original file if it is in the local folder, else the means that are there, else the download."""
    file = FILES[sensor.name]
    if sensor.rate > 1 and downsample == "mean" and find_local(file.path, folder) is None:
        means = find_local(f"zema/{sensor.name}_1hz.txt", folder)
        if means is not None:
            return means
    return fetch(file, folder=folder, progress=progress)


def _cycles(path: Path, sensor: Sensor, cycles: int) -> Float[np.ndarray, "cycles steps"]:
    """The recordings of one sensor, a cycle a row, at the rate of the file."""
    values = _numbers(path)
    rate = 1 if path.stem.endswith("_1hz") else sensor.rate
    if values.shape != (cycles, SECONDS * rate):
        raise DataError(f"{path}: {cycles} cycles of {SECONDS * rate} values are needed, got {values.shape}.")
    return values


def _at_1hz(values: Float[np.ndarray, "cycles steps"], downsample: Downsampling) -> Float[np.ndarray, "cycles seconds"]:
    if values.shape[1] == SECONDS:
        return values
    if downsample == "mean":
        return np.asarray(values.reshape(len(values), SECONDS, -1).mean(axis=2))
    from scipy.signal import resample

    return np.asarray(resample(values, SECONDS, axis=1))


def _numbers(path: Path) -> Float[np.ndarray, "rows columns"]:
    """A file of tab-separated numbers. On 2205 x 6000 numpy's reader is faster than pyarrow's, in half the memory."""
    try:
        values = np.loadtxt(path, delimiter="\t", ndmin=2)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0] + 1
        raise DataError(f"{path}: a value is missing in row {row}, column {column}.")
    return values
