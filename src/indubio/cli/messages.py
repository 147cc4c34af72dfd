"""Messages on the command line: a setting that a message names in Python goes by its flag there.

One table says which setting is which flag. What has no flag is named as it is in the configuration file, or cannot go
wrong on the command line; a test walks all messages and finds each name in one of the three lists.
"""

from functools import cache
from shlex import quote
from typing import Any

from indubio.messages import Message

FLAGS = {
    "anomaly": "--anomaly",
    "anomaly_score": "--score",
    "anomaly_values": "--anomaly",
    "buffer": "--buffer",
    "calibration": "--calibration",
    "categorical": "--categorical",
    "cluster": "--cluster",
    "columns": "--columns",
    "conversion": "--conversion",
    "costs": "--costs",
    "decimal": "--decimal",
    "draws": "--draws",
    "encoding": "--encoding",
    "epochs": "--epochs",
    "false_alarms": "--false-alarms",
    "fdr": "--fdr",
    "gaps": "--gaps",
    "group": "--group",
    "groups": "--group",
    "ids": "--id",
    "ignore": "--ignore",
    "label": "--label",
    "language": "--language",
    "length": "--window",
    "likelihood": "--likelihood",
    "longest_gap": "--longest-gap",
    "missing": "--missing",
    "most": "--suspects",
    "novelty_limit": "--novelty-limit",
    "overwrite": "--overwrite",
    "posterior": "--posterior",
    "processes": "--workers",
    "quality": "--quality",
    "range_margin": "--range-margin",
    "rate": "--rate",
    "scaling": "--scaling",
    "seed": "--seed",
    "sensors": "--columns",
    "separator": "--separator",
    "sheet": "--sheet",
    "skip_lines": "--skip-lines",
    "smallest_group": "--smallest-group",
    "spectra": "--spectra",
    "step": "--step",
    "tag": "--tag",
    "thousands": "--thousands",
    "time": "--time",
    "time_format": "--time-format",
    "tls_ca": "--tls-ca",
    "tls_cert": "--tls-cert",
    "tls_key": "--tls-key",
    "top": "--top",
    "trimming": "--trim",
    "units_lines": "--units-lines",
    "value": "--value",
    "workers": "--workers",
}
QUOTES = "'\""
# What Python says in other words.
PHRASES = {
    "colour='grey'": "--colour grey",
    "ordered=False": "--sort",
    "overwrite=True": "--overwrite",
    "spectra=False": "--no-spectra",
    "suspects(detector, rows)": "--suspects 20",
    "trimming=Trimming()": "--trim auto",
}


def offered(command: str) -> frozenset[str]:
    """The flags that a command has; none for what is no command."""
    from typer.main import get_command

    from indubio.cli.app import app

    known = getattr(get_command(app), "commands", {}).get(command)
    return frozenset() if known is None else frozenset(flag for option in known.params for flag in option.opts)


def by_flags(text: str, flags: frozenset[str] = frozenset()) -> str:
    """A message with flags for settings: --gaps hold for `gaps="hold"`, --rate for `rate`. Others stay as they are.

    A command that takes a model reads files as the model does, and lacks the flags that say how: then it is said what
    to do instead.

    Args:
        text: a message, or any other text.
        flags: of the command that was called.

    Examples:
        >>> by_flags(Message('column "{column}": pass `missing="median"`, or leave it out of `ids`.', column="`rate`"))
        'column "`rate`": pass --missing median, or leave it out of --id.'
        >>> by_flags("this text has no settings, and `rate` is a name in it")
        'this text has no settings, and `rate` is a name in it'
    """
    named: dict[str, None] = {}
    told = _told(text, named)
    lacking = [flag for flag in named if flag not in flags] if "--model" in flags else []
    if not lacking:
        return told
    return (
        f"{told} ({', '.join(lacking)}: of `indubio fit`, and the model remembers it. Mend the file, or fit again with "
        "it.)"
    )


def _told(text: str, named: dict[str, None]) -> str:
    """The text with flags; those that it names are put into `named`."""
    if not isinstance(text, Message):
        return text
    fields = {name: _told(value, named) if isinstance(value, str) else value for name, value in text.fields.items()}
    parts = text.template.split("`")  # every other is a setting
    said = [part.format(**fields) if fields else part for part in parts]
    said[1::2] = [
        _flag(shown, fields.get(part.partition("=")[2].strip("{}")), named)
        for part, shown in zip(parts[1::2], said[1::2], strict=True)
    ]
    return "".join(said)


def _flag(setting: str, value: Any, named: dict[str, None]) -> str:
    """The flag of a setting, as `name` or `name=value`; the same in backticks where it has none.

    Args:
        setting: as Python has it.
        value: what was filled in, where that is all of the value; of a list, the flag is given for each.
        named: gets the flag.
    """
    name, _, shown = setting.partition("=")
    name = name.rpartition(".")[2] if name.startswith("data.") else name.removesuffix(".kind")
    flag, said = FLAGS.get(name, ""), PHRASES.get(setting, "")
    if flag and not said:
        if not shown:
            said = flag
        elif isinstance(value, list):
            said = " ".join(f"{flag} {quote(str(item))}" for item in value)
        elif shown[0] in QUOTES or shown.isdecimal() or shown in _kinds():
            said = f"{flag} {quote(_kinds().get(shown, shown.strip(QUOTES)))}"
    named |= {said.partition(" ")[0]: None} if said else {}
    return said or f"`{setting}`"


@cache
def _kinds() -> dict[str, str]:
    """The names in a configuration of settings that are made without arguments: "hold_out" for `HoldOut()`."""
    from indubio.configuration import FAMILIES

    return {f"{made.__name__}()": kind for family in FAMILIES.values() for kind, made in family.items()}
