"""Whole numbers of addresses and forms, of a size that every database takes."""

from indubio.errors import ConfigError
from indubio.texts import english

DIGITS = 9  # so that it fits 32 bits


def is_whole_number(text: str) -> bool:
    """Whether a text is a whole number of at most nine digits, in ASCII."""
    return len(text) <= DIGITS and text.isascii() and text.isdecimal()


def whole_number(text: str, name: str) -> int:
    """A text as a whole number; `name` is what a refusal calls it."""
    if not is_whole_number(text):
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise ConfigError(
            english(
                "`{name}` must be a whole number of at most {digits} digits, got {got!r}.",
                name=name,
                digits=DIGITS,
                got=shown,
            )
        )
    return int(text)
