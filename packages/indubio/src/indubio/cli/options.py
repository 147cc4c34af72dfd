"""Options that several commands have, each declared once: the data, its windows, and what every command is told by."""

from pathlib import Path
from typing import Annotated, Any

import typer

from indubio.cli.flags import Gives

DATA, WINDOWS = "What the columns are", "Windows of a recording"
WRITTEN = "What is written"
CONFIG = "Everything else"
COLUMN, VALUE, FOLDER, FILE, COUNT, SHARE = "COLUMN", "VALUE", "FOLDER", "FILE", "COUNT", "SHARE"


def listed(text: str) -> list[str]:
    """The names in a text that commas are between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def set_option(command: str, example: str, *, config: bool = False) -> Any:
    """`--set` of a command.

    Args:
        command: its name.
        example: a setting that it has, with a value.
        config: whether it takes a file too.
    """
    wins = "A flag wins over --set, and --set over --config." if config else "A flag wins over --set."
    return typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help=f"Any setting, such as {example}; `indubio config {command}` shows them all. Repeatable. {wins}",
        rich_help_panel=CONFIG,
    )


Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="COLUMNS", help="Feature columns, with commas; default: all others.", rich_help_panel=DATA
    ),
    Gives("table.columns", "layout.sensors", read_as=listed),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar=COLUMN, help="Column that is left out; repeatable.", rich_help_panel=DATA),
    Gives("table.exclude", "layout.exclude"),
]
Ids = Annotated[
    list[str] | None,
    typer.Option(
        "--id",
        metavar=COLUMN,
        help="Column passed through, of a window its first value; repeatable.",
    ),
    Gives("table.ids", "layout.ids"),
]
Time = Annotated[
    str | None,
    typer.Option("--time", metavar=COLUMN, help="Time column, passed through.", rich_help_panel=DATA),
    Gives("table.time", "layout.time"),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar=COLUMN,
        help="Column of the part, cycle or run; of a table, the machine or product within which p-values hold.",
        rich_help_panel=DATA,
    ),
    Gives("table.group", "layout.group", "groups"),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar=COLUMN,
        help="Label column; rows that are anomalies, and windows with any, are left out.",
    ),
    Gives("table.label", "layout.label"),
]
Anomaly = Annotated[
    list[str] | None,
    typer.Option("--anomaly", metavar=VALUE, help="Label that means anomaly (default 1, true)."),
    Gives("table.anomaly_values", "layout.anomaly_values"),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option("--categorical", metavar=COLUMN, help="Column of categories; repeatable.", rich_help_panel=DATA),
    Gives("table.categorical"),
]
Window = Annotated[
    int | None,
    typer.Option("--window", metavar=COUNT, help="Samples per window: makes windows.", rich_help_panel=WINDOWS),
    Gives("windowing.length"),
]
Step = Annotated[
    int | None,
    typer.Option(
        "--step", metavar=COUNT, help="Samples between windows; default: no overlap.", rich_help_panel=WINDOWS
    ),
    Gives("windowing.step"),
]
Rate = Annotated[
    float | None,
    typer.Option("--rate", metavar="RATE", help="Resample to so many samples a second.", rich_help_panel=WINDOWS),
    Gives("windowing.rate"),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar=COUNT,
        help="Processes that share the work; the result is the same.",
        rich_help_panel=CONFIG,
    ),
    Gives("workers.processes"),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar=FILE, help="TOML file of settings; `indubio config` prints one.", rich_help_panel=CONFIG
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.", rich_help_panel=CONFIG)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.", rich_help_panel=CONFIG)]
