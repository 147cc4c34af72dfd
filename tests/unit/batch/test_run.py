"""Batches: what comes out depends on the files and the model alone, and what was done is never done again."""

import json
import os
import shutil
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from rich.console import Console

from indubio import Detector
from indubio.batch import Batch, run_batch
from indubio.cli.assess_batch import _drawn
from indubio.data import Reading, Wide, Windowing, read_windows
from indubio.decision import AtMost
from indubio.errors import ConfigError, OutputError
from indubio.networks.engine.compiled import compiled_engine
from indubio.storage import load, save
from tests.batches import digests, results, rows, saved_model, written
from tests.small_examples import NAMES

FOUND = ("verdict", "reason", "probability", "epistemic", "nll", "p_value")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("batch") / "model")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return written(tmp_path_factory.mktemp("batch") / "in", 3, 1000)


def run(source, model, out, threads=1, **options):
    batch = Batch(source=str(source), model=model, out=str(out), **({"shard_rows": 400} | options))
    told = []
    with ThreadPoolExecutor(threads) as executor:
        return run_batch(batch, executor=executor, tell=told.append), told


def test_results_are_those_of_the_detector(source, model, tmp_path):
    outcome, _ = run(source, model, tmp_path / "out")
    detector, found = load(model), results(tmp_path / "out")
    whole = detector.assess(detector.reading_.read(source))
    assert outcome.examples == found.num_rows == 3000
    assert found["part"].to_pylist() == [f"{place:06}" for place in range(3000)]
    for name in FOUND:
        np.testing.assert_array_equal(found[name].to_numpy(), getattr(whole, name))
    assert outcome.verdicts == {name: int(np.sum(whole.verdict == name)) for name in ("INLIER", "ANOMALY", "REFER")}


def test_every_byte_is_the_same_with_any_number_of_workers(source, model, tmp_path):
    for threads in (1, 4):
        run(source, model, tmp_path / str(threads), threads)
    assert digests(tmp_path / "1") == digests(tmp_path / "4")
    assert len(digests(tmp_path / "1")) == 10  # three shards of each file, and the manifest


@pytest.mark.parametrize("shard_rows", [1, 299, 300, 301, 10_000])
def test_where_the_cuts_are_changes_no_row(shard_rows, model, tmp_path):
    source = written(tmp_path / "in", 1, 60 if shard_rows == 1 else 1000)
    run(source, model, tmp_path / "out", shard_rows=shard_rows, top=0)
    detector = load(model)
    found, whole = results(tmp_path / "out")["nll"], detector.assess(detector.reading_.read(source)).nll
    if compiled_engine(detector.draws_.autoencoder) is not None:
        np.testing.assert_array_equal(found, whole)
    else:  # torch rounds a product of another number of rows in another way
        np.testing.assert_allclose(found, whole, rtol=1e-5)


