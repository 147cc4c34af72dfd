"""STRATH: 81 parts from a radial forge, 99 channels at 100 Hz, and what a coordinate measuring machine found.

A trace is the forging phase, the longest stretch with `Force [kN]` above 0. All are cut to the shortest and averaged
over bins of 10 samples: 562 steps in the paper. A part is an anomaly if |measured - nominal| of "38 dia @200" lies
outside Tukey's fences: 7 of 81. The i-th recording belongs to the i-th measured part.

A folder with a file GENERATED.txt holds made-up traces: the task says so, and so must every result on it.
"""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from indubio.errors import ConfigError, DataError
from indubio_lab.collections.collection import Archive, Collection, CollectionFile, Sensor, Task
from indubio_lab.collections.download import data_folder, fetch
from indubio_lab.collections.splits import Duplicates, TaskSplit, train_test

TRAIN_SHARE = 0.7  # paper, dataset table and text
PARTS = 81
BIN_SIZE = 10  # samples; paper, appendix "Data preprocessing"
FENCE = 1.5  # interquartile ranges, Tukey 1977
DIMENSION = "38 dia @200"
HEADER_ROWS = 4  # names, nominal values, upper and lower tolerance; then a part a row
FORCE = "Force [kN]"
MARKER = "GENERATED.txt"
GENERATED = "the traces are generated in the format of the real files: no result on them is a result on STRATH"

SENSORS = (
    Sensor(name="L_ACTpos", unit="mm", rate=100),
    Sensor(name="A_ACTspd", unit="mm/min", rate=100),
    Sensor(name="Feedback_SPA", unit="%", rate=100),
)
TASKS = {**{sensor.name: (sensor,) for sensor in SENSORS}, "all": SENSORS}

# No checksum of the zip or of a recording is known to us: recordings are checked by their columns.
ARCHIVE = Archive(
    name="strath.zip",
    addresses=("https://zenodo.org/record/3405265/files/STRATH%20radial%20forge%20dataset%20v2.zip?download=1",),
)
MEASUREMENTS = CollectionFile(
    path="strath/CMMData.xlsx",
    sha256="bdd5d04a7aa5aa1951b86391b4a7501a34708ced1e9ff4a59f2583a9443e844d",
    size=22_408,
    archive=ARCHIVE,
)
RECORDINGS = tuple(CollectionFile(path=f"strath/Scope{n:04}.csv", archive=ARCHIVE) for n in range(1, PARTS + 1))

STRATH = Collection(
    name="strath",
    title="STRATH, radial forging at the AFRC testbed",
    tasks=tuple(TASKS),
    files=(MEASUREMENTS, *RECORDINGS),
    sources=("https://doi.org/10.5281/zenodo.3405265",),
    licence="not known to us: see the Zenodo record",
    citation="C. Tachtatzis, G. Gourlay, I. Andonovic, O. Panni (2019). Sensor data set radial forging at AFRC "
    "testbed, version 2. Zenodo. doi:10.5281/zenodo.3405265",
)


def strath(
    task: str,
    *,
    bin_size: int = BIN_SIZE,
    train_share: float = TRAIN_SHARE,
    seed: int = 0,
    duplicates: Duplicates = "as_is",
    folder: str | Path | None = None,
    progress: bool | None = None,
) -> Task:
    """Forged parts by one sensor or all three; arrays are (N, L, K).

    Args:
        task: L_ACTpos, A_ACTspd, Feedback_SPA or all.
        bin_size: samples per step; the mean is taken over each bin.
        train_share: share of the inliers in train.
        seed: of the shuffling.
        duplicates: "as_is", or "one_side" to keep exactly equal traces together.
        folder: local data folder, by default what INDUBIO_DATA names; what is not there is downloaded.
        progress: show a progress bar for a download, by default on a terminal.
    """
    STRATH.check_task(task)
    split = TaskSplit(train_share=train_share, seed=seed, duplicates=duplicates)
    if isinstance(bin_size, bool) or not isinstance(bin_size, int) or bin_size < 1:
        raise ConfigError(f"`bin_size` must be an integer of at least 1, got {bin_size!r}.")
    sensors = TASKS[task]

    anomalous = outside_fences(deviations(fetch(MEASUREMENTS, folder=folder, progress=progress)))
    paths = _recordings(folder, progress)
    if len(paths) != len(anomalous):
        raise DataError(
            f"{paths[0].parent}: {len(paths)} recordings Scope*.csv for {len(anomalous)} measured parts. "
            f"Every part needs its recording."
        )
    windows = binned([forging_phase(path, sensors) for path in paths], bin_size)
    train, test_inliers = train_test(windows[~anomalous], windows[anomalous], split)
    generated = any((path.parent / MARKER).exists() for path in paths)
    return Task(
        collection=STRATH.name,
        name=task,
        train=train,
        test_inliers=test_inliers,
        test_anomalies=windows[anomalous],
        names=tuple(sensor.name for sensor in sensors),
        units=tuple(sensor.unit for sensor in sensors),
        sampling_rate=sensors[0].rate / bin_size,
        split=split,
        files=(MEASUREMENTS.name, *(path.name for path in paths)),
        licence=STRATH.licence,
        citation=STRATH.citation,
        generated=generated,
        remarks=(GENERATED,) if generated else (),
    )


