"""A batch as a user runs it: by the command, over processes and over a cluster whose workers and driver are killed."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr

import pytest

from indubio.batch import Batch, run_batch
from indubio.batch.batch_manifest import NAME
from indubio.cli import main
from indubio.workers import Workers
from tests import deadly_files
from tests.batches import digests, saved_model, written

SHARD_ROWS, SHARDS = 125, 640  # so many that a fast machine is still at it when it is disturbed
PROGRAM = [sys.executable, "-c", "from indubio.cli import main; main()"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files, one of them poison, a model, and what a run gives that nothing happens to."""
    folder = tmp_path_factory.mktemp("batch")
    written(folder / "in", 4, 20_000)
    (folder / "in" / "poison.parquet").write_bytes((folder / "in" / "0.parquet").read_bytes()[:-100])
    batch = Batch(
        source=str(folder / "in"),
        model=saved_model(folder / "model"),
        out=str(folder / "undisturbed"),
        shard_rows=SHARD_ROWS,
    )
    with ThreadPoolExecutor(1) as executor:
        run_batch(batch, executor=executor)
    return folder


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


def arguments(folder, out, *more):
    files = ("assess", str(folder / "in"), "--model", str(folder / "model"), "--out", str(folder / out))
    return [*files, "--set", f"shard_rows={SHARD_ROWS}", *map(str, more)]


def started(folder, out, *more):
    command = [*PROGRAM, *arguments(folder, out, *more)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def shards_done(folder, out):
    path = folder / out / NAME
    return len(json.loads(path.read_text())["done"]) if path.exists() else 0


def wait_for(folder, out, count, driver):
    deadline = time.monotonic() + 300
    while shards_done(folder, out) < count:
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_run_whose_workers_and_driver_are_killed_ends_like_one_that_nothing_happened_to(folder, cluster):
    out = "killed"
    first = started(folder, out, "--set", f"workers.cluster={cluster.scheduler_address}")
    wait_for(folder, out, 2, first)
    for nanny in list(cluster.workers.values()):
        os.kill(nanny.pid, signal.SIGKILL)
    wait_for(folder, out, shards_done(folder, out) + 2, first)  # Dask starts new workers, and they go on
    first.kill()
    first.communicate()
    before = shards_done(folder, out)
    assert before < SHARDS
    again = started(folder, out, "--set", f"workers.cluster={cluster.scheduler_address}", "--json")
    printed, err = again.communicate(timeout=300)
    assert again.returncode == 4, err  # one file is poison
    summary = json.loads(printed)
    assert (summary["examples"], summary["shards"]) == (80_000, SHARDS)
    assert summary["before"] >= before
    assert list(summary["quarantined"]) == ["poison.parquet"]
    assert digests(folder / out) == digests(folder / "undisturbed")


def test_a_shard_that_ends_every_worker_is_put_aside_and_no_other(folder, tmp_path):
    import dask
    from distributed import LocalCluster

    written(tmp_path / "in", 3, 5000)
    (tmp_path / "in" / "1.parquet").rename(tmp_path / "in" / "deadly.parquet")
    batch = Batch(source=str(tmp_path / "in"), model=folder / "model", out=str(tmp_path / "calm"), shard_rows=500)
    with ThreadPoolExecutor(1) as executor:
        run_batch(batch, executor=executor)
    kept = []
    # Dask gives up after four workers, which takes its time to start as many; two will do here.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", preload=[deadly_files.__file__]) as own,
    ):
        first = {nanny.pid for nanny in own.workers.values()}

        def look(_):
            kept.append(sum(task.state == "memory" for task in own.scheduler.tasks.values()))

        found = run_batch(
            batch.replaced(source=f"deadly://{tmp_path / 'in'}", out=str(tmp_path / "deadly")),
            Workers(cluster=own.scheduler_address),
            tell=look,
        )
        assert first.isdisjoint(nanny.pid for nanny in own.workers.values())
    assert list(found.quarantined) == ["deadly.parquet.000000000000-000000000500"]
    assert "every worker that took it died" in found.quarantined["deadly.parquet.000000000000-000000000500"]
    assert (found.shards, found.examples) == (29, 14_500)
    calm, deadly = digests(tmp_path / "calm"), digests(tmp_path / "deadly")
    lost = {name for name in calm if name.startswith("deadly.parquet.000000000000-")}
    assert {name: calm[name] for name in calm.keys() - lost - {NAME}} == {
        name: deadly[name] for name in deadly.keys() - {NAME}
    }
    assert max(kept) < 10  # of 30: what was taken is let go, and not done again for a worker that died


def test_ctrl_c_stops_processes_and_the_next_run_goes_on(folder):
    driver = started(folder, "stopped", "--workers", "2")
    wait_for(folder, "stopped", 1, driver)
    driver.send_signal(signal.SIGINT)
    _, err = driver.communicate(timeout=120)
    assert driver.returncode == 130, err
    assert "shards are done and kept. Run the same command again to go on." in err
    assert "Traceback" not in err
    again = started(folder, "stopped", "--workers", "2")
    _, err = again.communicate(timeout=300)
    assert again.returncode == 4, err
    assert "of them by earlier runs" in err
    assert "poison.parquet: " in err
    assert digests(folder / "stopped") == digests(folder / "undisturbed")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--workers", "1", "--fdr", "0.1"), "--fdr needs all examples in one place"),
        (("--workers", "1", "--fail-on", "drift"), "does not go with workers"),
        (("--workers", "1", "--set", "workers.cluster=tcp://localhost:1"), "not both"),
        (("--set", "workers.cluster=nowhere.json"), "no such scheduler file"),
    ],
)
def test_what_does_not_go_with_workers_is_said(folder, more, said):
    err = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(err):
        patch.setattr(sys, "argv", ["indubio", *arguments(folder, "refused", *more)])
        with pytest.raises(SystemExit):
            main()
    assert said in " ".join(err.getvalue().replace("│", "").split())
