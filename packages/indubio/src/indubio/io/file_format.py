"""How a file spells its table: separator, decimal mark, encoding, sheet. What is not said is found out."""

import codecs
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from indubio.errors import ConfigError
from indubio.settings import NotNegativeInt, Settings

SEPARATORS = (",", ";", "\t", "|")  # that are looked for
SPACES = " \u00a0\u202f"  # all of them are " " as a mark of thousands
MARKS = {" ": rf"[{SPACES}]", "'": "['’]", ".": r"\.", ",": ",", "_": "_"}  # of thousands, as regular expressions


@dataclass(frozen=True, kw_only=True)
class FileFormat(Settings):
    """How files are read; None is found out for each file.

    Args:
        separator: one character between the fields of a line.
        decimal: "." or ",".
        thousands: mark between thousands: "," "." " " "'" or "_"; "" for none.
        encoding: of text, as Python names it, such as "utf-8", "cp1252" or "utf-16".
        skip_lines: lines, or rows of a sheet, before the header.
        units_lines: lines, or rows of a sheet, below the header that hold units and no values. They are recognised, and
            left out only where it is said.
        sheet: of a spreadsheet, by name or number from 1; None takes the only or first one.
        guesses: those of these settings that are a first guess only: where a file shows otherwise it is read as it
            shows. So a model keeps how its training files were spelled.
    """

    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    decimal: Literal[".", ","] | None = None
    thousands: Literal["", ",", ".", " ", "'", "_"] | None = None
    encoding: str | None = None
    skip_lines: NotNegativeInt | None = None
    units_lines: NotNegativeInt | None = None
    sheet: str | int | None = None
    guesses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise ConfigError(
                    '`encoding` {encoding!r} is not known; such as "cp1252" or "utf-16".', encoding=self.encoding
                ) from None
        if self.thousands and self.thousands == self.decimal:
            raise ConfigError("`thousands` and `decimal` must differ, both are {decimal!r}.", decimal=self.decimal)
        if self.separator is not None and (self.separator in "\"\n\r'" or self.separator.isalnum()):
            raise ConfigError("`separator` must be a mark such as ';', got {separator!r}.", separator=self.separator)

    def asked(self, name: str) -> Any:
        """The value of a setting that holds for every file; None where there is none."""
        return None if name in self.guesses else getattr(self, name)

    def guess(self, name: str) -> Any:
        """The value of a setting where the file itself does not tell."""
        return getattr(self, name)

    @property
    def given(self) -> tuple[str, ...]:
        """The settings that have a value."""
        return tuple(
            field.name for field in fields(self) if field.name != "guesses" and getattr(self, field.name) is not None
        )

    def as_guess(self) -> Self:
        """This format as a first guess for other files."""
        return replace(self, guesses=self.given)

    def changed(self, other: "FileFormat | None") -> "FileFormat":
        """This format with what another one asks for in its place."""
        if other is None or not other.given:
            return self
        asked = {name: getattr(other, name) for name in other.given}
        return replace(self, **asked, guesses=tuple(name for name in self.guesses if name not in asked))


UNSAID = FileFormat()
