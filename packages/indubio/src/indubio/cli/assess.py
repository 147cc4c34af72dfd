"""`indubio assess`: new examples in, verdicts out."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from indubio.cli.exit_codes import ExitCode
from indubio.cli.flags import Configures, Gives
from indubio.cli.options import set_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from indubio.inputs.examples import Examples
    from indubio.inputs.reading import Reading


class FailOn(StrEnum):
    """What makes `assess` exit with code 3."""

    ANOMALY = "anomaly"
    REFER = "refer"
    DRIFT = "drift"
    ANY = "any"


class OutFormat(StrEnum):
    """What is written where the file's name does not say."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    XLSX = "xlsx"


def assess(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(help='CSV, Parquet, Excel or images: a file, folder, "pattern*", or - for stdin.')
    ],
    model: Annotated[Path, typer.Option("--model", "-m", help="Folder of the model.")],
    sha256: Annotated[
        str | None,
        typer.Option(help="The model must have this checksum, which `inspect` shows."),
    ] = None,
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", help="CSV, Parquet, JSON lines or Excel file, or - (stdout); with workers, a folder."
        ),
    ] = "-",
    out_format: Annotated[
        OutFormat | None, typer.Option("--format", help="Format to write; default: by the file's name.")
    ] = None,
    passed: Annotated[
        list[str] | None,
        typer.Option("--pass", help="Column of the file to pass through, of a window its first value; repeatable."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Label column to pass on as 0 and 1, for `evaluate`; of a window, 1 if any sample is. "
            '"" ignores the one that the model knows.'
        ),
    ] = None,
    anomaly: Annotated[list[str] | None, typer.Option(help="Label that means anomaly (default 1, true).")] = None,
    top: Annotated[int, typer.Option(min=0, help="So many top features of each anomaly and referral; 0 for none.")] = 3,
    fdr: Annotated[
        float | None,
        typer.Option(help="Mark anomalies of which at most this share is false; holds the results in memory."),
    ] = None,
    contributions: Annotated[
        bool,
        typer.Option("--contributions", help="Also a column per feature: what it adds to the score, and its spread."),
    ] = False,
    drift_state: Annotated[
        Path | None, typer.Option(help="JSON file: go on watching for drift from it, and keep what was seen in it.")
    ] = None,
    per_run: Annotated[
        Path | None,
        typer.Option(help="Also a verdict per run (group, or file) of a recording: a CSV, Parquet or JSON lines file."),
    ] = None,
    points: Annotated[
        Path | None,
        typer.Option(help="Also a score per time step of a recording, from the windows that cover it: such a file."),
    ] = None,
    fail_on: Annotated[
        FailOn | None, typer.Option(help=f"Exit with code {ExitCode.FOUND} when there is such a verdict, or drift.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", help="Assess shard by shard over so many processes; --out is a folder then."),
        Gives("workers.processes"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON summary on stdout (not with --out -).")] = False,
    changes: Annotated[
        list[str] | None,
        set_option("assess", "drift_alpha=0.001"),
        Configures("indubio.cli.command_settings:AssessSettings"),
    ] = None,
) -> None:
    """Verdict, probability and uncertainties of every example, streamed: files may be larger than memory.

    With --workers, or a cluster, a folder of files is assessed shard by shard; run again, it goes on where it stopped.

    Such as: indubio assess new.csv --model model --out verdicts.csv
    """
    from collections import Counter
    from contextlib import AbstractContextManager, nullcontext
    from functools import reduce
    from operator import add

    from indubio.cli.by_flags import by_flags
    from indubio.cli.command_settings import AssessSettings
    from indubio.cli.drift_watch import DriftWatch
    from indubio.cli.fdr_selection import Selecting
    from indubio.cli.file_words import tell_files
    from indubio.cli.label_words import LabelsSeen
    from indubio.cli.progress import counter
    from indubio.cli.recording_files import RecordingFiles, beside_windows
    from indubio.cli.standard_input import named_source
    from indubio.cli.terminal import terminal
    from indubio.cli.told_settings import settings_told
    from indubio.cli.unused_columns import tell_unused
    from indubio.errors import DataError
    from indubio.inputs.images import are_images
    from indubio.inputs.windows import WindowReport
    from indubio.io.json_text import json_text
    from indubio.io.sinks import sink
    from indubio.judge import Judge
    from indubio.message import Message, joined

    settings = settings_told(context, AssessSettings)
    if as_json and out == "-":
        raise typer.BadParameter("--json and --out - would both write to stdout. Give --out a file.")
    if settings.workers is not None:
        if are_images(source):
            raise typer.BadParameter("workers are for tables and recordings: leave --workers out for images.")
        from indubio.cli.assess_batch import assess_batch

        refused = {
            "--fdr": fdr,
            "--drift-state": drift_state,
            "--fail-on drift": fail_on is FailOn.DRIFT or None,
            "--per-run": per_run,
            "--points": points,
        }
        outcome = assess_batch(
            source,
            model,
            out,
            settings.workers,
            refused=[name for name, value in refused.items() if value is not None],
            as_json=as_json,
            format=out_format.value if out_format else None,
            passed=tuple(passed or ()),
            label=label,
            anomaly_values=tuple(anomaly) if anomaly else None,
            top=top,
            contributions=contributions,
            shard_rows=settings.shard_rows,
            sha256=sha256,
            file_format=settings.file,
        )
        if outcome.quarantined:
            raise typer.Exit(ExitCode.INCOMPLETE)
        if fail_on is not None and _found(outcome.verdicts, False, fail_on):
            raise typer.Exit(ExitCode.FOUND)
        return
    judge = Judge.load(model, sha256=sha256)
    verdicts: Counter[str] = Counter()
    cut: list[WindowReport] = []
    selecting = None if fdr is None else Selecting(fdr)
    watch = DriftWatch(judge, settings.drift_alpha, drift_state)
    beside: AbstractContextManager[RecordingFiles | None] = nullcontext()
    if per_run is not None or points is not None:
        beside = beside_windows(judge, per_run, settings.run_share, points, settings.points_by)
    with (
        named_source(source) as path,
        sink(out, out_format.value if out_format else None) as writer,
        beside as recording,
    ):
        files = judge.opened(path, settings.file)
        reading = judge.reading(files, tuple(passed or ()), label, tuple(anomaly) if anomaly else None, settings.file)
        tell_files(reading.files(files))
        labels = None if reading.label is None else LabelsSeen()
        with counter("assessed") as count:
            for part in _parts(reading, files, whole=judge.rule.OVER_BATCH):
                if labels is not None:
                    labels.see(part)
                found, table = judge.assessed(part, reading, top=top, contributions=contributions)
                if selecting is None:
                    writer.write(table)
                else:
                    selecting.hold(table, found)
                verdicts.update(found.verdict.tolist())
                cut += [] if part.report is None else [part.report]
                watch.see(part, found)
                if recording is not None:
                    recording.see(part, found)
                count(len(found))
        if not verdicts.total():
            raise DataError(f"{source}: there are no rows.")
        tell_unused(reading.files(files), reading, known=True)
        if labels is not None:
            labels.tell(files, reading)
        for table in () if selecting is None else selecting.selected():
            writer.write(table)
    read = reduce(add, cut).told_of_pauses() if cut else []
    summary: dict[str, Any] = {"examples": verdicts.total()} | {
        name: verdicts[name] for name in ("INLIER", "ANOMALY", "REFER")
    }
    drifted, drift, alarm = watch.told()
    if as_json:
        for known in (selecting, recording):
            summary |= {} if known is None else known.summary()
        typer.echo(json_text(summary | {"out": out, "drift": drift, "read": "; ".join(read) or None}))
    else:
        words = ", ".join(f"{count} {name}" for name, count in list(summary.items())[1:])
        console = terminal(stderr=True)
        console.print(f"{summary['examples']} examples: {words}.")
        lines = [f"Read: {by_flags(Message('{read}.', read=joined(read)), 'assess')}"] if read else []
        chosen = () if selecting is None else selecting.words(drifted=alarm)
        runs = () if recording is None else recording.words()
        for line in (*lines, *chosen, *runs, f"Drift: {drifted}."):
            console.print(line, soft_wrap=True)
    if fail_on is not None and _found(verdicts, alarm, fail_on):
        raise typer.Exit(ExitCode.FOUND)


def _parts(reading: "Reading", files: Any, *, whole: bool) -> "Iterable[Examples]":
    return [reading.read(files, unlabelled=True)] if whole else reading.stream(files, unlabelled=True)


def _found(verdicts: "Mapping[str, int]", drift: bool, wanted: FailOn) -> bool:
    names = ("ANOMALY", "REFER") if wanted is FailOn.ANY else (wanted.value.upper(),)
    return any(verdicts[name] for name in names) or (drift and wanted in (FailOn.ANY, FailOn.DRIFT))
