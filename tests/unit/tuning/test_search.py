"""The search for settings without labels."""

import tomllib
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from distributed import LocalCluster

from indubio import AnchoredEnsemble, Dense, Detector, ExampleStream, Spectra, Training
from indubio.cli import written_toml
from indubio.configuration import Configuration, configured, detector_from_plain, detector_to_plain
from indubio.data import Reading, Roles
from indubio.errors import ConfigError, DataError
from indubio.workers import Workers
from indubio_lab.tuning import Search, SettingsQuality, best_so_far, judged, sampled, search
from indubio_lab.tuning.criterion import broken
from indubio_lab.tuning.settings_search import _Run, _study
from tests.end_to_end.test_commands import run

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(600, 2)) @ RANDOM.normal(size=(2, 6)) + 0.05 * RANDOM.normal(size=(600, 6))
TABLE = pa.table({f"x{place}": column for place, column in enumerate(ROWS.T)})
SAMPLE = sampled(ExampleStream(TABLE), 1000, 0)
USUAL = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=3))


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """A cluster inside this process: a worker of its own would import torch for every test."""
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        yield Workers(cluster=cluster.scheduler_address)


def test_a_sample_is_of_as_many_rows_as_were_asked_for_and_none_twice():
    half = sampled(ExampleStream(TABLE), 300, 0)
    rows = np.concatenate([half.trained, half.held_out])
    assert 240 < len(rows) < 360  # 300, within five standard deviations
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert len(half.held_out) == round(0.25 * len(rows))
    with pytest.raises(DataError, match="too few"):
        sampled(ExampleStream(TABLE.slice(0, 15)), 1000, 0)


def test_a_broken_row_has_one_column_of_another_row():
    changed = (broken(SAMPLE, 0) != SAMPLE.held_out).sum(axis=1)
    assert (changed == 1).all()
    for column in range(6):
        assert np.isin(broken(SAMPLE, 0)[:, column], SAMPLE.held_out[:, column]).all()


def test_the_one_hot_columns_of_a_category_are_broken_together():
    colours = TABLE.append_column("colour", [RANDOM.choice(["red", "green", "blue"], 600)])
    reading = Reading(table=Roles(categorical=("colour",)))
    sample = sampled(ExampleStream(colours, reading), 1000, 0)
    assert [len(places) for places in sample.columns] == [1] * 6 + [3]
    assert (broken(sample, 0)[:, 6:].sum(axis=1) == 1).all()


def test_half_of_a_sensor_is_broken_in_a_window():
    windows = RANDOM.normal(size=(40, 10, 3))
    sample = replace(SAMPLE, trained=windows, held_out=windows, columns=tuple(np.arange(3)[:, None]))
    changed = broken(sample, 0) != windows
    assert (changed.sum(axis=(1, 2)) == 5).all()
    assert not changed[:, :5].any()


def test_a_network_that_copies_has_the_better_nll_and_the_worse_separation():
    # Two numbers behind six columns: a code of two knows the pattern; a code of six with skips learns to copy.
    random, training = np.random.default_rng(0), Training(epochs=300)
    rows = random.normal(size=(600, 2)) @ random.normal(size=(2, 6)) + 0.3 * random.normal(size=(600, 6))
    sample = replace(SAMPLE, trained=rows[150:], held_out=rows[:150])
    knows, copies = (
        judged(Detector(posterior=AnchoredEnsemble(members=2), training=training, architecture=network), sample)
        for network in (Dense(latent=2, skips=False), Dense(latent=6, skips=True))
    )
    assert copies.nll < knows.nll / 2
    assert copies.separation < knows.separation - 0.02


