"""Recordings of several machines, each about a level of its own."""

from pathlib import Path

import numpy as np
import pandas as pd

from indubio.data import Reading, Wide, Windowing, Windows

READING = Reading(layout=Wide(time="time", sensors=("a", "b"), group="machine"), windowing=Windowing(length=20))
DAY = pd.Timestamp("2026-03-01")


def recorded(levels: dict[str, float], **more: float) -> Windows:
    """The windows of what `machine_samples` gives."""
    return READING.read(machine_samples(levels, **more))


def write_recording(path: Path, levels: dict[str, float]) -> None:
    """The same samples in a file, to the last digit."""
    machine_samples(levels).to_csv(path, index=False)


def machine_samples(
    levels: dict[str, float], *, samples: int = 1000, apart: int = 0, fault: float = 0.0, seed: int = 0
) -> pd.DataFrame:
    """A sample a second of each machine, one so many seconds after the other; a fault is in the second half."""
    random, frames = np.random.default_rng(seed), []
    for number, (name, level) in enumerate(levels.items()):
        values = random.normal(size=(samples, 2)) + level
        values[samples // 2 :] += fault
        time = DAY + pd.to_timedelta(np.arange(samples) + number * apart, unit="s")
        frames.append(pd.DataFrame({"time": time, "machine": name, "a": values[:, 0], "b": values[:, 1]}))
    return pd.concat(frames, ignore_index=True)
