"""Every collection: the numbers of the paper's dataset table, and what holds for each task."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from indubio.errors import ConfigError
from indubio_lab import collections as datasets
from indubio_lab.collections import DATASETS, adbench_table, count_repeated, count_shared, odds, strath, zema
from tests.strath_traces import COLUMNS, write_traces

# Paper, dataset table: train inliers, test inliers, test anomalies, features.
TABLE = {
    ("odds", "cardio"): (1324, 331, 176, 21),
    ("odds", "lympho"): (113, 29, 6, 18),
    ("odds", "optdigits"): (4052, 1014, 150, 64),
    ("odds", "pendigits"): (5371, 1343, 156, 16),
    ("odds", "thyroid"): (2943, 736, 93, 6),
    ("odds", "ionosphere"): (180, 45, 126, 33),
    ("odds", "pima"): (400, 100, 268, 8),
    ("odds", "vowels"): (1124, 282, 50, 12),
    ("zema", "cooler"): (518, 223, 242, 60),
    ("zema", "valve"): (787, 338, 30, 60),
    ("zema", "pump"): (854, 367, 22, 60),
    ("zema", "accumulator"): (419, 180, 272, 60),
    ("strath", "L_ACTpos"): (51, 23, 7, 562),
    ("strath", "A_ACTspd"): (51, 23, 7, 562),
    ("strath", "Feedback_SPA"): (51, 23, 7, 562),
    ("strath", "all"): (51, 23, 7, 1686),
}
LOADERS: dict[str, Callable[..., object]] = {"odds": odds, "zema": zema, "strath": strath, "adbench": adbench_table}

# Exact copies of another row, and how many of them are inliers: only those can leak from test into train.
REPEATED = {
    "cardio": (9, 8),
    "lympho": (0, 0),
    "optdigits": (18, 0),
    "pendigits": (0, 0),
    "thyroid": (116, 116),
    "ionosphere": (1, 0),
    "pima": (0, 0),
    "vowels": (4, 0),
}


@pytest.fixture(scope="session")
def folders(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The real data; for STRATH the real measurements with generated traces, as long as the paper's."""
    made = tmp_path_factory.mktemp("made")
    write_traces(made / "strath", rows=5640, shortest=5624, filler=False)
    (made / "strath" / "CMMData.xlsx").symlink_to(data_folder / "strath" / "CMMData.xlsx")
    return {"odds": data_folder, "zema": data_folder, "strath": made}


@pytest.mark.parametrize(("collection", "task"), TABLE)
def test_a_task_has_the_counts_of_the_papers_table(collection, task, folders):
    found = LOADERS[collection](task, folder=folders[collection])
    counts = len(found.train), len(found.test_inliers), len(found.test_anomalies), found.features
    assert counts == TABLE[collection, task]


@pytest.mark.parametrize(("collection", "task"), [*TABLE][:12])
def test_the_facts_fit_the_arrays(collection, task, folders):
    found = LOADERS[collection](task, folder=folders[collection])
    assert (found.collection, found.name) == (collection, task)
    assert len(found.names) == len(found.units) == found.train.shape[-1]
    assert len(set(found.names)) == len(found.names)
    assert (found.sampling_rate is None) == (found.train.ndim == 2)
    assert not found.generated
    assert found.train.dtype == np.float64
    assert np.isfinite(found.train).all()
    assert np.isfinite(found.test).all()
    np.testing.assert_array_equal(found.test[found.labels == 0], found.test_inliers)
    np.testing.assert_array_equal(found.test[found.labels == 1], found.test_anomalies)


@pytest.mark.parametrize(("collection", "task"), [("odds", "cardio"), ("zema", "pump")])
def test_the_same_seed_gives_the_same_split_and_another_seed_another(collection, task, folders):
    load = LOADERS[collection]
    first, same, other = (load(task, seed=seed, folder=folders[collection]) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.train, same.train)
    np.testing.assert_array_equal(first.test, same.test)
    assert not np.array_equal(first.train, other.train)
    np.testing.assert_array_equal(first.test_anomalies, other.test_anomalies)


@pytest.mark.parametrize("task", DATASETS["odds"].tasks)
def test_exact_duplicates_are_as_many_as_known_and_only_inliers_leak(task, data_folder):
    found = odds(task, folder=data_folder)
    inliers = np.concatenate([found.train, found.test_inliers])
    assert (count_repeated(np.concatenate([found.train, found.test])), count_repeated(inliers)) == REPEATED[task]
    assert (count_shared(found.train, found.test) > 0) == (REPEATED[task][1] > 0)


@pytest.mark.parametrize("task", DATASETS["odds"].tasks)
def test_duplicates_on_one_side_leave_none_across_and_keep_the_counts(task, data_folder):
    found = odds(task, folder=data_folder, duplicates="one_side")
    assert count_shared(found.train, found.test) == 0
    assert (len(found.train), len(found.test_inliers)) == TABLE["odds", task][:2]


def test_the_list_names_every_collection_file_of_the_folder():
    here = Path(datasets.__file__).parent
    assert set(DATASETS) == {path.stem.removesuffix("_collection") for path in here.glob("*_collection.py")}
    assert set(DATASETS) == set(LOADERS)


@pytest.mark.parametrize("name", DATASETS)
def test_a_collection_says_what_a_user_must_know(name):
    collection = DATASETS[name]
    assert collection.name == name
    assert name == "adbench" or [task for of, task in TABLE if of == name] == list(collection.tasks)
    assert collection.title
    assert collection.sources
    assert collection.licence
    assert collection.citation
    for file in collection.files:
        assert file.path.startswith(f"{name}/")
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert bool(file.addresses) != (file.archive is not None), "by itself or in an archive"


@pytest.mark.parametrize("name", DATASETS)
def test_the_known_checksums_are_those_of_the_files(name, data_folder):
    listed = {
        path.removeprefix("data/"): sha256
        for sha256, path in (line.split() for line in (data_folder / "SHA256SUMS").read_text().splitlines())
    }
    for file in DATASETS[name].files:
        assert file.sha256 == listed.get(file.path)
        if file.sha256 is not None:
            assert file.size == (data_folder / file.path).stat().st_size


@pytest.mark.parametrize("name", DATASETS)
def test_an_unknown_task_is_refused_with_the_known_ones(name):
    with pytest.raises(ConfigError, match=rf"`task` must be one of {', '.join(DATASETS[name].tasks)} .*'gearbox'"):
        LOADERS[name]("gearbox")


def test_generated_traces_have_the_header_of_the_real_recordings(data_folder):
    header = (data_folder / "strath" / "Scope_excerpt.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == ",".join(f'"{name}"' for name in COLUMNS)
