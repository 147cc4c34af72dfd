"""ODDS: eight tables of the Outlier Detection DataSets library (Rayana 2016).

The .mat files carry no column names. Those below are the names of the UCI originals in their order; the number of
values, the ranges and the means of the columns agree with them.
"""

import zlib
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from indubio.errors import DataError
from indubio_lab.collections.collection import Collection, CollectionFile, LabelledTable, Task
from indubio_lab.collections.download import fetch
from indubio_lab.collections.splits import Duplicates, TaskSplit, train_test

TRAIN_SHARE = 0.8  # paper, dataset table; its text says 0.7

NAMES: dict[str, tuple[str, ...]] = {
    "cardio": (
        "LB",
        "AC",
        "FM",
        "UC",
        "DL",
        "DS",
        "DP",
        "ASTV",
        "MSTV",
        "ALTV",
        "MLTV",
        "Width",
        "Min",
        "Max",
        "Nmax",
        "Nzeros",
        "Mode",
        "Mean",
        "Median",
        "Variance",
        "Tendency",
    ),
    "lympho": (
        "lymphatics",
        "block of affere",
        "bl. of lymph. c",
        "bl. of lymph. s",
        "by pass",
        "extravasates",
        "regeneration of",
        "early uptake in",
        "lym.nodes dimin",
        "lym.nodes enlar",
        "changes in lym.",
        "defect in node",
        "changes in node",
        "changes in stru",
        "special forms",
        "dislocation of",
        "exclusion of no",
        "no. of nodes in",
    ),
    "optdigits": tuple(f"pixel_{row}_{column}" for row in range(1, 9) for column in range(1, 9)),
    "pendigits": tuple(f"{axis}{point}" for point in range(1, 9) for axis in "xy"),
    "thyroid": ("age", "TSH", "T3", "TT4", "T4U", "FTI"),
    # The imaginary part of the first pulse is zero throughout, and ODDS has left it out.
    "ionosphere": (
        "pulse_1_real",
        *(f"pulse_{pulse}_{part}" for pulse in range(2, 18) for part in ("real", "imaginary")),
    ),
    "pima": (
        "pregnancies",
        "glucose",
        "blood_pressure",
        "skin_thickness",
        "insulin",
        "bmi",
        "pedigree",
        "age",
    ),
    "vowels": tuple(f"lpc_{coefficient}" for coefficient in range(1, 13)),
}

# The other sets are standardised, scaled to [0, 1], counts or codes: without a unit.
UNITS: dict[str, tuple[str | None, ...]] = {"pima": (None, None, "mm Hg", "mm", "mu U/ml", "kg/m^2", None, "years")}

_GITHUB = "https://raw.githubusercontent.com"
_DROPBOX = "https://www.dropbox.com/s"  # where the ODDS pages link to
_PYOD = f"{_GITHUB}/yzhao062/pyod"


def _file(task: str, sha256: str, size: int, *addresses: str) -> CollectionFile:
    return CollectionFile(path=f"odds/{task}.mat", sha256=sha256, size=size, addresses=addresses)


# Mirrors are pinned to a commit. Whatever they send, only a file with this checksum is taken.
FILES = {
    "cardio": _file(
        "cardio",
        "5e568b6a73711012c481fa6cc984ab9c68e9a4fa44d6aeb3b43efa381c3f695b",
        68_318,
        f"{_DROPBOX}/galg3ihvxklf0qi/cardio.mat?dl=1",
        f"{_PYOD}/71246f49518da607e0b879ac0d7446fdac3d8d3c/examples/example_data/cardio.mat",
    ),
    "lympho": _file(
        "lympho",
        "031b907ecb50347720b08b38f8139d05635adeca9335a064d89d5569c27a5834",
        1_269,
        f"{_DROPBOX}/ag469ssk0lmctco/lympho.mat?dl=1",
        f"{_PYOD}/b247c08568cbc8147f3fe873a925c4deff89b8b9/notebooks/data/lympho.mat",
    ),
    "optdigits": _file(
        "optdigits",
        "30c664cd6f3740a173277a27cd1028d471b06f0835a9902c9712749cec58c1c4",
        197_453,
        f"{_DROPBOX}/w52ndgz5k75s514/optdigits.mat?dl=1",
        f"{_PYOD}/b247c08568cbc8147f3fe873a925c4deff89b8b9/notebooks/data/optdigits.mat",
    ),
    "pendigits": _file(
        "pendigits",
        "7bc32ac83b3d583443acea8b1342a54aaa59eaedb9996af405322f473f3c22bc",
        658_866,
        f"{_DROPBOX}/1x8rzb4a0lia6t1/pendigits.mat?dl=1",
        f"{_PYOD}/b247c08568cbc8147f3fe873a925c4deff89b8b9/notebooks/data/pendigits.mat",
        f"{_GITHUB}/georgeeks/Anomaly-Detection/3eff42ba016065e5800148b430cff1aa74ba8313/data/pendigits.mat",
    ),
    "thyroid": _file(
        "thyroid",
        "49155d7861b977e90808faf68343ff67a67f63090c2744d514dbb67ac68e7e33",
        39_704,
        f"{_DROPBOX}/bih0e15a0fukftb/thyroid.mat?dl=1",
        f"{_PYOD}/ef6d5e8dc828615f498286c1d6a22cbd02fd4cd2/notebooks/data/thyroid.mat",
    ),
    "ionosphere": _file(
        "ionosphere",
        "8ac5dfa6f47db4acdfe10615489b7f7dd015d79d5b381ce641e72baca3cfefb0",
        58_517,
        f"{_DROPBOX}/lpn4z73fico4uup/ionosphere.mat?dl=1",
        f"{_PYOD}/ea62c2d0f10700f1e937f89c32f1b6aa8e61c817/examples/data/ionosphere.mat",
    ),
    "pima": _file(
        "pima",
        "b6a5be8d548b9293d6958beceb1c77055591714d25d40d957eba87808456468f",
        11_320,
        f"{_DROPBOX}/mvlwu7p0nyk2a2r/pima.mat?dl=1",
        f"{_PYOD}/1fa3fcc5e728bc2be7eaf06798f3b8e4d6b981e6/pyod/test/data/pima.mat",
        f"{_GITHUB}/georgeeks/Anomaly-Detection/3eff42ba016065e5800148b430cff1aa74ba8313/data/pima.mat",
    ),
    "vowels": _file(
        "vowels",
        "51d5397bad1ceeda22b7cd44fd58125c5d603c9c2edb53aa59933330e259ac7b",
        134_107,
        f"{_DROPBOX}/pa26odoq6atq9vx/vowels.mat?dl=1",
        f"{_GITHUB}/georgeeks/Anomaly-Detection/3eff42ba016065e5800148b430cff1aa74ba8313/data/vowels.mat",
    ),
}

