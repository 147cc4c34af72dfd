"""What `indubio assess` writes of a recording beside its windows: a verdict per run, a score per time step."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from indubio.chain import Assessment, PointGatherer, RunGatherer
from indubio.data import Examples, Windows
from indubio.errors import ConfigError
from indubio.io import Sink, sink
from indubio.judge import Judge


@contextmanager
def beside_windows(
    judge: Judge, per_run: Path | None, share: float, points: Path | None, points_by: str
) -> Iterator["RecordingFiles"]:
    """Files that appear when all windows were seen.

    Args:
        judge: the model.
        per_run: file of the runs; None for none.
        share: of a run's windows that must be anomalous for the run to be.
        points: file of the time steps; None for none.
        points_by: "score" or "contribution".
    """
    if judge.windowing is None:
        raise ConfigError("--per-run and --points are for windows of a recording, and this model judges rows.")
    if points and points_by == "contribution" and judge.detector.preparation_.spectra is not None:
        raise ConfigError(
            "--set points_by=contribution needs a model whose windows are scored as they are: spectra have no score "
            "per time step. Take --set points_by=score."
        )
    with ExitStack() as files:
        writer = files.enter_context(sink(points)) if points else None
        runs = RunGatherer(share) if per_run else None
        made = RecordingFiles(judge, runs, writer, points_by)
        yield made
        made.finish()
        if per_run and runs is not None:
            with sink(per_run) as target:
                target.write(runs.assessed().to_arrow())


class RecordingFiles:
    """Sees the windows part by part."""

    def __init__(self, judge: Judge, runs: RunGatherer | None, points: Sink | None, points_by: str) -> None:
        self._judge, self._runs, self._points, self._by = judge, runs, points, points_by
        windowing = judge.windowing
        self._gatherer = None if windowing is None else PointGatherer(windowing.length, windowing.stride)

    def see(self, part: Examples, found: Assessment) -> None:
        """Some more windows, and what was found of them."""
        if not isinstance(part, Windows):
            return
        if self._runs is not None:
            self._runs.add(found)
        if self._points is not None and self._gatherer is not None:
            for table in self._gatherer.add(part, self._scores(part, found)):
                self._points.write(table)

    def finish(self) -> None:
        """The time steps at the end."""
        if self._points is not None and self._gatherer is not None:
            for table in self._gatherer.rest():
                self._points.write(table)

    def summary(self) -> dict[str, Any]:
        """How many runs have which verdict, for machines."""
        if self._runs is None:
            return {}
        counts = Counter(self._runs.assessed().verdict.tolist())
        return {"runs": {name: counts[name] for name in ("INLIER", "ANOMALY", "REFER")}}

    def words(self) -> Iterator[str]:
        """The counts of runs, for people."""
        for counts in self.summary().values():
            yield f"{sum(counts.values())} runs: {', '.join(f'{count} {name}' for name, count in counts.items())}."

    def _scores(self, part: Windows, found: Assessment) -> np.ndarray:
        if self._by == "score":
            return found.nll
        steps = self._judge.detector.contributions(part).steps
        assert steps is not None
        return steps.value
