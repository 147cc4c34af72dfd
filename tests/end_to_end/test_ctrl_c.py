"""Ctrl-C ends a command within seconds: one line, exit code 130, nothing half-written, no process left."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from indubio import Detector
from indubio.storage import save

MAIN = "from indubio.cli import main; main()"
LONG_FIT = ("--set", "posterior=anchored_ensemble", "--set", "training.epochs=5000", "--set", "calibration=train")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    rows = np.random.default_rng(0).normal(size=(20_000, 20))
    pd.DataFrame(rows, columns=[f"c{i}" for i in range(20)]).to_csv(folder / "rows.csv", index=False)
    return folder


def alive(group):
    """Whether a process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def interrupted(arguments, group, after):
    """Exit code, seconds until the end, and what was said on stderr."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        time.sleep(after)
        assert process.poll() is None, process.communicate()
        begun = time.monotonic()
        os.killpg(process.pid, signal.SIGINT) if group else process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        taken = time.monotonic() - begun
        while alive(process.pid) and time.monotonic() < begun + 10:
            time.sleep(0.1)
        assert not alive(process.pid)  # nobody of the group is left
        return process.returncode, taken, said
    finally:
        if alive(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["alone", "workers"])
def test_a_long_fit_ends_at_once_and_leaves_no_model(folder, tmp_path, workers):
    out = tmp_path / "model"
    code, taken, said = interrupted(("fit", folder / "rows.csv", "-o", out, *LONG_FIT, *workers), True, 9)
    assert code == 130
    assert taken < 4  # two seconds, and twice that on a busy machine
    assert said.strip() == "Stopped by Ctrl-C."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_long_assess_ends_at_once_and_leaves_no_results(folder, tmp_path):
    frame = pd.read_csv(folder / "rows.csv")
    save(Detector().fit(frame[:2000]), tmp_path / "model")
    (tmp_path / "out").mkdir()
    header, _, body = (folder / "rows.csv").read_bytes().partition(b"\n")
    (folder / "many.csv").write_bytes(header + b"\n" + 40 * body)  # some ten seconds of work
    arguments = ("assess", folder / "many.csv", "-m", tmp_path / "model", "-o", tmp_path / "out" / "found.csv")
    code, taken, said = interrupted(arguments, True, 3)
    assert (code, said.strip()) == (130, "Stopped by Ctrl-C.")
    assert taken < 4
    assert list((tmp_path / "out").iterdir()) == []