ODDS = Collection(
    name="odds",
    title="ODDS, Outlier Detection DataSets",
    tasks=tuple(FILES),
    files=tuple(FILES.values()),
    sources=("http://odds.cs.stonybrook.edu", "https://shebuti.com/outlier-detection-datasets-odds/"),
    licence="none stated; the library asks to be cited, and the originals are data sets of the UCI repository",
    citation="S. Rayana (2016). ODDS Library. Stony Brook University, Department of Computer Science. "
    "http://odds.cs.stonybrook.edu",
)


def odds(
    task: str,
    *,
    train_share: float = TRAIN_SHARE,
    seed: int = 0,
    duplicates: Duplicates = "as_is",
    folder: str | Path | None = None,
    progress: bool | None = None,
) -> Task:
    """One of the eight tables, inliers parted into train and test; arrays are (N, D).

    Args:
        task: cardio, lympho, optdigits, pendigits, thyroid, ionosphere, pima or vowels.
        train_share: share of the inliers in train.
        seed: of the shuffling.
        duplicates: "as_is", or "one_side" to keep exactly equal rows together (thyroid and cardio have some).
        folder: local data folder, by default what INDUBIO_DATA names; what is not there is downloaded.
        progress: show a progress bar for a download, by default on a terminal.
    """
    ODDS.check_task(task)
    split = TaskSplit(train_share=train_share, seed=seed, duplicates=duplicates)
    table = odds_table(task, folder=folder, progress=progress)
    rows, anomalous = table.rows, table.anomalous
    train, test_inliers = train_test(rows[~anomalous], rows[anomalous], split)
    return Task(
        collection=ODDS.name,
        name=task,
        train=train,
        test_inliers=test_inliers,
        test_anomalies=rows[anomalous],
        names=table.names,
        units=UNITS.get(task, (None,) * len(NAMES[task])),
        sampling_rate=None,
        split=split,
        files=(FILES[task].name,),
        licence=ODDS.licence,
        citation=ODDS.citation,
    )


def odds_table(task: str, *, folder: str | Path | None = None, progress: bool | None = None) -> LabelledTable:
    """One of the eight tables as it is published, not parted.

    Args:
        task: as for `odds`.
        folder: local data folder, by default what INDUBIO_DATA names; what is not there is downloaded.
        progress: show a progress bar for a download, by default on a terminal.
    """
    ODDS.check_task(task)
    rows, anomalous = _read(fetch(FILES[task], folder=folder, progress=progress), len(NAMES[task]))
    return LabelledTable(rows=rows, anomalous=anomalous, names=NAMES[task])


def _read(path: Path, features: int) -> tuple[Float[np.ndarray, "rows features"], Bool[np.ndarray, " rows"]]:
    """The rows of a MATLAB file, and which of them are anomalies."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(path, variable_names=["X", "y"])
    except NotImplementedError:
        raise DataError(f"{path}: a MATLAB 7.3 file, which needs h5py. Save it as version 7.") from None
    except (ValueError, TypeError, LookupError, EOFError, zlib.error, MatReadError) as error:
        raise DataError(f"{path}: not a MATLAB file that can be read ({error}).") from None
    if not {"X", "y"} <= content.keys():
        raise DataError(f"{path}: X and y are needed, as in every ODDS file.")
    rows, labels = content["X"].astype(np.float64), content["y"].ravel()
    if rows.ndim != 2 or rows.shape[1] != features or len(labels) != len(rows):
        raise DataError(f"{path}: X must be (rows, {features}) with a y for each row, got {rows.shape}, {len(labels)}.")
    return rows, labels == 1
