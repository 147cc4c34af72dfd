"""Options that say how files are written, for every command that reads some; and what is told of how they were read."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indubio.io.file_format import FileFormat
    from indubio.io.sources import Source

FILES = "How files are written, where it is not found out"
SEPARATOR_WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
MARK_WORDS = {"comma": ",", "point": ".", "none": "", "space": " "}
MOST_TOLD = 5  # lines about files; more are counted

Separator = Annotated[
    str | None, typer.Option("--separator", help="Between fields: , ; tab | or another.", rich_help_panel=FILES)
]
Decimal = Annotated[str | None, typer.Option("--decimal", help='Decimal mark, "," or ".".', rich_help_panel=FILES)]
Thousands = Annotated[
    str | None, typer.Option("--thousands", help="Mark of thousands: , . ' space or none.", rich_help_panel=FILES)
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", help="Of text: utf-8, cp1252, utf-16, ...", rich_help_panel=FILES)
]
SkipLines = Annotated[
    int | None, typer.Option("--skip-lines", min=0, help="Lines before the header.", rich_help_panel=FILES)
]
UnitsLines = Annotated[
    int | None,
    typer.Option("--units-lines", min=0, help="Lines of units below the header, left out.", rich_help_panel=FILES),
]
SheetOption = Annotated[
    str | None, typer.Option("--sheet", help="Of a spreadsheet: name, or number from 1.", rich_help_panel=FILES)
]


def file_format(
    separator: str | None,
    decimal: str | None,
    thousands: str | None,
    encoding: str | None,
    skip_lines: int | None,
    units_lines: int | None,
    sheet: str | None,
) -> "FileFormat | None":
    """What the flags ask of files; None for nothing."""
    from indubio.io.file_format import FileFormat

    given: dict[str, Any] = {
        "separator": None if separator is None else SEPARATOR_WORDS.get(separator, separator),
        "decimal": None if decimal is None else MARK_WORDS.get(decimal, decimal),
        "thousands": None if thousands is None else MARK_WORDS.get(thousands, thousands),
        "encoding": encoding,
        "skip_lines": skip_lines,
        "units_lines": units_lines,
        "sheet": sheet,
    }
    asked = {name: value for name, value in given.items() if value is not None}
    return FileFormat(**asked) if asked else None


def plain_format(wanted: "FileFormat | None") -> dict[str, Any] | None:
    """The same for a configuration."""
    return None if wanted is None else {name: getattr(wanted, name) for name in wanted.given}


def tell_files(files: "Sequence[Source]") -> None:
    """Say on stderr how files are read, where it is not the plain way; files that are read alike have one line."""
    from indubio.cli.messages import by_flags
    from indubio.cli.terminal import terminal

    said = {file.name: file.said for file in files}
    counts = Counter(line for line in said.values() if line is not None)
    first = {line: name for name, line in reversed(said.items()) if line is not None}
    console = terminal(stderr=True)
    for line, count in list(counts.items())[:MOST_TOLD]:
        others = f" and {count - 1} more" if count > 1 else ""
        console.print(f"{first[line]}{others}: {by_flags(line)}", soft_wrap=True)
    if len(counts) > MOST_TOLD:
        console.print(f"and {len(counts) - MOST_TOLD} other ways of writing.", soft_wrap=True)
    if files and _header_of_numbers(names := files[0].schema.names):
        console.print(
            f"{files[0].name}: the header holds numbers only ({', '.join(names[:3])}). If it is a row, it is lost: "
            "write a line with the names of the columns before it.",
            soft_wrap=True,
        )


def _header_of_numbers(names: "Sequence[str]") -> bool:
    """Whether a header looks like a row; columns that are just counted are no row."""
    try:
        values = [float(name) for name in names]
    except ValueError:
        return False
    return values not in ([*range(len(names))], [*range(1, len(names) + 1)])
