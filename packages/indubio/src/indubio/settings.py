"""Settings: frozen, keyword-only dataclasses that check themselves when they are made.

The annotations are the rules: `members: AtLeastOne = 10` is the type, the bound and the documentation, and the
same classes are the schema of a configuration file. Checking is strict: "10", 10.0 and True are not the integer 10.
"""

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Self, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from indubio.errors import ConfigError, quoted
from indubio.texts import english

AtLeastOne = Annotated[int, Field(ge=1)]
AtLeastTwo = Annotated[int, Field(ge=2)]
NotNegativeInt = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]

KIND = "kind"
NO_KIND = "no_kind"  # an error whose context has the `known` ones
_WORDS = {
    "Input should be": "must be",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "an object": "a table of settings",
    "a valid array": "a list",
}
# What the numbers of a form can break; their texts come from pydantic, in these words.
_BROKEN = (
    english("must be at least {bound:g}"),
    english("must be at most {bound:g}"),
    english("must be greater than {bound:g}"),
    english("must be less than {bound:g}"),
    english("must be a finite number"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of all settings: every field is checked against its annotation."""

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        try:
            self._rules().validate_python(tuple(values.values()), strict=True)
        except ValidationError as error:
            place = error.errors()[0]["loc"][0]
            name, value = list(values.items())[int(place)]
            rules = broken_rules(detail for detail in error.errors() if detail["loc"][0] == place)
            raise ConfigError(
                english("`{name}` {rules}, got {value}.", name=name, rules=rules, value=repr(value))
            ) from None

    @classmethod
    @cache
    def _rules(cls) -> TypeAdapter[Any]:
        hints = get_type_hints(cls, include_extras=True)
        values: Any = tuple.__class_getitem__(tuple(hints[field.name] for field in dataclasses.fields(cls)))
        return TypeAdapter(values, config=ConfigDict(arbitrary_types_allowed=True))

    def replaced(self, **changes: Any) -> Self:
        """A copy with some fields changed; unknown names are refused."""
        unknown = changes.keys() - {field.name for field in dataclasses.fields(self)}
        if unknown:
            raise ConfigError(f"{type(self).__name__} has no setting {', '.join(sorted(map(repr, unknown)))}.")
        return dataclasses.replace(self, **changes)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """In Python an instance; in JSON a table of its fields."""
        return core_schema.json_or_python_schema(_table(cls, handler), core_schema.is_instance_schema(cls))


@dataclasses.dataclass(frozen=True, eq=False)
class ByKind:
    """Marks an annotation whose settings are told apart in JSON by `kind`; the only one there is needs none.

    Args:
        choices: the settings by kind.
    """

    choices: Mapping[str, type[Settings]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """In Python what the annotation says; in JSON a table with its kind."""
        arms = {kind: _table(settings, handler, kind) for kind, settings in self.choices.items()}
        data = core_schema.tagged_union_schema(
            arms,
            KIND,
            custom_error_type=NO_KIND,
            custom_error_message=NO_KIND,
            custom_error_context={"known": " ".join(arms)},
        )
        return core_schema.json_or_python_schema(data if len(arms) > 1 else arms.popitem()[1], handler(source))


def _table(settings: type[Settings], handler: GetCoreSchemaHandler, kind: str | None = None) -> CoreSchema:
    """The settings as a table of their fields, and of their kind where they have one."""
    hints = get_type_hints(settings, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(settings)}

    def made(given: dict[str, Any]) -> Settings:
        if kind is not None and given.pop(KIND, kind) != kind:
            raise ConfigError("`{name}` must be {kind!r}.", name=KIND, kind=kind)
        for name in given:
            refuse_unknown(name, fields)
        for name, field in fields.items():
            if name not in given and field.default is field.default_factory is dataclasses.MISSING:
                raise ConfigError(
                    "`{name}` is missing: {settings} has no default for it.", name=name, settings=settings.__name__
                )
        return settings(**given)

    items = {name: core_schema.typed_dict_field(handler.generate_schema(hints[name])) for name in fields}
    table = core_schema.typed_dict_schema(items, total=False, extra_behavior="allow")
    return core_schema.no_info_after_validator_function(made, table)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting in a table of settings, as a user names it.

    Args:
        name: with the tables it stands in, as "referral.share".
        rule: its annotation.
        note: what the docstring of its class says of it.
    """

    name: str
    rule: Any
    note: str


def settings_within(settings: type[Settings]) -> dict[str, Setting]:
    """All settings that a table of these may have, by their dotted names; those of every kind of a family."""
    there: dict[str, Setting] = {}
    for setting in _settings_within(settings, ""):
        there.setdefault(setting.name, setting)
    return there


def _settings_within(settings: type[Settings], place: str) -> Iterator[Setting]:
    hints, notes = get_type_hints(settings, include_extras=True), argument_notes(settings)
    for field in dataclasses.fields(settings):
        name = f"{place}{field.name}"
        yield Setting(name=name, rule=hints[field.name], note=notes.get(field.name, ""))
        tables = list(_tables(hints[field.name]))
        if kinds := [kind for kind, _ in tables if kind is not None]:
            yield Setting(name=f"{name}.{KIND}", rule=str, note=f"one of {', '.join(kinds)}.")
        for _, inner in tables:
            yield from _settings_within(inner, f"{name}.")


def _tables(rule: Any) -> Iterator[tuple[str | None, type[Settings]]]:
    """The classes of settings that an annotation names, each with its kind where it has one."""
    if isinstance(rule, type) and issubclass(rule, Settings):
        yield None, rule
        return
    families = [mark.choices.items() for mark in getattr(rule, "__metadata__", ()) if isinstance(mark, ByKind)]
    if families:
        yield from families[0]
        return
    for part in get_args(rule)[:1] if get_origin(rule) is Annotated else get_args(rule):
        yield from _tables(part)


def argument_notes(described: type[Any]) -> dict[str, str]:
    """What the docstrings of a class and its bases say of each argument."""
    notes: dict[str, str] = {}
    for base in reversed(inspect.getmro(described)):
        entries = inspect.cleandoc(base.__doc__ or "").partition("Args:")[2].partition("\n\n")[0]
        name = None
        for line in entries.splitlines():
            if entry := re.match(r"^    (\w+): (.*)$", line):
                name = entry[1]
                notes[name] = entry[2]
            elif name and line.strip():
                notes[name] += " " + line.strip()
    return notes


def refuse_unknown(name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not known, and say the nearest one that is."""
    if name not in list(known):
        raise ConfigError("`{name}` is no setting. {nearest}", name=name, nearest=nearest(name, known))


def nearest(name: object, known: Iterable[str]) -> str:
    """The nearest name, or all there are."""
    names = list(known)
    near = get_close_matches(str(name), names, n=1)
    return f'Did you mean "{near[0]}"?' if near else f"There are {quoted(names)}."


def broken_rules(details: Iterable[ErrorDetails]) -> str:
    """What a value must be, in the words of a message."""
    return ", or ".join(dict.fromkeys(_rule(detail) for detail in details))


def _rule(detail: ErrorDetails) -> str:
    if detail["type"] == "literal_error":
        return f"must be one of {detail['ctx']['expected']}"
    said = detail["msg"]
    for theirs, ours in _WORDS.items():
        said = said.replace(theirs, ours)
    return said