def deviations(spreadsheet: Path) -> Float[np.ndarray, " parts"]:
    """|measured - nominal| of "38 dia @200", in mm, in the order of the parts."""
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        cells = CalamineWorkbook.from_path(spreadsheet).get_sheet_by_index(0).to_python()
    except CalamineError as error:
        raise DataError(f"{spreadsheet}: not a spreadsheet that can be read ({error}).") from None
    rows = [row for row in cells if any(cell != "" for cell in row)]
    if len(rows) <= HEADER_ROWS or DIMENSION not in rows[0]:
        raise DataError(f'{spreadsheet}: no column "{DIMENSION}" with measured parts in the first sheet.')
    column = rows[0].index(DIMENSION)
    nominal, *measured = (row[column] for row in (rows[1], *rows[HEADER_ROWS:]))
    without = [part for part, value in enumerate(measured, start=1) if not isinstance(value, int | float)]
    if without:
        raise DataError(f'{spreadsheet}: part {without[0]} has no "{DIMENSION}".')
    lengths = np.array([nominal, *measured], dtype=np.float64)
    return np.asarray(np.abs(lengths[1:] - lengths[0]))


def outside_fences(values: Float[np.ndarray, " values"], fence: float = FENCE) -> Bool[np.ndarray, " values"]:
    """Tukey's rule: below Q1 - 1.5 IQR or above Q3 + 1.5 IQR."""
    lower, upper = fences(values, fence)
    return np.asarray((values < lower) | (values > upper))


def fences(values: Float[np.ndarray, " values"], fence: float = FENCE) -> tuple[float, float]:
    """Tukey's fences: Q1 - 1.5 IQR and Q3 + 1.5 IQR."""
    lower, upper = np.quantile(values, [0.25, 0.75])
    reach = fence * (upper - lower)
    return float(lower - reach), float(upper + reach)


def forging_phase(path: Path, sensors: Sequence[Sensor]) -> Float[np.ndarray, "steps sensors"]:
    """The forging phase of one recording: of its 99 columns only those needed are read, and the rest is not kept."""
    force, channels = recording(path, sensors)
    try:
        return channels[forging(force)]
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def recording(
    path: Path, sensors: Sequence[Sensor]
) -> tuple[Float[np.ndarray, " samples"], Float[np.ndarray, "samples sensors"]]:
    """A whole recording: the force, and the sensors."""
    force, *channels = _columns(path, (FORCE, *(f"{sensor.name} [{sensor.unit}]" for sensor in sensors)))
    return force, np.column_stack(channels)


def forging(force: Float[np.ndarray, " samples"]) -> slice:
    """Where the part is forged: the longest stretch with a force above 0."""
    edges = np.flatnonzero(np.diff(force > 0, prepend=False, append=False))
    if len(edges) == 0:
        raise DataError(f"`{FORCE}` never rises above 0, so there is no forging phase.")
    starts, stops = edges[::2], edges[1::2]
    longest = np.argmax(stops - starts)
    return slice(int(starts[longest]), int(stops[longest]))


def binned(traces: Sequence[Float[np.ndarray, "_ sensors"]], bin_size: int) -> Float[np.ndarray, "parts bins sensors"]:
    """All traces cut to the shortest, then the mean of each bin; samples that fill no bin are left out."""
    bins = min(map(len, traces)) // bin_size
    if bins == 0:
        raise DataError(f"the shortest forging phase has fewer samples than one bin of {bin_size}.")
    cut = np.stack([trace[: bins * bin_size] for trace in traces])
    return np.asarray(cut.reshape(len(cut), bins, bin_size, -1).mean(axis=2))


def local_recordings(folder: str | Path | None = None) -> list[Path]:
    """The Scope files of the local folder, by number; nothing is downloaded."""
    root = data_folder(folder)
    local = (root / "strath").glob("Scope*.csv") if root is not None else ()
    found = {
        int(match[1]): path for path in local if (match := re.fullmatch(r"Scope(\d+)\.csv", path.name)) is not None
    }
    return [found[number] for number in sorted(found)]


def _recordings(folder: str | Path | None, progress: bool | None) -> list[Path]:
    """The Scope files by number: those of the local folder, else the download."""
    return local_recordings(folder) or [fetch(file, folder=folder, progress=progress) for file in RECORDINGS]


def _columns(path: Path, names: Sequence[str]) -> list[Float[np.ndarray, " samples"]]:
    """Some columns of a recording. Columns go by place: the header repeats a name, and its encoding varies."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    with path.open(encoding="latin-1", newline="") as content:
        header = next(csv.reader(content), [])
    missing = [name for name in names if name not in header]
    if missing:
        raise DataError(f"{path}: no column {', '.join(map(repr, missing))} among the {len(header)} of its header.")
    wanted = [str(header.index(name)) for name in names]
    try:
        table = arrow.read_csv(
            path,
            arrow.ReadOptions(column_names=[str(place) for place in range(len(header))], skip_rows=1),
            convert_options=arrow.ConvertOptions(
                include_columns=wanted, column_types={place: pa.float64() for place in wanted}
            ),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: {error}") from None
    columns = [table[place].to_numpy() for place in wanted]
    for name, values in zip(names, columns, strict=True):
        if not np.isfinite(values).all():
            raise DataError(f"{path}: a value of `{name}` is missing in row {np.argmin(np.isfinite(values)) + 2}.")
    return columns
