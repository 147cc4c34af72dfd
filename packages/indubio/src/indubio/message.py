"""`Message`: a text that remembers what it was made of, so that it can be told in other words where it is shown."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from string import Formatter
from typing import Any, Self

LONGEST_SPEC = 4  # of a template that is read back: a longer one could ask for a text that no memory holds


class Message(str):
    """An English text with its template and the values in it. Wherever only the text counts, it is a plain `str`.

    What stands in backticks in a template is Python: a setting, as `name` or `name=value`. Only a template is looked
    at for that, never the text, whose values may hold anything.

    Args:
        template: with places for values: `{name}`, `{name!r}` or `{number:.3g}`.
        fields: the values; texts (also messages), numbers, None, and lists of them. What is none of these is kept as
            its text.

    Examples:
        >>> message = Message('{where}. Pass `missing="median"`.', where=Message("row {row:,}", row=1200))
        >>> message
        'row 1,200. Pass `missing="median"`.'
        >>> message.fields["where"].fields
        {'row': 1200}
        >>> Message.of(message.plain()) == message
        True
    """

    __slots__ = ("fields", "template")
    template: str
    fields: dict[str, Any]

    def __new__(cls, template: str, /, **fields: Any) -> Self:
        """Fill the values into the template, and keep both."""
        fields = {name: _field(value) for name, value in fields.items()}
        message = super().__new__(cls, template.format(**fields) if fields else template)
        message.template, message.fields = str.__str__(template), fields
        return message

    def __str__(self) -> str:
        return self  # so that the `str` of an error is the message that it was raised with

    def __reduce__(self) -> tuple[Any, ...]:
        return Message.of, (self.plain(),)

    def plain(self) -> dict[str, Any]:
        """Text, template and fields as data for JSON."""
        fields = {name: _plain(value) for name, value in self.fields.items()}
        return {"text": str.__str__(self), "template": self.template, "fields": fields}

    @staticmethod
    def of(plain: object) -> "Message":
        """The message of plain data; a text alone is a message without fields. Anything else is a ValueError."""
        match plain:
            case Message():
                return plain
            case str():
                return Message(plain)
            case {"template": str(template), "fields": dict(fields)} if not fields or _harmless(template, fields):
                try:
                    return Message(template, **{name: _of(value) for name, value in fields.items()})
                except (ValueError, TypeError) as error:
                    raise ValueError(f"{plain} is no message: {error}") from None
            case _:
                raise ValueError(f"{plain} is no message")


def joined(texts: Sequence[str], between: str = "; ") -> str:
    """Several texts as one, of which each can be told in other words."""
    if len(texts) == 1:
        return texts[0]
    fields = {f"text{place}": text for place, text in enumerate(texts)}
    return Message(between.join(f"{{{name}}}" for name in fields), **fields)


def _field(value: Any) -> Any:
    match value:
        case None | bool() | Message():
            return value
        case Integral():
            return int(value)
        case Real():
            return float(value)
        case list():
            return [_field(item) for item in value]
        case _:
            return str(value)


def _plain(value: Any) -> Any:
    return value.plain() if isinstance(value, Message) else value


def _of(value: Any) -> Any:
    return Message.of(value) if isinstance(value, dict) else value


def _harmless(template: str, fields: Mapping[str, Any]) -> bool:
    """Whether a template that comes from a file asks for its fields, and for nothing else."""
    try:
        places = [(name, spec or "") for _, name, spec, _ in Formatter().parse(template) if name is not None]
    except ValueError:
        return False
    return all(name in fields and len(spec) <= LONGEST_SPEC and "{" not in spec for name, spec in places)
