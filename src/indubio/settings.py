"""Settings: frozen, keyword-only dataclasses that check themselves when they are made.

The annotations are the rules: `members: AtLeastOne = 10` is the type, the bound and the documentation, and the
same classes are the schema of a configuration file. Checking is strict: "10", 10.0 and True are not the integer 10.
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Self, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from indubio.errors import ConfigError

AtLeastOne = Annotated[int, Field(ge=1)]
AtLeastTwo = Annotated[int, Field(ge=2)]
NotNegativeInt = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of all settings: every field is checked against its annotation."""

    def __post_init__(self) -> None:
        for name, rule in _rules(type(self)).items():
            value = getattr(self, name)
            try:
                rule.validate_python(value, strict=True)
            except ValidationError as error:
                reasons = dict.fromkeys(
                    detail["msg"].replace("Input should be", "must be") for detail in error.errors()
                )
                raise ConfigError(f"`{name}` {', or '.join(reasons)}, got {value!r}.") from None

    def replaced(self, **changes: Any) -> Self:
        """A copy with some fields changed; unknown names are refused."""
        unknown = changes.keys() - {field.name for field in dataclasses.fields(self)}
        if unknown:
            raise ConfigError(f"{type(self).__name__} has no setting {', '.join(sorted(map(repr, unknown)))}.")
        return dataclasses.replace(self, **changes)


_known_rules: dict[type[Any], Mapping[str, TypeAdapter[Any]]] = {}


def _rules(settings: type[Settings]) -> Mapping[str, TypeAdapter[Any]]:
    if settings not in _known_rules:
        hints = get_type_hints(settings, include_extras=True)
        _known_rules[settings] = {field.name: _adapter(hints[field.name]) for field in dataclasses.fields(settings)}
    return _known_rules[settings]


def _adapter(hint: Any) -> TypeAdapter[Any]:
    if dataclasses.is_dataclass(hint):  # carries its own configuration, and pydantic refuses a second one
        return TypeAdapter(hint)
    return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