def test_a_search_is_at_least_as_good_as_its_beginning_and_goes_on_where_it_stopped(tmp_path, workers):
    told = []
    first = search(USUAL, SAMPLE, tmp_path / "study.db", Search(trials=3), workers, told.append)
    assert first.done == 3
    assert first.judged.separation >= first.usual.separation
    assert [step.done for step in told] == [1, 2, 3]
    more = search(USUAL, SAMPLE, tmp_path / "study.db", Search(trials=4), workers, told.append)
    assert more.done == 4
    assert len(told) == 4
    assert more.judged.separation >= first.judged.separation
    again = search(USUAL, SAMPLE, tmp_path / "study.db", Search(trials=4), workers, told.append)
    assert again.judged == more.judged
    assert len(told) == 4
    with pytest.raises(ConfigError, match="other data or other settings"):
        search(USUAL, SAMPLE, tmp_path / "study.db", Search(trials=4, by="nll"), workers)


def test_networks_for_spectra_are_searched(tmp_path, workers):
    windows = RANDOM.normal(size=(60, 32, 2))
    sample = replace(SAMPLE, trained=windows[:40], held_out=windows[40:], columns=tuple(np.arange(2)[:, None]))
    detector = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=1), spectra=Spectra())
    found = search(detector, sample, tmp_path / "study.db", Search(trials=3), workers)
    assert found.done == 3


class Stopped:
    """An executor whose user presses Ctrl-C while the second trial runs."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, function, key, settings) -> Future:
        self.calls += 1
        if self.calls == 2:
            raise KeyboardInterrupt
        done: Future = Future()
        done.set_result(judged(detector_from_plain(settings), SAMPLE))
        return done


def test_what_was_tried_survives_ctrl_c(tmp_path, workers):
    wanted = Search(trials=3)
    assert best_so_far(USUAL, SAMPLE, tmp_path / "study.db", wanted) is None
    with _study(tmp_path / "study.db", USUAL, SAMPLE, wanted) as study, pytest.raises(KeyboardInterrupt):
        _Run(study, USUAL, SAMPLE, wanted, lambda _: None).through(Stopped(), 1)
    kept = best_so_far(USUAL, SAMPLE, tmp_path / "study.db", wanted)
    assert kept.done == 1
    assert kept.judged == kept.usual
    assert search(USUAL, SAMPLE, tmp_path / "study.db", wanted, workers).done == 3


def test_trials_that_cannot_be_trained_are_counted_and_passed_over(tmp_path, workers):
    hopeless = Detector(posterior=AnchoredEnsemble(members=1), training=Training(epochs=5, learning_rate=1e30))
    found = search(hopeless, SAMPLE, tmp_path / "study.db", Search(trials=2), workers)
    assert (found.done, found.failed) == (1, 1)
    assert found.usual is None
    assert isinstance(found.judged, SettingsQuality)


def test_a_file_that_is_no_study_is_refused(tmp_path, workers):
    (tmp_path / "study.db").write_text("something else, for long enough to be no database" * 100)
    with pytest.raises(ConfigError, match="no study"):
        search(USUAL, SAMPLE, tmp_path / "study.db", Search(trials=1), workers)


def test_a_configuration_survives_being_written():
    detector = Detector(
        architecture=Dense(latent=3), training=Training(epochs=7), posterior=AnchoredEnsemble(members=2)
    )
    data = {"table": {"columns": ["a", 'quo"ted'], "ids": None, "label": "bad"}}
    again = configured(Configuration, tomllib.loads(written_toml(detector_to_plain(detector) | data)))
    assert detector_to_plain(again.detector) == detector_to_plain(detector)
    assert again.reading == Reading(table=Roles(columns=("a", 'quo"ted'), label="bad"))


def test_the_command_searches_on_a_cluster_and_writes_what_fit_takes(tmp_path, workers):
    good = pa.table(TABLE.to_pydict() | {"part": np.arange(600)}).to_pandas()
    good.to_csv(tmp_path / "good.csv", index=False)
    arguments = (
        "tune",
        tmp_path / "good.csv",
        "--id",
        "part",
        "-o",
        tmp_path / "tuned.toml",
        "--set",
        "training.epochs=2",
        "--trials",
        2,
    )
    told = run(*arguments, "--set", f"workers.cluster={workers.cluster}").stdout
    assert "2 settings tried" in told
    run(
        "fit",
        tmp_path / "good.csv",
        "--config",
        tmp_path / "tuned.toml",
        "-o",
        tmp_path / "model",
        "--set",
        "posterior.draws=2",
    )
