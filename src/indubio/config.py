"""Settings as plain data and back, for configuration files and model files.

    AnchoredEnsemble(members=5)  <->  {"kind": "anchored_ensemble", "members": 5, "prior_scale": 1e-10}

The dataclasses are the schema: they check themselves when they are made, and nothing is repaired. What is left out has
its default; what is unknown is refused, with the nearest name there is. `kind` is a name in one of the families' lists;
a text alone is that kind with its defaults.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints, overload

from indubio.calibration import CALIBRATIONS
from indubio.decision import ANOMALY_THRESHOLD, REFERRALS
from indubio.detector import Detector
from indubio.errors import ConfigError, quoted
from indubio.inputs import Long, MinMax, Missing, Roles, Unseen, Wide, Windowing
from indubio.inputs.reading import Reading
from indubio.networks import ARCHITECTURES, LIKELIHOODS, OwnNetwork
from indubio.posteriors import POSTERIORS, EarlyStopping, RangeTest, Training
from indubio.probability import CONVERSIONS
from indubio.settings import AtLeastTwo, NotNegative, NotNegativeInt, Settings, Share

SettingsT = TypeVar("SettingsT", bound=Settings)
Choices = Mapping[str, type[Settings]]

KIND = "kind"
NO_KIND = ""

FAMILIES: dict[str, Choices] = {
    "posterior": POSTERIORS,
    "architecture": ARCHITECTURES,
    "likelihood": LIKELIHOODS,
    "conversion": CONVERSIONS,
    "calibration": CALIBRATIONS,
    "scaling": {"min_max": MinMax},
    "referral": REFERRALS,
    "layout": {"wide": Wide, "long": Long},
}
# Where these stand says what they are.
WITHOUT_KIND: tuple[type[Settings], ...] = (Training, RangeTest, EarlyStopping, Reading, Roles, Windowing)

_KINDS: dict[type[Settings], str] = {
    **{settings: kind for family in FAMILIES.values() for kind, settings in family.items()},
    **dict.fromkeys(WITHOUT_KIND, NO_KIND),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Scalars(Settings):
    """The detector's parameters that are no settings of a stage."""

    missing: Missing = "error"
    unseen: Unseen = "refer"
    anomaly_threshold: Share = ANOMALY_THRESHOLD
    range_margin: NotNegative | None = None
    smallest_group: AtLeastTwo | None = None
    device: str = "cpu"
    seed: NotNegativeInt = 0


_PARTS: dict[str, str | type[Settings]] = {
    "posterior": "posterior",
    "architecture": "architecture",
    "likelihood": "likelihood",
    "training": Training,
    "conversion": "conversion",
    "calibration": "calibration",
    "scaling": "scaling",
    "referral": "referral",
}
_SCALARS = [field.name for field in dataclasses.fields(_Scalars)]
PARAMETERS = (*_PARTS, *_SCALARS)  # of the detector; a test compares them with the constructor


def to_plain(settings: Settings) -> dict[str, Any]:
    """The settings as numbers, texts, lists and mappings."""
    if isinstance(settings, OwnNetwork):
        raise ConfigError(
            "OwnNetwork is made of Python functions, which are not data and cannot be stored. Leave it out of the "
            "configuration; a model that was saved with one is loaded by `load(path, architecture=OwnNetwork(...))`."
        )
    if type(settings) not in _KINDS:
        raise ConfigError(
            f"{type(settings).__name__} is in none of the lists of settings, so it has no name to be stored by."
        )
    kind = _KINDS[type(settings)]
    values = {field.name: _plain(getattr(settings, field.name)) for field in dataclasses.fields(settings)}
    return values if kind == NO_KIND else {KIND: kind} | values


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return to_plain(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


@overload
def from_plain(expected: str, plain: object, place: str | None = None) -> Settings: ...
@overload
def from_plain(expected: type[SettingsT], plain: object, place: str | None = None) -> SettingsT: ...
def from_plain(expected: str | type[SettingsT], plain: object, place: str | None = None) -> Settings:
    """Settings from plain data, checked strictly.

    Args:
        expected: a family, such as "posterior", or a class of settings, such as `Training` or `Conversion`.
        plain: what `to_plain` gave, or a user wrote.
        place: where it stands, for messages; None takes the family's name.
    """
    if place is None:
        place = expected if isinstance(expected, str) else ""
    return _made(_choices(expected), plain, place)


def _choices(expected: str | type[Settings]) -> Choices:
    if not isinstance(expected, str):
        return {kind: settings for settings, kind in _KINDS.items() if issubclass(settings, expected)}
    if expected not in FAMILIES:
        raise ConfigError(f"there is no family of settings {expected!r}. {_hint(expected, FAMILIES)}")
    return FAMILIES[expected]


def _made(choices: Choices, plain: object, place: str) -> Settings:
    plain = {KIND: plain} if isinstance(plain, str) and NO_KIND not in choices else plain
    if not isinstance(plain, Mapping):
        raise ConfigError(f"`{place or 'settings'}` must be a table of settings, got {plain!r}.")
    chosen = _chosen(choices, plain, place)
    given = {name: value for name, value in plain.items() if name != KIND or NO_KIND in choices}
    fields = {field.name: field for field in dataclasses.fields(chosen)}
    for name in given:
        refuse_unknown(name, fields, place)
    for name, field in fields.items():
        if name not in given and field.default is field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"`{_inside(place, name)}` is missing: {chosen.__name__} has no default for it.")
    hints = get_type_hints(chosen, include_extras=True)
    values = {name: _value(hints[name], value, _inside(place, name)) for name, value in given.items()}
    try:
        return chosen(**values)
    except ConfigError as error:
        raise ConfigError(_at(place, str(error))) from None


