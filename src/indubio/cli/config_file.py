"""What to train and how to read, from a TOML file and flags; flags win."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indubio.configuration import PARAMETERS as DETECTOR_KEYS
from indubio.configuration import detector_from_plain, from_plain
from indubio.detector import Detector
from indubio.errors import ConfigError
from indubio.inputs.reading import Reading
from indubio.io.toml_file import read_toml
from indubio.settings import refuse_unknown

DATA = "data"  # the part of a configuration that says how files are read


class ConfigFileError(ConfigError):
    """A setting in a configuration file has a value it must not have; it goes by its name there, not by a flag."""


def read_config(path: Path | None) -> dict[str, Any]:
    """The configuration in a TOML file; none gives an empty one."""
    return {} if path is None else read_toml(path)


def merged(config: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the flags that were given put in; tables are merged key by key."""
    out = dict(config)
    for name, value in flags.items():
        if isinstance(value, Mapping):
            before = out.get(name)
            inner = merged({"kind": before} if isinstance(before, str) else before or {}, value)
            if inner or not value:  # an empty table says: with all defaults
                out[name] = inner
        elif value is not None:
            out[name] = value
    return out


def detector_of(config: Mapping[str, Any], file: Path | None = None) -> Detector:
    """The unfitted detector that a configuration describes.

    Args:
        config: what the file and the flags say.
        file: it is from; None where there are flags only.
    """
    try:
        for name in config:
            refuse_unknown(name, (*DETECTOR_KEYS, DATA))
        return detector_from_plain({name: value for name, value in config.items() if name != DATA})
    except ConfigError as error:
        if file is None:
            raise
        raise ConfigFileError(f"{file}: {error}") from None


def reading_of(config: Mapping[str, Any]) -> Reading:
    """How its files are read; a configuration that says nothing reads a table of features."""
    given = dict(config.get(DATA) or {})
    if not given.get("layout") and not given.get("windowing") and "images" not in given:
        given.setdefault("table", {})
    return from_plain(Reading, given, DATA)
