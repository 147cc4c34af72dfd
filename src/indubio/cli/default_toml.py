"""The default configuration as TOML, with what the docstrings say beside every setting."""

import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from indubio.config import FAMILIES, to_plain
from indubio.detector import _DEFAULTS, Detector
from indubio.posteriors import Training
from indubio.settings import Settings

WIDTH = 118
LEFT_OUT = {
    "architecture": "# Left out, the network is `dense` for tables and `conv1d` for windows.",
    "calibration": "# Left out, the calibration is chosen by the number of rows.",
}


def default_toml() -> str:
    """Every setting of the detector with its default, and how files are read."""
    lines = ["# Settings of `indubio fit --config`. What is left out has the value that stands here.", ""]
    scalars = {name: value for name, value in Detector().get_params(deep=False).items() if value is not None}
    notes = _notes(Detector)
    for name, value in scalars.items():
        lines += [*_comment(notes.get(name, "")), f"{name} = {_literal(value)}"]
    for name, settings in (*_DEFAULTS.items(), *_examples()):
        lines += ["", *_section(name, settings)]
    return "\n".join([*lines, "", *_data_section(), ""])


def written_toml(config: Mapping[str, Any]) -> str:
    """A configuration as TOML; what is None is left out."""
    scalars = [
        f"{name} = {_literal(value)}"
        for name, value in config.items()
        if value is not None and not isinstance(value, Mapping)
    ]
    lines = [*scalars]
    for name, table in config.items():
        if isinstance(table, Mapping):
            given = {key: value for key, value in table.items() if value is not None}
            lines += ["", f"[{name}]", *(f"{key} = {_literal(value)}" for key, value in given.items())]
    return "\n".join([*lines, ""])


def _examples() -> Iterator[tuple[str, Settings]]:
    from indubio.calibration import HoldOut
    from indubio.networks import Dense

    yield "architecture", Dense()
    yield "calibration", HoldOut()


def _section(name: str, settings: Settings) -> Iterator[str]:
    kinds = FAMILIES.get(name, {})
    if name in LEFT_OUT:
        yield LEFT_OUT[name]
    if len(kinds) > 1:
        yield from _comment("kind: " + ", ".join(kind for kind in kinds if kind != "own"))
    off = "# " if name in LEFT_OUT else ""
    yield f"{off}[{name}]"
    notes = _notes(type(settings))
    for key, value in to_plain(settings).items():
        yield from _comment(notes.get(key, ""))
        yield f"# {key} is not set" if value is None else f"{off}{key} = {_literal(value)}"
    if isinstance(settings, Training):
        yield '# learning_rate may be a table instead: learning_rate = { use = "fixed" }, found by a range test'
        yield "# early_stopping = { held_out = 0.2, patience = 10 }"


def _data_section() -> list[str]:
    return [
        "# How files are read: the roles of the columns of a table ...",
        "# [data.table]",
        '# columns = ["pressure", "flow"]     # default: all that have no other role',
        '# ids = ["serial"]',
        '# time = "when"',
        '# group = "machine"                  # p-values hold within each of its values',
        '# label = "defect"                   # rows labelled as anomalies are left out of training',
        '# anomaly_values = ["NOK"]',
        '# categorical = ["machine"]          # or a table: { machine = ["A", "B"] }',
        "#",
        "# ... or windows of a recording, wide (a column per sensor) or long (a row per value).",
        '# layout = { kind = "wide", time = "time", group = "cycle" }',
        '# layout = { kind = "long", time = "time", tag = "tag", value = "value", quality = "quality" }',
        '# windowing = { length = 60, step = 30, rate = 1.0, gaps = "hold", longest_gap = 5.0 }     # under [data]',
    ]


def _notes(settings: type[Any]) -> dict[str, str]:
    """What the docstrings of a class and its bases say of each argument."""
    found: dict[str, str] = {}
    for base in reversed(inspect.getmro(settings)):
        doc = inspect.cleandoc(base.__doc__ or "") if base.__doc__ else ""
        entries = doc.partition("Args:")[2].partition("\n\n")[0]
        name = None
        for line in entries.splitlines():
            match = re.match(r"^    (\w+): (.*)$", line)
            if match:
                name = match[1]
                found[name] = match[2]
            elif name and line.strip():
                found[name] += " " + line.strip()
    return found


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="#   ") if text else []


def _literal(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list() | tuple():
            return "[" + ", ".join(_literal(item) for item in value) + "]"
        case dict():
            return (
                "{ " + ", ".join(f"{key} = {_literal(item)}" for key, item in value.items() if item is not None) + " }"
            )
        case _:
            return repr(value)
