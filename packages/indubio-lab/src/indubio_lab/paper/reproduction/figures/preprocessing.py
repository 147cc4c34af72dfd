"""How STRATH's recordings become examples: forging phase, bins of 10, scaling; and how parts get their labels.

Drawn of the real recordings where they are on this machine, else of made-up ones, and then the title says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from indubio.prepare import MinMax
from indubio.report import ANOMALOUS, BLACK, COLOURS, GREY, NORMAL, report_style
from indubio_lab.collections import (
    BIN_SIZE,
    DIMENSION,
    FORCE,
    MARKER,
    MEASUREMENTS,
    PARTS,
    SENSORS,
    binned,
    deviations,
    fences,
    find,
    forging,
    local_recordings,
    outside_fences,
    recording,
    strath,
)
from indubio_lab.paper.reproduction.figures.look import GENERATED
from indubio_lab.paper.reproduction.figures.results import Results

SHOWN = 3  # parts; more would hide each other
RATE = SENSORS[0].rate


@dataclass(frozen=True, eq=False)
class Recordings:
    """What the pipeline starts from.

    Args:
        forces: of every part.
        channels: the three sensors of every part.
        deviations: |measured - nominal| of every part, in mm.
        train: binned windows that the scaling is fitted on.
        generated: whether they were made up.
    """

    forces: Sequence[Float[np.ndarray, " samples"]]
    channels: Sequence[Float[np.ndarray, "samples sensors"]]
    deviations: Float[np.ndarray, " parts"]
    train: Float[np.ndarray, "train bins sensors"]
    generated: bool

    @property
    def phases(self) -> list[Float[np.ndarray, "samples sensors"]]:
        """The forging phase of every part."""
        return [channels[forging(force)] for force, channels in zip(self.forces, self.channels, strict=True)]


def strath_pipeline(results: Results) -> Figure:
    """From the raw recording to the network's input, a row for each sensor; the labels above."""
    return pipeline_figure(_local(results.data_folder) or made_up())


def pipeline_figure(recordings: Recordings) -> Figure:
    """Four stages side by side for each sensor, above them the force and the labels."""
    with report_style():
        figure = Figure(figsize=(11.0, 7.2), layout="constrained")
        what = GENERATED if recordings.generated else f"{len(recordings.forces)} recordings"
        figure.suptitle(f"STRATH preprocessing, {SHOWN} parts ({what})", fontsize=12, fontweight="bold")
        grid = figure.add_gridspec(len(SENSORS) + 1, 4)
        _draw_force(figure.add_subplot(grid[0, 0]), recordings)
        _draw_labels(figure.add_subplot(grid[0, 1:]), recordings.deviations)
        columns = _stages(recordings)
        for column, (title, step, stage) in enumerate(columns):
            for row, sensor in enumerate(SENSORS, start=1):
                axes = figure.add_subplot(grid[row, column])
                scaled, label = column == len(columns) - 1, f"{sensor.name.replace('_', '-')}\n[{sensor.unit}]"
                _draw_traces(axes, [trace[:, row - 1] for trace in stage], step)
                axes.set_ylabel(label if column == 0 else "scaled" if scaled else "")
                axes.set_title(title if row == 1 else "", fontsize=9)
                axes.set_xlabel("time [s]" if row == len(SENSORS) else "")
                if column == 0:
                    _shade(axes, recordings.forces[0])
    return figure


def _stages(recordings: Recordings) -> list[tuple[str, float, list[Float[np.ndarray, "steps sensors"]]]]:
    """Title, seconds a step, and the traces of the parts shown, stage by stage."""
    phases = recordings.phases
    windows = binned(phases, BIN_SIZE)
    shortest = min(map(len, phases))
    scaled = MinMax().fit(recordings.train).scaled(windows)
    bins = windows.shape[1]
    return [
        (f"1. raw, {RATE} Hz", 1 / RATE, list(recordings.channels[:SHOWN])),
        (
            f"2. forging phase, cut to the\nshortest: {shortest} samples",
            1 / RATE,
            [p[:shortest] for p in phases[:SHOWN]],
        ),
        (f"3. mean of bins of {BIN_SIZE}:\n{bins} steps", BIN_SIZE / RATE, list(windows[:SHOWN])),
        ("4. min-max scaled per sensor\non the training parts", BIN_SIZE / RATE, list(scaled[:SHOWN])),
    ]


