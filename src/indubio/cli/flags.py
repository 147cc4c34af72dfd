"""Which setting is given by which flag: derived from the options that the commands declare.

An option is of the setting that has the name of its parameter. Where it has another name, or is of several settings,
its declaration says so:

    Window = Annotated[int | None, typer.Option("--window", help="..."), Gives("data.windowing.length")]
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, get_type_hints


class Gives:
    """Marks the declaration of an option with the settings that it gives.

    Args:
        settings: their dotted names in the configuration, or names of arguments in Python.
    """

    def __init__(self, *settings: str) -> None:
        self.settings = settings


def flag_of(setting: str, command: str = "fit") -> str | None:
    """The flag that gives a setting: "--false-alarms"; None where there is none.

    Args:
        setting: its dotted name in the configuration, or its last part, as a message of Python has it.
        command: whose flags are looked at; what it lacks, `fit` may have.
    """
    for flags in (flags_of(command), flags_of("fit")):
        if setting in flags:
            return flags[setting]
    return None


@cache
def flags_of(command: str) -> dict[str, str]:
    """The flags of a command by setting: by its dotted name, and by the last part of it."""
    return dict(_own_flags(command))


def _own_flags(command: str) -> Iterator[tuple[str, str]]:
    """The settings of the options of a command, and how each option is written."""
    from typer.main import get_command

    from indubio.cli.app import app

    callbacks: dict[str | None, Any] = {known.name: known.callback for known in app.registered_commands}
    if command not in callbacks:
        return
    declared = get_type_hints(callbacks[command], include_extras=True)
    for option in getattr(get_command(app), "commands", {})[command].params:
        if not option.opts[0].startswith("-"):
            continue
        flag = next(spelt for spelt in option.opts if spelt.startswith("--"))
        marks = getattr(declared[option.name], "__metadata__", ())
        names = [name for mark in marks if isinstance(mark, Gives) for name in mark.settings]
        for name in (option.name, *names):
            yield name, flag
            yield name.rpartition(".")[2], flag
