"""`indubio tune`: a file of good examples in, a configuration for `indubio fit` out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from indubio.cli.exit_codes import ExitCode
from indubio.cli.file_options import Decimal, Encoding, Separator, SheetOption, SkipLines, Thousands, UnitsLines
from indubio.cli.worker_options import Cluster, TlsCa, TlsCert, TlsKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from indubio.tuning import Found, Step


def tune(
    source: Annotated[str, typer.Argument(help='CSV, Parquet or Excel, good examples: a file, folder or "pattern*".')],
    out: Annotated[Path, typer.Option("--out", "-o", help="TOML file for `indubio fit --config`.")],
    config: Annotated[
        Path | None, typer.Option(help="TOML file to begin with, also for windows; see `indubio config`.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Feature columns, with commas; default: all others.")] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Column that is no feature; repeatable.")] = None,
    time: Annotated[str | None, typer.Option(help="Time column.")] = None,
    label: Annotated[str | None, typer.Option(help="Label column; rows that are anomalies are left out.")] = None,
    anomaly: Annotated[list[str] | None, typer.Option(help="Label that means anomaly (default 1, true).")] = None,
    categorical: Annotated[list[str] | None, typer.Option(help="Column of categories; repeatable.")] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    encoding: Encoding = None,
    skip_lines: SkipLines = None,
    units_lines: UnitsLines = None,
    sheet: SheetOption = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of every trial, and of the result.")] = None,
    study: Annotated[
        Path | None, typer.Option(help="File of the study (SQLite), to go on with; default: --out with .db.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Settings to try, with those of earlier runs.")] = 50,
    timeout: Annotated[float | None, typer.Option(min=0.001, help="Begin no trial after so many seconds.")] = None,
    by: Annotated[
        Literal["separation", "nll"],
        typer.Option(help="separation: tell good rows from rows with one column broken. nll: held-out NLL alone."),
    ] = "separation",
    rows: Annotated[int, typer.Option(min=20, help="Examples to search on, at random.")] = 20_000,
    draws: Annotated[int, typer.Option(min=1, help="Draws of a trial, at most.")] = 3,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes here; default: one for each core.")] = None,
    cluster: Cluster = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Search for an architecture and a learning rate, without labels."""
    from indubio.cli.config_file import detector_of, merged, read_config, reading_of
    from indubio.cli.file_options import file_format, plain_format, tell_files
    from indubio.cli.fit import _roles
    from indubio.cli.label_words import tell_training_labels
    from indubio.cli.terminal import terminal
    from indubio.cli.unused_columns import tell_unused
    from indubio.inputs.example_streams import ExampleStream
    from indubio.tuning import Search, best_so_far, sampled, search
    from indubio.workers import Workers

    flags: dict[str, Any] = {
        "training": {"epochs": epochs},
        "data": {
            "table": _roles(columns, ids, time, None, label, anomaly, categorical),
            "file_format": plain_format(
                file_format(separator, decimal, thousands, encoding, skip_lines, units_lines, sheet)
            ),
        },
    }
    settings = merged(read_config(config), flags)
    detector, reading = detector_of(settings, config), reading_of(settings)
    hands = Workers(processes=workers, cluster=cluster, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key)
    wanted = Search(trials=trials, timeout=timeout, by=by, draws=draws, seed=seed)
    files = reading.opened(source)
    tell_files(reading.files(files))
    sample = sampled(ExampleStream(files, reading), rows, seed)
    if columns is None:
        tell_unused(reading.files(files), reading, known=False)
    tell_training_labels(files, reading)
    where = study or out.with_suffix(".db")
    console = terminal(stderr=True)
    try:
        with _bar(console) as tell:
            found = search(detector, sample, where, wanted, hands, tell)
    except KeyboardInterrupt:
        console.print(f"Stopped: what was tried is kept in {where}. Run the same command again to go on.")
        so_far = best_so_far(detector, sample, where, wanted)
        if so_far is not None:
            _write(so_far, settings, out)
            _tell(so_far, out, as_json)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    _write(found, settings, out)
    _tell(found, out, as_json)


def _write(found: "Found", settings: dict[str, Any], out: Path) -> None:
    from indubio.cli.config_file import DATA
    from indubio.cli.default_toml import written_toml
    from indubio.configuration import detector_to_plain
    from indubio.io.whole_files import whole_file

    tuned = detector_to_plain(found.detector) | ({DATA: settings[DATA]} if settings.get(DATA) else {})
    with whole_file(out) as file:
        file.write(written_toml(tuned).encode())


def _tell(found: "Found", out: Path, as_json: bool) -> None:
    from indubio.cli.terminal import terminal
    from indubio.io.json_text import json_text

    if as_json:
        told = {"trials": found.done, "failed": found.failed, "config": str(out)}
        usual = None if found.usual is None else {"separation": found.usual.separation, "nll": found.usual.nll}
        best = {"separation": found.judged.separation, "nll": found.judged.nll}
        typer.echo(json_text(told | {"best": best, "given": usual}))
        return
    console = terminal()
    failed = f", {found.failed} could not be trained" if found.failed else ""
    lines = [f"{found.done} settings tried{failed}. The best, in {out}:"]
    lines.append(f"  separation {found.judged.separation:.4f}, held-out NLL {found.judged.nll:.4g}")
    if found.usual is not None:
        lines.append(
            f"  the settings to begin with: separation {found.usual.separation:.4f}, NLL {found.usual.nll:.4g}"
        )
    lines.append("Separation is of good rows from the same with one column broken: 0.5 is blind, 1 is perfect.")
    for line in lines:
        console.print(line, soft_wrap=True)


@contextmanager
def _bar(console: Any) -> "Iterator[Callable[[Step], None]]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("trials", total=None)

        def tell(step: "Step") -> None:
            best = "" if step.best is None else f"best {step.best:.4f}"
            bar.update(task, completed=step.done + step.failed, total=step.total, description=best)

        yield tell
