"""Messages on the command line: a setting that a message names in Python goes by its flag there."""

from functools import cache
from typing import Any

from indubio.cli.flags import SET_FLAG, flag_of, flags_of, given_by
from indubio.message import Message

QUOTES = "'\""
WORDS = {"True": True, "False": False}
PHRASES = {  # what Python says in other words
    "colour='grey'": "--set images.colour=grey --set images.recolour=true",
    "suspects(detector, rows)": "--suspects 20",
    "trimming=Trimming()": "--set trimming=true",
    "posterior=RandomFeatures(keep_sums=True)": "--set posterior.kind=random_features --set posterior.keep_sums=true",
}


def by_flags(text: str, command: str = "fit") -> str:
    """A message with flags for settings: --missing median for `missing="median"`. Other texts stay as they are.

    A command that takes a model reads files as the model does, and lacks the flags that say how: then it is said what
    to do instead.

    Args:
        text: a message, or any other text.
        command: that was called.

    Examples:
        >>> by_flags(Message('column "{column}": pass `missing="median"`, or leave it out of `ids`.', column="`rate`"))
        'column "`rate`": pass --missing median, or leave it out of --id.'
        >>> by_flags("this text has no settings, and `rate` is a name in it")
        'this text has no settings, and `rate` is a name in it'
    """
    named: dict[str, str] = {}
    told = _told(text, command, named)
    own = set(flags_of(command).values())
    lacking = [said for said, flag in named.items() if flag not in own] if "--model" in own else []
    if not lacking:
        return told
    return (
        f"{told} ({', '.join(lacking)}: of `indubio fit`, and the model remembers it. Mend the file, or fit again with "
        "it.)"
    )


def _told(text: str, command: str, named: dict[str, str]) -> str:
    """The text with flags; those that it names are put into `named`, as they are told again."""
    if not isinstance(text, Message):
        return text
    fields = {
        name: _told(value, command, named) if isinstance(value, str) else value for name, value in text.fields.items()
    }
    parts = text.template.split("`")  # every other is a setting
    said = [part.format(**fields) if fields else part for part in parts]
    for place in range(1, len(parts), 2):
        name, _, shown = said[place].partition("=")
        flag = flag_of(name.removesuffix(".kind"), command)
        value = fields.get(parts[place].partition("=")[2].strip("{}"))
        way = PHRASES.get(said[place]) or (flag and _given(flag, name, shown, value, command))
        named |= {way if shown in WORDS else flag: flag} if flag and way else {}
        said[place] = way or f"`{said[place]}`"
    return "".join(said)


def _given(flag: str, name: str, shown: str, value: Any, command: str) -> str | None:
    """How a setting is given on the command line; None for what is more than a text, a number or a kind.

    Args:
        flag: of the setting.
        name: of the setting.
        shown: its value, as Python has it; "" for none.
        value: what was filled in, where that is all of the value; of a list, the flag is given for each.
        command: that was called.
    """
    if not shown or (shown == "True" and not flag.startswith(SET_FLAG)):
        return flag
    if isinstance(value, list):
        return " ".join(str(given_by(name, item, command)) for item in value)
    if shown in WORDS and flag.startswith(SET_FLAG):
        return given_by(name, WORDS[shown], command)
    plain = shown[0] in QUOTES or shown.isdecimal() or shown in _kinds()
    return given_by(name, _kinds().get(shown, shown.strip(QUOTES)), command) if plain else None


@cache
def _kinds() -> dict[str, str]:
    """The names in a configuration of settings that are made without arguments: "holdout" for `HoldOut()`."""
    from indubio.configuration import FAMILIES

    return {f"{made.__name__}()": kind for family in FAMILIES.values() for kind, made in family.items()}
