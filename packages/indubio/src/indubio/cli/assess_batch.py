"""`indubio assess` over workers: a folder of files in, a folder of results out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import Any

import typer
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from indubio.batch import Batch, BatchAdvance, BatchOutcome, OneFile, run_batch
from indubio.cli.assess_here import full_columns
from indubio.cli.consoles import terminal
from indubio.cli.exit_codes import ExitCode
from indubio.cli.file_words import tell_files
from indubio.cli.unused_columns import tell_unused
from indubio.errors import DataError
from indubio.io import FORMATS, ending, format_of, is_remote, json_text
from indubio.judge import Judge
from indubio.workers import Workers

TELL_EVERY = 30.0  # seconds between two lines where nobody looks
MOST_WORKERS = 16  # shown, the slowest first
MOST_REASONS = 10  # shown; the manifest has all


def assess_batch(
    source: str,
    model: Path,
    out: str | None,
    workers: Workers,
    *,
    refused: Sequence[str],
    as_json: bool,
    **options: Any,
) -> BatchOutcome:
    """Run it, show how far it is, and say what came of it.

    Args:
        source: files.
        model: folder of the model.
        out: folder, or a file that all results are put into.
        workers: where.
        refused: options that were given and do not go with workers.
        as_json: the summary for machines.
        options: of the batch; None for the default.
    """
    if refused:
        raise typer.BadParameter(
            f"{', '.join(refused)} needs all examples in one place and in order: it does not go with workers."
        )
    if out is None or "-" in (source, out):
        raise typer.BadParameter("workers read files and write files: give a source and --out that are no stream.")
    given = {name: value for name, value in options.items() if value is not None}
    full = full_columns(given.get("format", "parquet"), options["full"])
    batch, one = Batch(source=source, model=model, out=out, **given | {"full": full}), _one_file(out, given)
    _tell_first_file(batch)
    console = terminal(stderr=True)
    last: list[BatchAdvance] = []
    with _display(console) as show:

        def tell(advance: BatchAdvance) -> None:
            last[:] = [advance]
            show(advance)

        try:
            if one is None:
                found = run_batch(batch, workers, tell=tell)
            else:
                batch = replace(batch, full=full_columns(one.format, options["full"]))
                found = one.assessed(batch, lambda each: run_batch(each, workers, tell=tell))
        except KeyboardInterrupt:
            done = f"{last[0].done} of {last[0].total} shards are done and kept" if last else "nothing was begun"
            console.print(f"Stopped: {done}. Run the same command again to go on.")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        told = {name: value for name, value in asdict(found).items() if name != "results"}
        typer.echo(json_text(told | {"examples": found.examples, "out": out}))
    else:
        for line in _words(found, out, one):
            console.print(line, soft_wrap=True)
        if batch.label is not None and one is not None:
            console.print_next(f"indubio evaluate {quote(out)} --label {quote(batch.label)}")
    return found


def _one_file(out: str, options: dict[str, Any]) -> OneFile | None:
    """The file that all results go to; None where the target is a folder."""
    path = Path(out)
    if is_remote(out) or path.is_dir() or ending(path.name)[0] not in FORMATS:
        return None
    return OneFile(target=path, format=format_of(out, options.get("format")))


def _tell_first_file(batch: Batch) -> None:
    """How the first file is read, and which of its columns are not used."""
    judge = Judge.load(batch.model, sha256=batch.sha256)
    first = judge.opened(batch.source, batch.file_format)[:1]
    with suppress(DataError):  # a file that cannot be read is put aside by the run, which tells why
        reading = judge.reading(first, batch.passed, batch.label, batch.anomaly_values, batch.file_format)
        tell_files(first)
        tell_unused(first, reading, known=True)


def _words(found: BatchOutcome, out: str, one: OneFile | None) -> Iterator[str]:
    counts = ", ".join(f"{count:,} {name}" for name, count in found.verdicts.items())
    earlier = f", {found.before} of them by earlier runs" if found.before else ""
    yield f"{found.examples:,} examples: {counts}."
    yield (
        f"{found.shards} shards in {out}{earlier}."
        if one is None
        else f"Results of {found.shards} shards{earlier}: {out}."
    )
    if found.quarantined:
        yield f"{len(found.quarantined)} could not be assessed and were put aside:"
        for name, reason in list(found.quarantined.items())[:MOST_REASONS]:
            yield f"  {name}: {reason}"
        if len(found.quarantined) > MOST_REASONS:
            yield f"  and {len(found.quarantined) - MOST_REASONS} more, in _indubio/manifest.json there."
        if one is not None:
            yield f"The others are in {one.shards}, so that the next run does these alone."
    yield "Drift: not tested over workers."


@contextmanager
def _display(console: Console) -> Iterator[Callable[[BatchAdvance], None]]:
    """A bar with a line for each worker, or now and then a line where nobody looks."""
    if console.is_terminal:
        with Live(console=console, transient=True, refresh_per_second=4) as live:
            yield lambda advance: live.update(_drawn(advance))
        return
    due = TELL_EVERY

    def tell(advance: BatchAdvance) -> None:
        nonlocal due
        if advance.seconds >= due:
            due = advance.seconds + TELL_EVERY
            console.print(_line(advance))

    yield tell


def _line(advance: BatchAdvance) -> str:
    left = "" if advance.left is None else f", about {_time(advance.left)} left"
    aside = f", {advance.refused} put aside" if advance.refused else ""
    return (
        f"{advance.done} of {advance.total} shards{aside}, {advance.examples:,} examples, "
        f"{advance.rate:,.0f} a second{left}"
    )


def _drawn(advance: BatchAdvance) -> Table:
    grid = Table.grid(padding=(0, 1))
    for _ in range(2):
        grid.add_column(no_wrap=True)
    grid.add_row(ProgressBar(total=1.0, completed=advance.share, width=16), _line(advance))
    slowest = sorted(advance.workers.items(), key=lambda worker: worker[1].rate)
    for name, state in slowest[:MOST_WORKERS]:
        grid.add_row(f"  {name}", f"{state.shards} done, {state.rate:,.0f} a second, last {state.latest}")
    return grid


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
