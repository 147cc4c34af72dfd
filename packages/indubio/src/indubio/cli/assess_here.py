"""`indubio assess` in this process: all examples in order, streamed, and what is told of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import typer
from rich.text import Text

from indubio.chain import LEVEL, UNFAMILIAR, Assessment
from indubio.cli.by_flags import by_flags
from indubio.cli.command_settings import AssessSettings
from indubio.cli.consoles import Terminal, terminal
from indubio.cli.drift_watch import DriftWatch
from indubio.cli.fdr_selection import Selecting
from indubio.cli.file_words import tell_files
from indubio.cli.label_words import LabelsSeen
from indubio.cli.progress import counter
from indubio.cli.recording_files import RecordingFiles, beside_windows
from indubio.cli.standard_input import named_source
from indubio.cli.unused_columns import tell_unused
from indubio.cli.worst import Worst, coloured_counts
from indubio.data import Examples, Reading, WindowReport
from indubio.decision import Verdict
from indubio.errors import DataError
from indubio.io import Format, Sink, format_of, json_text, sink
from indubio.judge import Judge
from indubio.message import Message, joined

MOST_NOTES = 3
MANY_UNFAMILIAR, FEWEST_UNFAMILIAR = 3, 3  # times as many as of good examples; and a number
FOR_PEOPLE = ("csv", "xlsx")  # formats whose columns are the short set, unless all are asked for


def full_columns(written: Format, full: bool) -> bool:
    """Whether all columns and digits are written in this format."""
    return full or written not in FOR_PEOPLE


@dataclass(kw_only=True)
class AssessHere:
    """What `indubio assess` was asked for, and what it has seen; see the options of the command.

    Args:
        out: file, or "-" for stdout; None writes no rows.
        written: the format of it; None goes by its name.
        settings: what `--set` says.
    """

    source: str
    model: Path
    sha256: str | None
    out: str | None
    written: Format | None
    full: bool
    passed: tuple[str, ...]
    label: str | None
    anomaly_values: tuple[str, ...] | None
    top: int
    contributions: bool
    fdr: float | None
    drift_state: Path | None
    per_run: Path | None
    points: Path | None
    as_json: bool
    settings: AssessSettings
    _verdicts: Counter[str] = field(default_factory=Counter)
    _notes: Counter[str] = field(default_factory=Counter)
    _unfamiliar: int = 0
    _normal: int = 0
    _cut: list[WindowReport] = field(default_factory=list)

    def run(self) -> tuple[Mapping[str, int], bool]:
        """Assess all, write it and tell of it: how many there are of each verdict, and whether drift was found."""
        judge = Judge.load(self.model, sha256=self.sha256)
        selecting = None if self.fdr is None else Selecting(self.fdr)
        watch = DriftWatch(judge, self.settings.drift_alpha, self.drift_state)
        worst = Worst("nll" if judge.detector.correction_ is None else "probability")
        beside: AbstractContextManager[RecordingFiles | None] = nullcontext()
        if self.per_run is not None or self.points is not None:
            share, by = self.settings.run_share, self.settings.points_by
            beside = beside_windows(judge, self.per_run, share, self.points, by)
        with named_source(self.source) as path, self._target() as writer, beside as recording:
            files = judge.opened(path, self.settings.file)
            reading = judge.reading(files, self.passed, self.label, self.anomaly_values, self.settings.file)
            tell_files(reading.files(files))
            labels = None if reading.label is None else LabelsSeen()
            with counter("assessed") as count:
                for part in _parts(reading, files, whole=judge.rule.OVER_BATCH):
                    if labels is not None:
                        labels.see(part)
                    found, table = judge.assessed(
                        part, reading, top=self.top, contributions=self.contributions, full=self._full
                    )
                    if selecting is not None:
                        selecting.hold(table, found)
                    elif writer is not None:
                        writer.write(table)
                    self._see(part, found)
                    worst.see(found)
                    watch.see(part, found)
                    if recording is not None:
                        recording.see(part, found)
                    count(len(found))
            if not self._verdicts.total():
                raise DataError(f"{self.source}: there are no rows.")
            tell_unused(reading.files(files), reading, known=True)
            if labels is not None:
                labels.tell(files, reading)
            for table in () if selecting is None else selecting.selected():
                if writer is not None:
                    writer.write(table)
        drifted, drift, alarm = watch.told()
        if self.as_json:
            self._tell_machines(selecting, recording, drift)
        else:
            console = terminal(stderr=self.out is not None)
            self._tell(console, worst, selecting, recording, drifted, alarm=alarm)
            if self.out != "-":
                console.print_next(self._next(reading))
        return self._verdicts, alarm

    def _target(self) -> AbstractContextManager[Sink | None]:
        return nullcontext() if self.out is None else sink(self.out, self.written)

    @property
    def _full(self) -> bool:
        return self.out is None or full_columns(format_of(self.out, self.written), self.full)

    def _see(self, part: Examples, found: Assessment) -> None:
        self._verdicts.update(found.verdict.tolist())
        self._notes.update(str(note) for note in found.notes[found.notes != ""])
        normal = True if part.labels is None else ~part.labels
        self._normal += len(found) if part.labels is None else int(np.count_nonzero(normal))
        self._unfamiliar += int(np.count_nonzero((found.novelty > UNFAMILIAR) & normal))
        self._cut += [] if part.report is None else [part.report]

    @property
    def _counts(self) -> dict[str, int]:
        return {name.value: self._verdicts[name] for name in Verdict}

    @property
    def _read(self) -> list[str]:
        return reduce(add, self._cut).told_of_pauses() if self._cut else []

    def _tell_machines(
        self, selecting: Selecting | None, recording: RecordingFiles | None, drift: dict[str, Any]
    ) -> None:
        summary: dict[str, Any] = {"examples": self._verdicts.total(), **self._counts}
        for known in (selecting, recording):
            summary |= {} if known is None else known.summary()
        typer.echo(json_text(summary | {"out": self.out, "drift": drift, "read": "; ".join(self._read) or None}))

    def _tell(
        self,
        console: Terminal,
        worst: Worst,
        selecting: Selecting | None,
        recording: RecordingFiles | None,
        drifted: str,
        *,
        alarm: bool,
    ) -> None:
        console.print(Text(f"{self._verdicts.total()} examples: ").append(coloured_counts(self._counts)).append("."))
        table = worst.table() if self.out != "-" else None
        if table is not None:
            console.print(table)
        read = self._read
        lines = [f"Read: {by_flags(Message('{read}.', read=joined(read)), 'assess')}"] if read else []
        chosen = () if selecting is None else selecting.words(drifted=alarm)
        runs = () if recording is None else recording.words()
        for line in (*lines, *chosen, *runs, *self._odd(), f"Drift: {drifted}."):
            console.print(line, soft_wrap=True)

    def _odd(self) -> Iterator[str]:
        """What was odd about the examples, for people."""
        for note, times in self._notes.most_common(MOST_NOTES):
            yield f"{times} noted: {note}."
        if len(self._notes) > MOST_NOTES:
            yield f"And {len(self._notes) - MOST_NOTES} other notes, in the column `notes`."
        usual = (1 - LEVEL) * self._normal
        if self._unfamiliar >= FEWEST_UNFAMILIAR and self._unfamiliar > MANY_UNFAMILIAR * usual:
            yield (
                f"{self._unfamiliar} of {self._normal} are unlike anything in training (novelty above 1), where about "
                f"{usual:.0f} would be usual: if they are good, train with examples like them."
            )

    def _next(self, reading: Reading) -> str:
        """The command that goes on from here."""
        source, model = quote(self.source), quote(str(self.model))
        if self.source == "-":
            return "write the rows to a file by --out, and look at them."
        if self.out is not None and reading.label is not None:
            return f"indubio evaluate {quote(self.out)} --label {quote(reading.label)}"
        return f"indubio report {source} --model {model} --out report.html"


def _parts(reading: Reading, files: Any, *, whole: bool) -> Iterable[Examples]:
    return [reading.read(files, unlabelled=True)] if whole else reading.stream(files, unlabelled=True)
