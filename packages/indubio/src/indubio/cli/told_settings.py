"""What a command is told, as one object: by its flags, by `--set NAME=VALUE`, and by a TOML file, in this order."""

import json
import tomllib
from collections.abc import Mapping
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import Any

import typer
from pydantic import TypeAdapter, ValidationError

from indubio.cli.flags import SET_FLAG, Gives, declared_options, settings_of
from indubio.configuration import FAMILIES, SettingsT, configured
from indubio.errors import ConfigError
from indubio.io import read_toml
from indubio.settings import KIND, Setting

NEAREST = 3  # names that are offered for one that is not known
RECORDING = {"layout", "windowing"}  # tables of a configuration that reads a recording
GIVEN = ("COMMANDLINE", "ENVIRONMENT")  # where the value of an option comes from that was given


class ConfigFileError(ConfigError):
    """A setting in a configuration file has a value it must not have; it goes by its name there, not by a flag."""


def settings_told(
    context: typer.Context, expected: type[SettingsT], config: Path | None = None, **usual: object
) -> SettingsT:
    """The settings of a command from all that it was told.

    Args:
        context: of the command that was called: its flags and `--set`.
        expected: the class of its settings.
        config: TOML file with some of them.
        usual: what holds of tables that nobody said anything of.
    """
    in_file = {} if config is None else read_toml(config)
    given = merged(merged(usual, in_file), _by_set(context))
    given = merged(given, _by_flags(context, given))
    try:
        return configured(expected, given)
    except ConfigError as error:
        if config is not None:
            _refuse_file(config, in_file, expected, str(error))
        raise


def in_file(expected: type[SettingsT], config: Path) -> SettingsT:
    """The settings that a TOML file says alone."""
    try:
        return configured(expected, read_toml(config))
    except ConfigError as error:
        raise ConfigFileError(f"{config}: {error}") from None


def merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The first with the second put in: tables key by key, but a table of another kind as a whole."""
    out = dict(before)
    for name, value in changes.items():
        if value is True and isinstance(out.get(name), Mapping):
            continue  # it is asked for already, and with what
        if not isinstance(value, Mapping):
            out[name] = value
            continue
        table = out.get(name)
        table = {KIND: table} if isinstance(table, str) else table if isinstance(table, Mapping) else {}
        other = KIND in value and table.get(KIND, value[KIND]) != value[KIND]
        out[name] = merged({} if other else table, value)
    return out


def _refuse_file(config: Path, said: Mapping[str, Any], expected: type[SettingsT], message: str) -> None:
    """Say that the file is wrong where it is so by itself."""
    try:
        configured(expected, said)
    except ConfigError as error:
        if str(error) == message:
            raise ConfigFileError(f"{config}: {message}") from None


def _by_set(context: typer.Context) -> dict[str, Any]:
    """What `--set` says; of a setting that is said twice, the last."""
    command = str(context.command.name)
    there = settings_of(command)
    given: dict[str, Any] = {}
    for said in context.params.get("changes") or ():
        name, equals, text = said.partition("=")
        name = name.strip()
        if not equals:
            raise ConfigError(f"{SET_FLAG} {said}: give it a value, as {SET_FLAG} {name}=VALUE.")
        if name not in there:
            raise ConfigError(
                f"{SET_FLAG} {name}: there is no such setting. {_nearest(name, there)} "
                f"`indubio config {command}` shows them all."
            )
        value = _value(text, there[name])
        given = merged(given, _table(name, {KIND: value} if name in FAMILIES and isinstance(value, str) else value))
    return given


def _nearest(name: str, there: Mapping[str, Setting]) -> str:
    """The settings that may be meant: alike, or of the same name in another table."""
    last = name.rpartition(".")[2]
    parts = get_close_matches(last, {known.rpartition(".")[2] for known in there}, n=1)
    alike = {known for known in there if known.rpartition(".")[2] in parts} | {*get_close_matches(name, there)}
    near = sorted(alike, key=lambda known: -SequenceMatcher(None, name, known).ratio())[:NEAREST]
    return f"Did you mean {' or '.join(near)}?" if near else "No name is like it."


def _value(text: str, setting: Setting) -> Any:
    """The value of a setting as TOML writes it; a text needs no quotes."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    if isinstance(value, str) or _fits(value, setting) or not _fits(text, setting):
        return value
    return text


def _fits(value: object, setting: Setting) -> bool:
    try:
        TypeAdapter(setting.rule).validate_json(json.dumps(value, default=str), strict=True)
    except (ValidationError, ConfigError):
        return False
    return True


def _table(name: str, value: Any) -> dict[str, Any]:
    """A table with this value at its dotted name."""
    first, _, rest = name.partition(".")
    return {first: _table(rest, value)} if rest else {first: value}


def _by_flags(context: typer.Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the flags say that were given."""
    command = str(context.command.name)
    there, said = settings_of(command), dict[tuple[str, ...], Any]()
    for parameter, _, marks in declared_options(command):
        source = context.get_parameter_source(parameter)
        if source is None or source.name not in GIVEN:
            continue
        mark = next((mark for mark in marks if isinstance(mark, Gives)), Gives(parameter))
        value = context.params[parameter]
        said[tuple(name for name in mark.settings if name in there)] = mark.read_as(value) if mark.read_as else value
    recording = not RECORDING.isdisjoint({*given, *(name.partition(".")[0] for names in said for name in names[:1])})
    tables: dict[str, Any] = {}
    for names, value in said.items():
        if names:
            tables = merged(tables, _table(names[-1] if recording else names[0], value))
    return tables
