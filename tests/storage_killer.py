"""Kills saves and looks what is left: `python -m tests.storage_killer random|steps|new FOLDER`, prints what it saw.

A process of its own, which forks: the children begin with everything imported, and pytest's threads are not there.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from indubio import AnchoredEnsemble, Detector, Training, load, save
from indubio.errors import ModelFileError

ROWS = np.random.default_rng(0).normal(size=(50, 20))
KILLS = 50
STEPS = {
    "open",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.scandir",
    "fcntl.flock",
}  # each is announced before it is done


def fitted(seed: int) -> Detector:
    training = Training(epochs=1)
    return Detector(posterior=AnchoredEnsemble(members=10), training=training, seed=seed).fit(ROWS)


def in_a_child(work: Callable[[], None], kill_after: float | None = None) -> bool:
    """Whether the work was killed, after so many seconds or by itself."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"!")
        try:
            work()
        except BaseException:  # noqa: BLE001 - the child must not go on as its parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.read(read, 1)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    os.close(read)
    os.close(write)
    assert status in (0, signal.SIGKILL), f"the child failed: {status}"
    return status == signal.SIGKILL


def killed_at(step: int, work: Callable[[], None]) -> Callable[[], None]:
    """The work, killed by its own hand before this step."""

    def until_then() -> None:
        left = step

        def count(event: str, _: object) -> None:
            nonlocal left
            if event in STEPS:  # a kill is announced too
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        work()

    return until_then


def which(path: Path, detectors: list[Detector]) -> int:
    """The number of the detector that is in the folder; that it is none of them is an error."""
    scores = load(path).nll(ROWS)
    (number,) = [i for i, detector in enumerate(detectors) if np.array_equal(detector.nll(ROWS), scores)]
    return number


def at_random(folder: Path, detectors: list[Detector]) -> dict[str, int]:
    path, moments, seen = folder / "model", random.Random(0), {"old": 0, "new": 0, "killed": 0}
    save(detectors[0], path)
    longest = 0.02
    for _ in range(KILLS):
        old = which(path, detectors)
        work = partial(save, detectors[1 - old], path, overwrite=True)
        seen["killed"] += in_a_child(work, moments.uniform(0, longest))
        same = which(path, detectors) == old
        seen["old" if same else "new"] += 1
        longest *= 1.3 if same else 0.7  # disks differ: the moments should be early, late and in between
    save(detectors[0], path, overwrite=True)
    return seen | {"files": len(list(path.iterdir()))}


def at_every_step(folder: Path, detectors: list[Detector]) -> dict[str, int]:
    path, seen, step = folder / "model", {"old": 0, "new": 0, "killed": 0}, 0
    killed = True
    while killed:
        save(detectors[0], path, overwrite=True)
        killed = in_a_child(killed_at(step, partial(save, detectors[1], path, overwrite=True)))
        seen["killed"] += killed
        seen["new" if which(path, detectors) else "old"] += 1
        step += 1
    return seen | {"files": len(list(path.iterdir()))}


def at_every_step_of_the_first(folder: Path, detectors: list[Detector]) -> dict[str, int]:
    seen, step = {"none": 0, "new": 0, "killed": 0}, 0
    killed = True
    while killed:
        path = folder / f"model {step}"
        killed = in_a_child(killed_at(step, partial(save, detectors[1], path)))
        seen["killed"] += killed
        seen["new" if path.exists() else "none"] += 1
        if path.exists():
            assert which(path, detectors) == 1
        else:
            try:
                load(path)
            except ModelFileError:
                save(detectors[1], path)
                assert which(path, detectors) == 1
        step += 1
    return seen


def main() -> None:
    torch.set_num_threads(1)  # threads do not survive a fork
    how = {"random": at_random, "steps": at_every_step, "new": at_every_step_of_the_first}[sys.argv[1]]
    seen = how(Path(sys.argv[2]), [fitted(0), fitted(1)])
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