def test_a_second_run_does_only_what_is_missing(source, model, tmp_path):
    run(source, model, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.parquet")}
    lost = sorted(before)[4]
    lost.unlink()
    outcome, told = run(source, model, tmp_path)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.parquet")}
    assert [path for path in before if after[path] != before[path]] == [lost]
    assert (outcome.shards, outcome.before, len(told)) == (9, 8, 2)
    assert outcome.examples == 3000


def test_progress_says_how_far_it_is_and_what_every_worker_did(source, model, tmp_path):
    _, told = run(source, model, tmp_path / "out")
    assert [(one.done, one.total) for one in told] == [(done, 9) for done in range(10)]
    assert [one.examples for one in told] == [0, 400, 800, 1000, 1400, 1800, 2000, 2400, 2800, 3000]
    assert told[0].left is None
    assert all(one.left > 0 for one in told[1:-1])
    assert told[-1].left == 0
    assert sorted(one.share for one in told) == [one.share for one in told]
    assert (told[0].share, told[-1].share) == (0, 1)
    (worker,) = told[-1].workers
    state = told[-1].workers[worker]
    assert worker.endswith(f":{os.getpid()}")
    assert (state.shards, state.examples, state.latest) == (9, 3000, "2.parquet.000000000800-000000001000")
    assert 0 < state.seconds <= told[-1].seconds
    shown = StringIO()
    Console(file=shown, width=160).print(_drawn(told[3]))
    assert "3 of 9 shards, 1,000 examples, " in shown.getvalue()
    assert " left" in shown.getvalue()
    assert f"{worker} " in shown.getvalue()
    assert "last 0.parquet.000000000800-000000001000" in shown.getvalue()


def test_a_file_that_changed_is_assessed_again_and_its_old_results_go(model, tmp_path):
    source = written(tmp_path / "in", 2, 1000)
    run(source, model, tmp_path / "out")
    parquet.write_table(rows(500, 7), source / "1.parquet")
    parquet.write_table(rows(100, 9), source / "2.parquet")
    outcome, _ = run(source, model, tmp_path / "out")
    assert (outcome.examples, outcome.before) == (1600, 3)
    assert results(tmp_path / "out").num_rows == 1600


def test_bad_files_are_put_aside_with_a_reason_and_the_rest_goes_on(source, model, tmp_path):
    folder = tmp_path / "in"
    shutil.copytree(source, folder)
    (folder / "cut.parquet").write_bytes((source / "0.parquet").read_bytes()[:5000])
    parquet.write_table(rows(50).drop_columns("flow"), folder / "narrow.parquet")
    parquet.write_table(rows(0), folder / "none.parquet")
    spoilt = rows(1000).set_column(1, NAMES[0], pa.array([*([0.5] * 450), None, *([0.5] * 549)]))
    parquet.write_table(spoilt, folder / "gap.parquet")
    outcome, told = run(folder, model, tmp_path / "out")
    assert outcome.examples == 3000 + 600
    reasons = outcome.quarantined
    assert "not a Parquet file that can be read" in reasons["cut.parquet"]
    assert 'no column "flow"' in reasons["narrow.parquet.000000000000-000000000050"]
    assert "no rows" in reasons["none.parquet.all"]
    assert 'column "temperature"' in reasons["gap.parquet.000000000400-000000000800"]
    assert json.loads((tmp_path / "out" / "_indubio" / "manifest.json").read_text())["quarantined"] == reasons
    assert told[-1].refused == 3
    shutil.copy(source / "0.parquet", folder / "cut.parquet")
    again, _ = run(folder, model, tmp_path / "out")
    assert again.examples == outcome.examples + 1000
    assert again.quarantined.keys() == reasons.keys() - {"cut.parquet"}


def test_csv_files_are_a_shard_each_and_results_may_be_csv(source, model, tmp_path):
    (tmp_path / "in").mkdir()
    arrow_csv.write_csv(rows(700), tmp_path / "in" / "a.csv")
    outcome, _ = run(tmp_path / "in", model, tmp_path / "out", format="csv", top=0)
    (path,) = (tmp_path / "out").glob("a.csv.all.*.csv")
    assert outcome.examples == arrow_csv.read_csv(path).num_rows == 700


def test_files_of_one_name_in_many_folders_keep_their_folders(source, model, tmp_path):
    for line in ("a", "b"):
        (tmp_path / "in" / line).mkdir(parents=True)
        shutil.copy(source / "0.parquet", tmp_path / "in" / line)
    run(tmp_path / "in" / "*" / "*.parquet", model, tmp_path / "out", shard_rows=1000)
    names = [name.partition(".")[0] for name in digests(tmp_path / "out")]
    assert names == ["_indubio/manifest", "a/0", "b/0"]


def test_a_folder_has_the_results_of_one_model_and_one_set_of_options(source, model, tmp_path):
    run(source, model, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"holds results of another run \(other top\)"):
        run(source, model, tmp_path / "out", top=1)
    other = saved_model(tmp_path / "model")
    detector = load(other)
    detector.anomaly_threshold = 0.9
    save(detector, other, overwrite=True)
    with pytest.raises(ConfigError, match="other model"):
        run(source, other, tmp_path / "out")


def test_a_rule_over_all_examples_is_refused(source, model, tmp_path):
    save(load(model).refer_by(AtMost(count=5)), tmp_path / "model")
    with pytest.raises(ConfigError, match="decides over all examples together"):
        run(source, tmp_path / "model", tmp_path / "out")


def test_windows_of_a_group_are_whole_however_the_files_are_cut(tmp_path):
    rng = np.random.default_rng(0)
    group = np.repeat([f"g{place}" for place in range(12)], 25)
    signal = pa.table({"unit": group, "force": rng.normal(size=300), "torque": rng.normal(size=300)})
    layout, windowing = Wide(sensors=("force", "torque"), group="unit"), Windowing(length=10, step=5)
    (tmp_path / "in").mkdir()
    for place, start in enumerate(range(0, 300, 60)):  # no cut is between two groups but one
        parquet.write_table(signal.slice(start, 60), tmp_path / "in" / f"{place}.parquet")
    whole = read_windows(tmp_path / "in", layout, windowing)
    detector = Detector().fit(whole)
    detector = detector.read_by(Reading(layout=layout, windowing=windowing))
    save(detector, tmp_path / "model")
    outcome, _ = run(tmp_path / "in", tmp_path / "model", tmp_path / "out", threads=2)
    found = results(tmp_path / "out")
    assert not outcome.quarantined
    assert outcome.shards == 5
    assert found.select(whole.origin.column_names).to_pylist() == whole.origin.to_pylist()
    np.testing.assert_array_equal(found["nll"], detector.assess(whole).nll)


def test_sources_and_targets_may_be_urls(source, model, tmp_path):
    import fsspec

    store = fsspec.filesystem("memory")
    store.put(f"{source}/", "/lake/in/", recursive=True)
    outcome, _ = run("memory://lake/in", model, "memory://lake/out", threads=2)
    run(source, model, tmp_path / "here")
    store.get("/lake/out/", f"{tmp_path}/there/", recursive=True)
    here, there = digests(tmp_path / "here"), digests(tmp_path / "there")
    assert outcome.examples == 3000
    assert {name: there[name] for name in here if name.endswith(".parquet")}.items() <= here.items()
    again, _ = run("memory://lake/in/*.parquet", model, "memory://lake/out")
    assert again.before == 9
    store.rm("/lake", recursive=True)


def test_files_are_read_out_of_an_archive_and_sent_to_a_file_system_that_is_no_store(source, model, tmp_path):
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        for path in source.iterdir():
            archive.write(path, path.name)
    (tmp_path / "root").mkdir()
    run(f"zip://*.parquet::{tmp_path}/in.zip", model, f"dir://out::file://{tmp_path}/root", shard_rows=10_000)
    run(source, model, tmp_path / "here", shard_rows=10_000)
    here, there = digests(tmp_path / "here"), digests(tmp_path / "root" / "out")
    assert {name: there[name] for name in here if name.endswith(".parquet")}.items() <= here.items()
    assert not [name for name in there if name.endswith(".part")]


def test_a_target_that_cannot_be_written_is_named_before_anything_is_assessed(source, model, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OutputError, match=r"file/out/_indubio: cannot be made \(Not a directory\)"):
        run(source, model, tmp_path / "file" / "out")


def test_a_full_disk_stops_the_run_and_what_was_done_stays(source, model, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small disk may be mounted here: {mounted.stderr.decode().strip()}")
    try:
        with pytest.raises(OutputError, match=r"cannot be written \(No space left on device"):
            run(source, model, disk)
        kept = json.loads((disk / "_indubio" / "manifest.json").read_text())["done"]
        assert kept
        assert all(parquet.read_table(disk / one["out"]).num_rows == one["examples"] for one in kept.values())
        assert not list(disk.rglob("*.part"))
        subprocess.run(["mount", "-o", "remount,size=10m", disk], check=True)
        outcome, _ = run(source, model, disk)
        assert (outcome.examples, outcome.before) == (3000, len(kept))
    finally:
        subprocess.run(["umount", disk], check=True)
