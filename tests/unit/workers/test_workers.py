"""Where work runs: processes of this machine and a Dask cluster behave alike."""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import as_completed
from pathlib import Path

import pytest

from indubio.errors import ConfigError, IndubioError, WorkersError
from indubio.workers import Workers

KEPT = {}


def keep(word):
    KEPT["word"] = word


def kept():
    return KEPT["word"], os.getpid()


def threads():
    import pyarrow as pa
    from threadpoolctl import threadpool_info

    return {pa.cpu_count(), *(library["num_threads"] for library in threadpool_info())}


def fail():
    raise IndubioError("said on the worker")


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture(params=["processes", "cluster"])
def workers(request):
    if request.param == "processes":
        return Workers(processes=2)
    return Workers(cluster=request.getfixturevalue("cluster").scheduler_address)


def test_what_a_worker_starts_with_is_there_for_every_task(workers):
    with workers.executor(keep, ("hello",)) as executor:
        found = [job.result() for job in as_completed([executor.submit(kept) for _ in range(8)])]
    assert {word for word, _ in found} == {"hello"}
    assert os.getpid() not in {pid for _, pid in found}


def test_a_worker_keeps_to_one_thread(workers):
    with workers.executor() as executor:
        assert executor.submit(threads).result() == {1}


def test_an_error_comes_back_as_it_was_raised(workers):
    with workers.executor() as executor, pytest.raises(IndubioError, match="said on the worker"):
        executor.submit(fail).result()


def test_an_exception_in_the_block_leaves_what_has_not_started(workers):
    jobs = []

    def interrupted():
        with workers.executor() as executor:
            jobs.extend(executor.submit(time.sleep, 0.2) for _ in range(200))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert all(job.done() for job in jobs)
    assert any(job.cancelled() or job.exception() for job in jobs)


@pytest.fixture
def parent_at_work(tmp_path):
    """A process whose one worker is in the middle of its work, and the worker's number."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, time\n"
        "from indubio.workers import Workers\n"
        "if __name__ == '__main__':\n"
        "    with Workers(processes=1).executor() as executor:\n"
        "        print(executor.submit(os.getpid).result(), flush=True)\n"
        "        executor.submit(time.sleep, 600).result()\n"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, str(script)], text=True, **pipes) as parent:
        assert parent.stdout is not None
        yield parent, int(parent.stdout.readline())
        parent.kill()


def test_processes_end_with_a_parent_that_is_killed(parent_at_work):
    parent, child = parent_at_work
    parent.kill()
    _wait_for_the_end_of(child)


def test_ctrl_c_ends_processes_in_the_middle_of_their_work(parent_at_work):
    parent, child = parent_at_work
    parent.send_signal(signal.SIGINT)
    _, said = parent.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    _wait_for_the_end_of(child)


def test_a_cluster_lets_go_of_results_that_have_arrived(cluster):
    # What it keeps it would do again when the worker dies.
    with Workers(cluster=cluster.scheduler_address).executor(keep, ("given",)) as executor:
        held = [executor.submit(kept) for _ in range(8)]
        assert {future.result(60)[0] for future in held} == {"given"}
        deadline = time.monotonic() + 30
        while any(task.state == "memory" for task in cluster.scheduler.tasks.values()):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_what_waits_on_a_cluster_can_be_cancelled(cluster):
    with Workers(cluster=cluster.scheduler_address).executor() as executor:
        running = [executor.submit(time.sleep, 1) for _ in range(2)]
        waiting = [executor.submit(time.sleep, 60) for _ in range(6)]
        assert all(future.cancel() for future in waiting)
        assert all(future.cancelled() for future in as_completed(waiting, timeout=30))
        assert [future.result(30) for future in running] == [None, None]


def test_a_cluster_is_found_by_its_scheduler_file(cluster, tmp_path):
    import json

    path = tmp_path / "scheduler.json"
    path.write_text(json.dumps(cluster.scheduler.identity(), default=str))
    with Workers(cluster=str(path)).executor(keep, ("by file",)) as executor:
        assert executor.submit(kept).result()[0] == "by file"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl")
def test_a_cluster_may_speak_tls(tmp_path):
    from distributed import LocalCluster, Security

    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-keyout", key, "-out", cert], check=True, capture_output=True)
    ends = {
        f"tls_{end}_{kind}": str(path)
        for end in ("scheduler", "worker", "client")
        for kind, path in (("cert", cert), ("key", key))
    }
    security = Security(tls_ca_file=str(cert), require_encryption=True, **ends)
    with LocalCluster(
        n_workers=1, processes=False, protocol="tls://", security=security, dashboard_address=":0"
    ) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        with Workers(cluster=address, tls_ca=cert, tls_cert=cert, tls_key=key).executor(keep, ("safe",)) as executor:
            assert executor.submit(kept).result()[0] == "safe"
        with pytest.raises(WorkersError, match="no Dask scheduler answers there"):
            Workers(cluster=address).executor().__enter__()


def test_wrong_places_are_named():
    with pytest.raises(ConfigError, match=r"nowhere\.json: there is no such scheduler file"):
        Workers(cluster="nowhere.json").executor().__enter__()
    with pytest.raises(WorkersError, match="tcpx://localhost:1: no Dask scheduler answers there"):
        Workers(cluster="tcpx://localhost:1").executor().__enter__()
    with pytest.raises(ConfigError, match="not both"):
        Workers(cluster="tcp://localhost:1", processes=2)
    with pytest.raises(ConfigError, match="TLS needs"):
        Workers(cluster="tls://localhost:1", tls_ca=Path("ca.pem"))


def _wait_for_the_end_of(pid):
    for _ in range(600):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")