def _draw_traces(axes: Axes, traces: Sequence[Float[np.ndarray, " steps"]], step: float) -> None:
    for place, trace in enumerate(traces):
        times = step * np.arange(len(trace))
        axes.plot(times, trace, color=COLOURS[place], linewidth=0.7, alpha=0.8, rasterized=True)
    axes.margins(x=0)


def _draw_force(axes: Axes, recordings: Recordings) -> None:
    _draw_traces(axes, recordings.forces[:SHOWN], 1 / RATE)
    _shade(axes, recordings.forces[0])
    axes.set_title(f"forging phase of one part (grey):\n{FORCE.split()[0]} above 0", fontsize=9)
    axes.set_ylabel(FORCE.replace(" ", "\n"))


def _shade(axes: Axes, force: Float[np.ndarray, " samples"]) -> None:
    phase = forging(force)
    axes.axvspan(phase.start / RATE, phase.stop / RATE, color=GREY, alpha=0.2, linewidth=0)


def _draw_labels(axes: Axes, values: Float[np.ndarray, " parts"]) -> None:
    parts, anomalous = np.arange(1, len(values) + 1), outside_fences(values)
    for name, which, colour, marker in (("inlier", ~anomalous, NORMAL, "o"), ("anomaly", anomalous, ANOMALOUS, "^")):
        label = f"{name} ({np.count_nonzero(which)})"
        axes.plot(parts[which], values[which], marker, color=colour, markersize=3.5, label=label)
    axes.axhline(fences(values)[1], color=BLACK, linestyle=":", linewidth=1, label="Tukey's upper fence")
    title = f'labels of all parts:\n|measured - nominal| of "{DIMENSION}"'
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel("part")
    axes.set_ylabel("deviation\n[mm]")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=3, borderaxespad=0)


def _local(folder: str | None) -> Recordings | None:
    """The recordings of the local folder, made up or real; None where they or the measurements are missing."""
    paths, measurements = local_recordings(folder), find(MEASUREMENTS, folder)
    if not paths or measurements is None:
        return None
    read = [recording(path, SENSORS) for path in paths]
    return Recordings(
        forces=[force for force, _ in read],
        channels=[channels for _, channels in read],
        deviations=deviations(measurements),
        train=strath("all", folder=folder).train,
        generated=any((path.parent / MARKER).exists() for path in paths),
    )


def made_up(seed: int = 0) -> Recordings:
    """Recordings with the look of the real ones: heating, forging for about a minute, nothing."""
    random = np.random.default_rng(seed)
    forces, channels = [], []
    for _ in range(8):
        before, during, after = 2000 + int(random.integers(300)), 5620 + int(random.integers(400)), 800
        inside = np.repeat([False, True, False], [before, during, after])
        along = np.clip((np.arange(inside.size) - before) / during, 0, 1)
        noise = random.standard_normal((4, inside.size))
        strokes = np.sin(2 * np.pi * 12 * along)
        forces.append(np.where(inside, 300 + 80 * strokes + 20 * noise[0], 0.0))
        position = 95 - 40 * along + 3 * strokes * inside + 0.1 * noise[1]
        speed = 900 * np.cos(2 * np.pi * 12 * along) * inside + 15 * noise[2]
        feedback = 53 + 6 * along**2 + 0.15 * noise[3]
        channels.append(np.column_stack([position, speed, feedback]))
    phases = [one[forging(force)] for force, one in zip(forces, channels, strict=True)]
    off = np.abs(0.02 + 0.012 * random.standard_normal(PARTS))
    off[random.choice(PARTS, 7, replace=False)] += 0.12
    return Recordings(forces, channels, off, binned(phases, BIN_SIZE), generated=True)
