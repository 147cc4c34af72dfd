"""The grid: the same cells give the same results, a killed run goes on, nothing is computed or counted twice."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from indubio import Detector
from indubio.errors import ConfigError, DataError, TrainingError
from indubio.evaluation import accuracy_rejection_curve
from indubio.judging import Ecdf
from indubio.networks import Training
from indubio_lab.grids import run_grid
from indubio_lab.paper import CellStore, experiments, presets, quick_grid, write_results
from indubio_lab.paper.reproduction import published
from indubio_lab.paper.reproduction.cells import FOR_USE, Cell, grid, run
from indubio_lab.paper.reproduction.judgements import OWN, conversions, judge, within
from indubio_lab.paper.reproduction.result_tables import gain_table
from indubio_lab.paper.reproduction.summary import summarised

FAST = {"models": ["Deterministic AE", "BAE-MCD"], "tasks": ["lympho"], "variants": ["training.epochs=2"]}


@pytest.fixture
def cells(data_folder):
    return grid(["odds"], seeds=range(2), folder=str(data_folder), **FAST)


def files(store: CellStore) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(store.folder.rglob("*")) if path.is_file()}


def scores(store: CellStore) -> dict[str, bytes]:
    return {name: content for name, content in files(store).items() if name.endswith(".safetensors")}


# ----- the grid


def test_the_whole_grid_of_odds_is_the_papers_400_runs_and_those_of_sghmc():
    cells = grid(["odds"], protocols=["authors"])
    assert len(cells) == len(set(cells)) == 8 * (5 + 1) * 10
    assert sum(cell.model in published.MODELS_OF_THE_PAPER for cell in cells) == 400  # the paper's count of runs


def test_seeds_come_one_after_the_other():
    seeds = [cell.seed for cell in grid(["odds", "zema"], seeds=range(3))]
    assert seeds == sorted(seeds)


def test_the_names_of_cells_are_theirs_alone():
    cells = grid(["odds", "zema", "strath"], protocols=["text", "authors"], sensors=["text", "fits", "PS1"])
    assert len({cell.name for cell in cells}) == len(cells)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"models": ["GAN"]}, "no model 'GAN'"),
        ({"tasks": ["mnist"]}, "no task"),
    ],
)
def test_what_is_not_there_is_refused(asked, message):
    with pytest.raises(ConfigError, match=message):
        grid(["odds"], **asked)


def test_a_quick_grid_is_small():
    assert len(quick_grid(["odds", "zema", "strath"], quick=True)) == (2 + 1 + 1) * 6 * 2
    assert len(quick_grid(["odds"], quick=False)) == 480


def test_a_fingerprint_changes_with_the_settings_of_a_model(monkeypatch):
    cell = Cell("odds", "text", "-", "cardio", "BAE-Ensemble", 0)
    before = cell.fingerprint()
    assert before == cell.fingerprint()
    assert before != dataclasses.replace(cell, protocol="authors").fingerprint()
    monkeypatch.setattr(presets, "_training", lambda *_: Training(epochs=7))
    assert before != cell.fingerprint()


@pytest.mark.parametrize(
    ("variant", "setting", "value"),
    [
        ("architecture.activation=selu", "architecture__activation", "selu"),
        ("architecture.layer_norm=false", "architecture__layer_norm", False),
        ("training.epochs=300", "training__epochs", 300),
        ("training.learning_rate=0.01", "training__learning_rate", 0.01),
        ("scaling.clip=false", "scaling__clip", False),
        ("posterior.members=3", "posterior__members", 3),
    ],
)
def test_a_variant_differs_from_its_protocol_in_one_setting(variant, setting, value):
    cell = Cell("odds", "text", "-", "cardio", "BAE-Ensemble", 3)
    changed = dataclasses.replace(cell, variant=variant)
    before, after = cell.detector().get_params(), changed.detector().get_params()
    differing = {name: after[name] for name in before if name.count("__") != 0 and before[name] != after[name]}
    assert differing == {setting: value}
    assert after["seed"] == 3
    assert changed.fingerprint() != cell.fingerprint()
    assert changed.name != cell.name


def test_changes_of_a_variant_add_up_and_reach_into_a_range_test():
    variant = "training.epochs=7+training.learning_rate.use=fixed+architecture.bias=true"
    detector = Cell("odds", "authors", "-", "cardio", "BAE-Ensemble", 0, variant).detector()
    assert (detector.training.epochs, detector.training.learning_rate.use) == (7, "fixed")
    assert detector.architecture.bias
    assert detector.training.learning_rate.smoothing == "gaussian_process"


@pytest.mark.parametrize("variant", ["norm", "architecture.norm=true", "optimiser.rate=1", "training.epochs=many"])
def test_a_variant_that_changes_nothing_there_is_is_refused(variant):
    with pytest.raises(ConfigError, match=r"norm|optimiser|epochs"):
        Cell("odds", "text", "-", "cardio", "BAE-Ensemble", 0, variant).detector()


# ----- judging


def test_there_are_twelve_conversions_and_eight_in_each_reading():
    assert len(conversions()) == 12
    both = [set(within(level)) for level in ("cdf_of_mean", "mean_of_cdf")]
    assert [len(names) for names in both] == [8, 8]
    assert both[0] | both[1] == set(conversions())


def test_a_judgement_is_the_curve_of_the_library(cells):
    outcome = run(cells[1])
    judged = {(one.conversion, one.uncertainty, one.metric): one for one in judge(outcome)}
    assert len(judged) == 12 * 5 * 2
    p = Ecdf(scaled=True, level="cdf_of_mean").fit(outcome.train_nll).probability(outcome.test_nll).mean(axis=0)
    expected = accuracy_rejection_curve(outcome.labels, p >= 0.5, np.round(p * (1 - p), 12))
    found = judged["ecdf+scale", "total", "gss"]
    assert found.base == pytest.approx(expected.base)
    assert found.weighted_average == pytest.approx(expected.weighted_average, abs=0.02)  # ties may part by rounding
    assert judged["ecdf", "total", "auroc"].base == judged["gaussian", "exceed", "auroc"].base


def test_a_single_draw_has_no_spread_to_judge(cells):
    assert {one.uncertainty for one in judge(run(cells[0]))} == {"aleatoric", "total", "exceed"}


# ----- the store and the runner


def test_a_second_run_computes_nothing_and_the_tables_are_remade_to_the_byte(cells, tmp_path):
    store, told = CellStore(tmp_path), []
    run_grid(cells, store, executor=ThreadPoolExecutor(1), tell=told.append)
    assert [(advance.done, advance.total) for advance in told] == [(done, 4) for done in range(5)]
    assert told[0].cpu_left is None
    assert told[-1].cpu_left == 0
    write_results(experiments(cells, store), store, tmp_path, figures=False)
    before, told = files(store), []
    run_grid(cells, store, executor=ThreadPoolExecutor(1), tell=told.append)
    write_results(experiments(cells, store), store, tmp_path, figures=False)
    assert len(told) == 1
    assert files(store) == before


def test_the_outcome_comes_back_as_it_was(cells, tmp_path):
    outcome, store = run(cells[1]), CellStore(tmp_path)
    store.write(cells[1], outcome)
    back = store.outcome(cells[1])
    np.testing.assert_array_equal(back.train_nll, outcome.train_nll)
    np.testing.assert_array_equal(back.test_nll, outcome.test_nll)
    np.testing.assert_array_equal(back.labels, outcome.labels)
    assert list(store.record(cells[1]).judged) == list(judge(outcome))


def test_a_cell_computed_with_other_settings_is_computed_again(cells, tmp_path, monkeypatch):
    store = CellStore(tmp_path)
    store.write(cells[0], run(cells[0]))
    assert store.is_done(cells[0])
    monkeypatch.setattr("indubio_lab.paper.reproduction.cells.REVISION", -1)
    assert not store.is_done(cells[0])


def test_a_damaged_record_is_an_error_that_says_what_to_do(cells, tmp_path):
    store = CellStore(tmp_path)
    path = tmp_path / f"{cells[0].name}.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(DataError, match="Delete it, and the cell is run again"):
        store.is_done(cells[0])


def test_a_cell_that_fails_is_named_and_the_others_are_done(cells, tmp_path, monkeypatch):
    def sometimes(cell: Cell):
        if cell.seed == 0:
            raise TrainingError("training diverged in epoch 1")
        return run(cell)

    monkeypatch.setattr("indubio_lab.paper.reproduction.cell_store.run", sometimes)
    store = CellStore(tmp_path)
    with pytest.raises(
        TrainingError, match=r"2 of 4 cells failed, first odds/text-training.epochs=2/lympho/.*/0: training diverged"
    ):
        run_grid(cells, store, executor=ThreadPoolExecutor(1))
    assert [store.is_done(cell) for cell in cells] == [False, False, True, True]


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_with_the_results_of_an_undisturbed_one(cells, tmp_path):
    undisturbed, killed = CellStore(tmp_path / "undisturbed"), CellStore(tmp_path / "killed")
    run_grid(cells, undisturbed, executor=ThreadPoolExecutor(1))
    program = (
        "from indubio_lab.paper.reproduction import *\n"
        "from indubio.workers import Workers\n"
        "if __name__ == '__main__':\n"
        f"    cells = [Cell(**one) for one in {[dataclasses.asdict(cell) for cell in cells]!r}]\n"
        f"    run_grid(cells, CellStore({str(killed.folder)!r}), workers=Workers(processes=1))\n"
    )
    script = tmp_path / "driver.py"
    script.write_text(program)
    command = [sys.executable, str(script)]
    for wanted in (1, 3):
        driver = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
        deadline = time.monotonic() + 120
        while len(scores(killed)) < wanted and driver.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=300)
    assert all(killed.is_done(cell) for cell in cells)
    for cell in cells:
        assert killed.record(cell).judged == undisturbed.record(cell).judged


def test_records_are_plain_json(cells, tmp_path):
    store = CellStore(tmp_path)
    store.write(cells[0], run(cells[0]))
    plain = json.loads((tmp_path / f"{cells[0].name}.json").read_text())
    assert plain["cell"]["task"] == "lympho"
    assert plain["anomalies"] == 6


@pytest.mark.parametrize("model", FOR_USE)
def test_detectors_for_use_are_judged_by_what_they_say_themselves(model, data_folder, tmp_path):
    cell, store = Cell("odds", "text", "-", "lympho", model, 0, folder=str(data_folder)), CellStore(tmp_path)
    run_grid([cell], store, executor=ThreadPoolExecutor(1))
    task = cell.data()
    found = Detector(posterior=FOR_USE[model], seed=0).fit(task.train).assess(task.test)
    curve = accuracy_rejection_curve(task.labels, found.prediction, found.total)
    record = store.record(cell)
    assert {one.conversion for one in record.judged} == {OWN}
    for table in ("gss", "formula", "fixed"):
        entries = gain_table(summarised([record]), table)
        total = next(entry for entry in entries if (entry.model, entry.uncertainty) == (model, "total"))
        assert total.weighted_average.value == pytest.approx(100 * curve.weighted_average)
