"""Which setting is given by which flag: derived from the options that the commands declare.

An option is of the setting that has the name of its parameter. Where it has another name, its declaration says so:

    Window = Annotated[int | None, typer.Option("--window", help="..."), Gives("windowing.length")]

A command that takes `--set` says which settings these are, and what has no flag of its own is given by it:

    changes: Annotated[list[str] | None, set_option("fit", "seed=3"), Configures("indubio.configuration:Configuration")
    ] = None
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from shlex import quote
from typing import Any, get_type_hints

from indubio.settings import KIND, Setting, Settings, settings_within

SET_FLAG = "--set"


class Gives:
    """Marks the declaration of an option with the settings that it gives.

    Args:
        settings: their dotted names, or names of arguments in Python. Of a table and a layout, what is read decides.
        read_as: what makes the value of a setting from that of the option.
    """

    def __init__(self, *settings: str, read_as: Callable[[Any], Any] | None = None) -> None:
        self.settings, self.read_as = settings, read_as


class Configures:
    """Marks the declaration of `--set` with the settings of the command.

    Args:
        settings: their class, as "module:Class", which is imported where it is needed.
    """

    def __init__(self, settings: str) -> None:
        self._module, _, self._name = settings.partition(":")

    @property
    def settings(self) -> type[Settings]:
        """The class of settings that these flags are of."""
        expected: type[Settings] = getattr(import_module(self._module), self._name)
        return expected


def flag_of(setting: str, command: str = "fit") -> str | None:
    """The flag that gives a setting: "--false-alarms", or "--set referral.share"; None where there is none.

    Args:
        setting: its dotted name, or the last part of it, as a message of Python has it.
        command: whose flags are looked at; what it lacks, `fit` may have.
    """
    for flags in (flags_of(command), flags_of("fit")):
        if setting in flags:
            return flags[setting]
    return None


def given_by(setting: str, value: object, command: str = "fit") -> str | None:
    """What is written on the command line to give a setting a value: "--missing median", "--set seed=3"."""
    flag = flag_of(setting, command)
    if flag is None:
        return None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{flag}{'=' if flag.startswith(SET_FLAG) else ' '}{quote(text)}"


@cache
def flags_of(command: str) -> Mapping[str, str]:
    """The flags of a command by setting: by its dotted name, and by its last part where that can mean one flag only."""
    own = dict(_own_flags(command))
    flags = {name: own.get(name, f"{SET_FLAG} {name}") for name in settings_of(command)}
    by_last: dict[str, set[str]] = {}
    for name, flag in flags.items():
        if not name.endswith(f".{KIND}"):
            by_last.setdefault(name.rpartition(".")[2], set()).add(flag)
    last = {name: there.pop() for name, there in by_last.items() if len(there) == 1}
    return last | {name.rpartition(".")[2]: flag for name, flag in own.items()} | flags | own


@cache
def settings_of(command: str) -> Mapping[str, Setting]:
    """The settings that a command can be told, by their dotted names; none for a command without `--set`."""
    return settings_within(known) if (known := _settings_class(command)) else {}


def commands_with_settings() -> dict[str, type[Settings]]:
    """The commands that take `--set`, with the class of their settings."""
    from indubio.cli.app import app

    names = [str(command.name) for command in app.registered_commands]
    return {name: known for name in names if (known := _settings_class(name)) is not None}


def _settings_class(command: str) -> type[Settings] | None:
    marks = (mark for _, _, marks in declared_options(command) for mark in marks)
    return next((mark.settings for mark in marks if isinstance(mark, Configures)), None)


def declared_options(command: str) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """The options of a command: the name of the parameter, the flag, and what its declaration is marked with."""
    from typer.main import get_command

    from indubio.cli.app import app

    callbacks: dict[str | None, Any] = {known.name: known.callback for known in app.registered_commands}
    if command not in callbacks:
        return
    declared = get_type_hints(callbacks[command], include_extras=True)
    for option in getattr(get_command(app), "commands", {})[command].params:
        flag = next((spelt for spelt in option.opts if spelt.startswith("--")), None)
        if flag is not None and option.name in declared:
            yield option.name, flag, getattr(declared[option.name], "__metadata__", ())


def _own_flags(command: str) -> Iterator[tuple[str, str]]:
    """The settings of the options of a command, and how each option is written."""
    for parameter, flag, marks in declared_options(command):
        if flag == SET_FLAG:
            continue
        names = [name for mark in marks if isinstance(mark, Gives) for name in mark.settings]
        for name in (parameter, *names):
            yield name, flag
