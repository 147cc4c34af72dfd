"""Texts in the language of whoever reads them: English as it stands in the code, others from catalogues here.

The language belongs to the context (`in_language`), so requests that are answered at the same time do not mix theirs.
Catalogues are gathered and compiled by `make texts`, for which a text must stand in the code as a literal.

    _         a text that is shown at once: translated, with its values filled in
    marked    a text without values, which is translated where it is shown, by `gettext`
    english   a text that is raised or kept (an error, a note, a job's message): English, and a `Message`, which
              remembers its template and values
    told      such a text, translated where it is shown

So the audit trail, the JSON API and the command line are English whoever reads them. Databases and model files keep
template and values beside the English, so what was kept years ago is shown in a language that was added since.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from gettext import NullTranslations, translation
from pathlib import Path
from string import Formatter
from typing import Any, Literal

from indubio.errors import ConfigError
from indubio.message import Message

Language = Literal["en", "de"]
LANGUAGES: dict[Language, str] = {"en": "English", "de": "Deutsch"}
DOMAIN = "indubio"
FOLDER = Path(__file__).parent
_current: ContextVar[Language] = ContextVar("language", default="en")
KEPT = "kept"  # the context of the texts of `english`, which are apart from others in a catalogue
_SWAPPED = str.maketrans(".,", ",.")
__all__ = [
    "DOMAIN",
    "FOLDER",
    "KEPT",
    "LANGUAGES",
    "Language",
    "english",
    "gettext",
    "in_language",
    "known_language",
    "language",
    "marked",
    "ngettext",
    "preferred",
    "told",
    "written",
]


def language() -> Language:
    """The language of the present context."""
    return _current.get()


@contextmanager
def in_language(name: str) -> Iterator[None]:
    """Write in this language until the end of the block.

    Args:
        name: one of `LANGUAGES`.

    Example:
        >>> with in_language("de"):
        ...     written("1,234.5")
        '1.234,5'
    """
    token = _current.set(known_language(name))
    try:
        yield
    finally:
        _current.reset(token)


def known_language(name: str) -> Language:
    """The language of this name; others are refused."""
    for one in LANGUAGES:
        if one == name:
            return one
    raise ConfigError("`language` must be one of {known}, got {name!r}.", known=", ".join(LANGUAGES), name=name)


def preferred(header: str) -> Language:
    """The language that a browser likes best of those there are, from its Accept-Language; English where it likes none.

    Example:
        >>> preferred("fr-FR, de-AT;q=0.8, en;q=0.5")
        'de'
    """
    liked: list[tuple[float, Language]] = []
    for wish in header.split(","):
        tag, _, weight = wish.strip().partition(";q=")
        try:
            quality = float(weight or 1)
        except ValueError:
            continue
        liked += [(quality, one) for one in LANGUAGES if tag.partition("-")[0].lower() == one and quality > 0]
    return max(liked, key=lambda one: one[0])[1] if liked else "en"


def _(text: str, **values: Any) -> str:
    """The text in the present language, with its values filled in."""
    translated = gettext(text)
    return translated.format(**values) if values else translated


def gettext(text: str) -> str:
    """The text in the present language."""
    return _catalogue(language()).gettext(text) if text else ""


def ngettext(one: str, many: str, number: int) -> str:
    """The text for so many, in the present language."""
    return _catalogue(language()).ngettext(one, many, int(number))  # numpy's integers are none to gettext


def marked(text: str) -> str:
    """The text as it is: it is translated where it is shown."""
    return text


def english(template: str, /, **fields: Any) -> Message:
    """A text that is raised or kept: in English, and a message, whose template is in the catalogues. `told` shows it.

    Example:
        >>> english("{done:,} of {all:,} rows of {file!r}", done=1200, all=9, file="a.csv")
        "1,200 of 9 rows of 'a.csv'"
    """
    return Message(template, **fields)


def told(text: str) -> str:
    """A text that was raised or kept, in the present language. One that is no message stays as it is.

    Example:
        >>> with in_language("de"):
        ...     told(english("there is no version {version:d} of a model {name!r}.", version=3, name="press"))
        "es gibt keine Version 3 von Modell 'press'."
    """
    if not isinstance(text, Message):
        return text
    template = _catalogue(language()).pgettext(KEPT, text.template)
    return _Telling().vformat(template, (), text.fields) if text.fields else template


def written(digits: str) -> str:
    """A number that was written as English does, as the present language writes it: 1.234,5 in German."""
    return digits.translate(_SWAPPED) if language() == "de" else digits


class _Telling(Formatter):
    """Fills in values as the present language writes them."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec:
            return written(format(value, format_spec))
        return told(value) if isinstance(value, str) else str(value)


@cache
def _catalogue(name: Language) -> NullTranslations:
    return NullTranslations() if name == "en" else translation(DOMAIN, FOLDER, [name])
