"""What is told of how files were read, where it is not the plain way."""

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indubio.io import Source

MOST_TOLD = 5  # lines about files; more are counted


def tell_files(files: "Sequence[Source]") -> None:
    """Say on stderr how files are read, where it is not the plain way; files that are read alike have one line."""
    from indubio.cli.by_flags import by_flags
    from indubio.cli.consoles import terminal

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
