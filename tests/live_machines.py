"""Recordings of machines, a model that was fitted on them, and the same values as messages of a broker."""

import json
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from indubio import Detector
from indubio.data import Long, Reading, Wide, Windowing
from indubio.errors import DataWarning
from indubio.networks import Training
from indubio.posteriors import AnchoredEnsemble
from indubio.storage import load, save
from indubio_server.live import live_settings
from indubio_server.live.journal import JournalEntry
from indubio_server.live.settings_of_live import LiveSettings

SENSORS = ("flow", "pressure", "speed")
START = pd.Timestamp("2026-03-01T00:00:00Z")
WIDE = Reading(
    layout=Wide(time="time", sensors=SENSORS, group="machine"),
    windowing=Windowing(length=10, step=5, gaps="hold", longest_gap=1.0),
)
LONG = Reading(
    layout=Long(time="time", tag="tag", value="value", quality="quality", sensors=SENSORS, group="machine"),
    windowing=Windowing(length=10, rate=10.0, gaps="linear", longest_gap=1.0),
)


def recording(machines: int, samples: int, *, seed: int = 0, rate: float = 10.0, fault: bool = True) -> pd.DataFrame:
    """Rows of several machines, one after the other: some cells are empty, and some machines fail for a while."""
    random = np.random.default_rng(seed)
    frames = []
    for number in range(machines):
        seconds = np.arange(samples) / rate
        level = np.sin(seconds[:, None] + np.arange(len(SENSORS))) + 0.05 * random.normal(size=(samples, len(SENSORS)))
        if fault and number % 2:
            level[samples // 2 : samples // 2 + 60] += 3.0
        level[random.random(level.shape) < 0.02] = np.nan
        frame = pd.DataFrame(level, columns=list(SENSORS))
        frame.insert(0, "machine", f"m{number}")
        frame.insert(0, "time", START + pd.to_timedelta(np.round(seconds * 1e6), unit="us"))
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def long_recording(wide: pd.DataFrame) -> pd.DataFrame:
    """The same as a historian exports it: one row per value, some of bad quality."""
    long = wide.melt(id_vars=["time", "machine"], var_name="tag").dropna()
    long = long.sort_values(["machine", "time"], kind="stable").reset_index(drop=True)
    long["quality"] = np.where(np.arange(len(long)) % 97 == 0, "Bad", "Good")
    return long


def fitted(folder: Path, reading: Reading) -> Path:
    """A small model that takes windows, in a folder."""
    wide = recording(4, 600, seed=7, fault=False)
    rows = wide if isinstance(reading.layout, Wide) else long_recording(wide)
    detector = Detector(posterior=AnchoredEnsemble(members=3), training=Training(epochs=30), missing="refer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # half a minute of a wave: its stretches differ
        detector.fit(reading.read(rows))
    save(detector.read_by(reading), folder)
    return folder


def settings(topics: list[dict[str, Any]], **more: Any) -> LiveSettings:
    """Settings for messages that are as old as the recordings of the tests."""
    return live_settings({"topics": topics, "ordering": {"behind": 1e10, "lateness": 0.5}} | more)


def assessed(folder: Path, rows: pd.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    """What the library says of the same rows in a file: by machine and start of the window."""
    detector = load(folder)
    assert isinstance(detector, Detector)
    windows = detector.reading_.read(rows)
    found = detector.assess(windows).to_pandas()
    starts = [stamp.isoformat() for stamp in windows.origin.column("start").to_pandas()]
    machines = windows.origin.column("group").to_pylist()
    return dict(zip(zip(machines, starts, strict=True), found.to_dict("records"), strict=True))


def wide_messages(rows: pd.DataFrame) -> Iterator[tuple[str, bytes]]:
    """A message per row, with the sensors that have a value."""
    for row in rows.to_dict("records"):
        values = {name: row[name] for name in SENSORS if row[name] == row[name]}
        yield f"plant/{row['machine']}", json.dumps({"t": row["time"].isoformat(), "v": values}).encode()


def shuffled(rows: pd.DataFrame, *, within: float, seed: int = 3) -> pd.DataFrame:
    """Rows in the order of a time that is off by up to so many seconds, every fifth of them doubled."""
    random = np.random.default_rng(seed)
    doubled = pd.concat([rows, rows.iloc[::5]], ignore_index=True)
    off = pd.to_timedelta(random.random(len(doubled)) * within, unit="s")
    return doubled.iloc[np.argsort((doubled["time"] + off).to_numpy(), kind="stable")]


def entries(messages: Iterable[tuple[str, bytes]], *, apart: float = 1e-9) -> list[JournalEntry]:
    """Messages as the journal has them; they came a day after, so many seconds apart."""
    first, step = (START + pd.Timedelta(days=1)).value, round(apart * 1e9)
    return [JournalEntry(first + n * step, n % 65535 + 1, topic, body) for n, (topic, body) in enumerate(messages)]
