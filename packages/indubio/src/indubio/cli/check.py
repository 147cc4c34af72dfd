"""`indubio check`: all that `fit` would refuse of some files and find odd in them, and the command that fits."""

from typing import TYPE_CHECKING, Annotated

import typer

from indubio.cli.exit_codes import ExitCode
from indubio.cli.flags import Configures
from indubio.cli.options import (
    DATA,
    Anomaly,
    Categorical,
    Columns,
    ConfigFile,
    Exclude,
    Group,
    Ids,
    Json,
    Label,
    Rate,
    Step,
    Time,
    Window,
    set_option,
)

if TYPE_CHECKING:
    from indubio.cli.column_check import ColumnCheck
    from indubio.data import Windowing


def check(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help='CSV, Parquet or Excel: a file, folder or "pattern*".')],
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
    missing: Annotated[
        str | None,
        typer.Option(metavar="WHAT", help="What `fit` is to do with missing values.", rich_help_panel=DATA),
    ] = None,
    as_json: Json = False,
    config: ConfigFile = None,
    changes: Annotated[
        list[str] | None,
        set_option("fit", "file.separator=;", config=True),
        Configures("indubio.configuration:Configuration"),
    ] = None,
) -> None:
    """Tell all that `fit` would refuse of a file and find odd in it, and the command that fits; nothing is trained.

    Such as: indubio check good.csv
    """
    from indubio.cli.column_check import ColumnCheck
    from indubio.cli.file_words import tell_files
    from indubio.cli.told_settings import settings_told
    from indubio.configuration import Configuration
    from indubio.data import are_images
    from indubio.io import json_text

    if are_images(source):
        raise typer.BadParameter("images have no columns: `indubio fit` says what it finds.")
    settings = settings_told(context, Configuration, config)
    files = settings.reading.opened(source)
    tell_files(files)
    found = ColumnCheck(reading=settings.reading, missing=settings.missing)
    found.run(files)
    more = [] if config is None else ["--config", str(config)]
    more += [part for change in changes or () for part in ("--set", change)]
    command = None if found.left else _command(source, found, settings.windowing, more)
    if as_json:
        told = {"refused": found.refused, "not_mended": found.left, "findings": found.odd, "command": command}
        typer.echo(json_text(told))
    else:
        _tell(found, command)
    if found.left:
        raise typer.Exit(ExitCode.FAILED)


def _tell(found: "ColumnCheck", command: str | None) -> None:
    from indubio.cli.consoles import terminal

    console = terminal()
    if not found.refused and not found.left:
        console.print("Nothing is refused.")
    left = [found.left] if found.left else []
    for title, lines in (("Refused:", found.refused), ("Refused, and no flag mends it:", left), ("Odd:", found.odd)):
        if lines:
            console.print(title, style="bold")
        for line in lines:
            console.print(f"- {line}", soft_wrap=True)
    if command is not None:
        console.print_next(command)


def _command(source: str, found: "ColumnCheck", windowing: "Windowing | None", more: list[str]) -> str:
    """The command that fits, with all that was found."""
    from shlex import join

    words = ["indubio", "fit", source, *found.flags()]
    if windowing is not None:
        cut = {"--window": windowing.length, "--step": windowing.step, "--rate": windowing.rate}
        words += [part for flag, value in cut.items() if value is not None for part in (flag, f"{value:g}")]
    return join([*words, *more, "--out", "model"])
