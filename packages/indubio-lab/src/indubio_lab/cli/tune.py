"""`indubio tune`: a file of good examples in, a configuration for `indubio fit` out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from indubio.cli import (
    Anomaly,
    Categorical,
    Columns,
    ConfigFile,
    Configures,
    Exclude,
    ExitCode,
    Gives,
    Group,
    Ids,
    Json,
    Label,
    Rate,
    Step,
    Time,
    Window,
    WorkersOption,
    set_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from indubio_lab.tuning import Found, SearchConfiguration
    from indubio_lab.tuning import Step as SearchStep


def tune(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help='CSV, Parquet or Excel, good examples: a file, folder or "pattern*".')],
    out: Annotated[Path, typer.Option("--out", "-o", help="TOML file for `indubio fit --config`.")],
    columns: Columns = None,
    exclude: Exclude = None,
    ids: Ids = None,
    time: Time = None,
    group: Group = None,
    label: Label = None,
    anomaly: Anomaly = None,
    categorical: Categorical = None,
    window: Window = None,
    step: Step = None,
    rate: Rate = None,
    study: Annotated[
        Path | None, typer.Option(help="File of the study (SQLite), to go on with; default: --out with .db.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Settings to try, with those of earlier runs (50)."), Gives("search.trials")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Begin no trial after so many seconds."), Gives("search.timeout")
    ] = None,
    workers: WorkersOption = None,
    as_json: Json = False,
    config: ConfigFile = None,
    changes: Annotated[
        list[str] | None,
        set_option("tune", "search.draws=5", config=True),
        Configures("indubio_lab.tuning:SearchConfiguration"),
    ] = None,
) -> None:
    """Search for an architecture and a learning rate, without labels.

    Such as: indubio tune good.csv --id serial --out tuned.toml
    """
    from indubio.cli import settings_told, tell_files, tell_training_labels, tell_unused, terminal
    from indubio.data import ExampleStream
    from indubio.workers import Workers
    from indubio_lab.tuning import SearchConfiguration, best_so_far, sampled, search

    settings = settings_told(context, SearchConfiguration, config)
    detector, reading, wanted = settings.detector, settings.reading, settings.search
    hands = settings.workers or Workers()
    files = reading.opened(source)
    tell_files(reading.files(files))
    sample = sampled(ExampleStream(files, reading), settings.rows, wanted.seed)
    if settings.columns is None:
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


def _write(found: "Found", settings: "SearchConfiguration", out: Path) -> None:
    from indubio.cli import written_toml
    from indubio.configuration import detector_to_plain
    from indubio.io import whole_file

    with whole_file(out) as file:
        file.write(written_toml(detector_to_plain(found.detector) | settings.plain_reading).encode())


def _tell(found: "Found", out: Path, as_json: bool) -> None:
    from indubio.cli import terminal
    from indubio.io import json_text

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
def _bar(console: Any) -> "Iterator[Callable[[SearchStep], None]]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("trials", total=None)

        def tell(step: "SearchStep") -> None:
            best = "" if step.best is None else f"best {step.best:.4f}"
            bar.update(task, completed=step.done + step.failed, total=step.total, description=best)

        yield tell