def _chosen(choices: Choices, plain: Mapping[str, object], place: str) -> type[Settings]:
    kind = plain.get(KIND)
    if NO_KIND in choices or (kind is None and len(choices) == 1):
        (only,) = choices.values()
        return only
    if kind is None:
        raise ConfigError(f"`{_inside(place, KIND)}` is missing: one of {quoted(choices)}.")
    if not isinstance(kind, str) or kind not in choices:
        raise ConfigError(f"`{_inside(place, KIND)}` must not be {kind!r}. {_hint(kind, choices)}")
    if choices[kind] is OwnNetwork:
        raise ConfigError(
            f"`{place}` is the user's own network, which is Python and not data: pass `architecture=OwnNetwork(...)`."
        )
    return choices[kind]


def _value(hint: Any, plain: object, place: str) -> object:
    """What the annotation takes for this: settings for a table, a tuple for a list, and all else as it is."""
    arms = _arms(hint)
    if isinstance(plain, Mapping):
        inner = [arm for arm in arms if isinstance(arm, type) and issubclass(arm, Settings)]
        if inner:
            return _made({kind: settings for arm in inner for kind, settings in _choices(arm).items()}, plain, place)
        for arm in arms:
            if get_origin(arm) is dict:
                item = get_args(arm)[1]
                return {name: _value(item, value, _inside(place, str(name))) for name, value in plain.items()}
    if isinstance(plain, list) and any(get_origin(arm) is tuple for arm in arms):
        return tuple(plain)
    return plain


def _arms(hint: Any) -> list[Any]:
    """The members of a union, without what annotations add to them."""
    if get_origin(hint) is Annotated:
        return _arms(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [arm for member in get_args(hint) for arm in _arms(member)]
    return [hint]


def detector_to_plain(detector: Detector) -> dict[str, Any]:
    """The parameters of a detector, without those that are None and so have their default."""
    given = {name: value for name, value in detector.get_params(deep=False).items() if value is not None}
    for name in given:
        refuse_unknown(name, PARAMETERS, "")
    return {name: _plain(value) for name, value in given.items()}


def detector_from_plain(plain: object) -> Detector:
    """An unfitted detector from what `detector_to_plain` gave, or a user wrote."""
    if not isinstance(plain, Mapping):
        raise ConfigError(f"the settings of a detector must be a table, got {plain!r}.")
    for name in plain:
        refuse_unknown(name, PARAMETERS, "")
    parts: dict[str, Any] = {
        name: from_plain(cast(Any, expected), plain[name], name)
        for name, expected in _PARTS.items()
        if plain.get(name) is not None
    }
    scalars = _Scalars(**{name: plain[name] for name in _SCALARS if name in plain})
    return Detector(**parts, **dataclasses.asdict(scalars))


def refuse_unknown(name: object, known: Iterable[str], place: str) -> None:
    """Refuse a name that is not known, and say the nearest one that is."""
    if name not in list(known):
        raise ConfigError(f"`{_inside(place, str(name))}` is no setting. {_hint(name, known)}")


def _hint(name: object, known: Iterable[str]) -> str:
    """The nearest name, or all there are."""
    names = list(known)
    near = get_close_matches(str(name), names, n=1)
    return f'Did you mean "{near[0]}"?' if near else f"There are {quoted(names)}."


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _at(place: str, message: str) -> str:
    """The message of a settings class, with the place in front of the name it begins with."""
    if not place:
        return message
    return f"`{place}.{message[1:]}" if message.startswith("`") else f"{place}: {message}"
