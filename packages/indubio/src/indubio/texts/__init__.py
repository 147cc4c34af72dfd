"""Texts in the language of whoever reads them: English as it stands in the code, others from catalogues here.

The language belongs to the context (`in_language`), so requests that are answered at the same time do not mix theirs.
Catalogues are gathered and compiled by `make texts`, for which a text must stand in the code as a literal.

    _         a text that is shown at once: translated, with its values filled in
    marked    a text without values, which is translated where it is shown, by `gettext`
    english   a text that is raised or kept (an error, a note, a job's message): English, with its values filled in
    retold    such a text, translated where it is shown: its pattern is found again, and with it the values

So the audit trail, the database, model files, the JSON API and the command line are English whoever reads them, and a
text that was kept years ago is shown in a language that was added since.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property
from gettext import GNUTranslations, NullTranslations, translation
from pathlib import Path
from typing import Any, Literal

from indubio.errors import ConfigError

Language = Literal["en", "de"]
LANGUAGES: dict[Language, str] = {"en": "English", "de": "Deutsch"}
DOMAIN = "indubio"
FOLDER = Path(__file__).parent
_current: ContextVar[Language] = ContextVar("language", default="en")
KEPT = "kept"  # the context of the texts of `english`, which are apart from others in a catalogue
# Characters of a text, and of one within another: a longer one could be made so that it takes long, and stays English.
LONGEST, LONGEST_INNER = 4000, 1000
_SWAPPED = str.maketrans(".,", ",.")
_PLACE = re.compile(r"\{(?P<name>\w+)(?P<kind>![rs]|:[^}]*)?\}")
_NUMBER = r"[-+]?(?:\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|inf|nan)"


class Catalogue(GNUTranslations):
    """A catalogue that also knows a text by its English, with values filled in."""

    @cached_property
    def patterns(self) -> list[tuple[re.Pattern[str], str]]:
        """The texts of `english` as patterns, those with the most words of their own first."""
        mark = f"{KEPT}\4"  # between the context and the text, as gettext writes it
        texts = [one.removeprefix(mark) for one in vars(self)["_catalog"] if isinstance(one, str) and mark in one]
        return [(_pattern(one), one) for one in sorted(texts, key=lambda one: -len(_PLACE.sub("", one)))]


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
    raise ConfigError(f"`language` must be one of {', '.join(LANGUAGES)}, got {name!r}.")


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


def english(text: str, **values: Any) -> str:
    """A text that is raised or kept: in English, with its values filled in. `retold` shows it.

    Args:
        text: with places for values: `{name}` for a name or another value that stays as it is, `{name!r}` the same in
            quotes, `{name:,}` or another format for a number, `{name!s}` for a text that is itself from here, or "".
        values: of the places.

    Example:
        >>> english("{done:,} of {all:,} rows of {file!r}", done=1200, all=9, file="a.csv")
        "1,200 of 9 rows of 'a.csv'"
    """
    return text.format(**values) if values else text


def retold(text: str) -> str:
    """What `english` made, in the present language; several are joined by "; ". Other texts stay as they are.

    Example:
        >>> with in_language("de"):
        ...     retold("missing: flow; there is no version 3 of a model 'press'.")
        "fehlt: flow; es gibt keine Version 3 von Modell 'press'."
    """
    catalogue = _catalogue(language())
    if not isinstance(catalogue, Catalogue) or not text or len(text) > LONGEST:
        return text
    whole = _recognised(text, catalogue)
    return "; ".join(_recognised(one, catalogue) or one for one in text.split("; ")) if whole is None else whole


def written(digits: str) -> str:
    """A number that was written as English does, as the present language writes it: 1.234,5 in German."""
    return digits.translate(_SWAPPED) if language() == "de" else digits


@cache
def _catalogue(name: Language) -> NullTranslations:
    return NullTranslations() if name == "en" else translation(DOMAIN, FOLDER, [name], class_=Catalogue)


def _recognised(text: str, catalogue: Catalogue) -> str | None:
    """The translation of a text that one of the patterns fits; None where none does."""
    for pattern, template in catalogue.patterns:
        if found := pattern.fullmatch(text):
            return _PLACE.sub(lambda place: _value(place, found), catalogue.pgettext(KEPT, template))
    return None


def _pattern(template: str) -> re.Pattern[str]:
    """What fits a text that `english` made of the template."""
    parts, end = [], 0
    for place in _PLACE.finditer(template):
        kind = place["kind"] or ""
        value = _NUMBER if kind.startswith(":") else {"!s": ".*?", "!r": ".+?"}.get(kind, "(?:(?!; ).)+?")
        parts += [re.escape(template[end : place.start()]), f"(?P<{place['name']}>{value})"]
        end = place.end()
    return re.compile("".join([*parts, re.escape(template[end:])]), re.DOTALL)


def _value(place: re.Match[str], found: re.Match[str]) -> str:
    value, kind = found[place["name"]], place["kind"] or ""
    if kind == "!s" and len(value) <= LONGEST_INNER:
        return retold(value)
    return written(value) if kind.startswith(":") else value
