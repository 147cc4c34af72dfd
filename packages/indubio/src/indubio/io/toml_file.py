"""TOML files, read whole; what is wrong with one is told in a line."""

import tomllib
from pathlib import Path
from typing import Any

from indubio.errors import ConfigError

DEEPEST = 20  # tables and lists within each other; the settings have five
TOO_DEEP = f"tables and lists are nested too deeply: a configuration has at most {DEEPEST} within each other."


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8: {error.reason} at byte {error.start}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}.") from None
    except RecursionError:
        raise ConfigError(f"{path}: {TOO_DEEP}") from None
    if _depth(content) > DEEPEST:
        raise ConfigError(f"{path}: {TOO_DEEP}")
    return content


def _depth(content: dict[str, Any]) -> int:
    """How many tables and lists are within each other; without recursion, for that is what runs out."""
    depth = 0
    layer: list[dict[str, Any] | list[Any]] = [content]
    while layer:
        depth += 1
        inside = [value for one in layer for value in (one.values() if isinstance(one, dict) else one)]
        layer = [value for value in inside if isinstance(value, dict | list)]
    return depth
