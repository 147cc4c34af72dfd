"""Settings as plain data and back, for configuration files and model files.

    AnchoredEnsemble(members=5)  <->  {"kind": "anchored_ensemble", "members": 5, "prior_scale": 1e-10}

The dataclasses are the schema: they check themselves when they are made, and nothing is repaired. What is left out has
its default; what is unknown is refused, with the nearest name there is. `kind` is a name in one of the families' lists;
a text alone is that kind with its defaults.
"""

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from indubio.calibration import CALIBRATIONS, Calibration
from indubio.decision import REFERRALS, Referral
from indubio.detector import Detector
from indubio.errors import ConfigError, quoted
from indubio.fitting.trimming import Trimming
from indubio.inputs import SCALINGS, ImageFiles, Roles, Scaling, Spectra, Windowing
from indubio.inputs.reading import Reading
from indubio.inputs.recordings import LAYOUTS
from indubio.io.file_format import FileFormat
from indubio.messages import Message
from indubio.networks import ARCHITECTURES, LIKELIHOODS, Architecture, Likelihood, OwnNetwork
from indubio.pipeline.scalars import Scalars
from indubio.posteriors import POSTERIORS, Denoising, EarlyStopping, Posterior, RangeTest, Training
from indubio.probability import CONVERSIONS, Conversion
from indubio.scores import ScoreName
from indubio.settings import KIND, NO_KIND, ByKind, NotNegativeInt, Settings, broken_rules, nearest

SettingsT = TypeVar("SettingsT", bound=Settings)
OWN_RULE = "value_error"  # what pydantic calls a ConfigError of the settings themselves

NETWORKS = {
    kind: network for kind, network in ARCHITECTURES.items() if network is not OwnNetwork
}  # those that are data

FAMILIES: dict[str, Mapping[str, type[Settings]]] = {
    "posterior": POSTERIORS,
    "architecture": NETWORKS,
    "likelihood": LIKELIHOODS,
    "conversion": CONVERSIONS,
    "calibration": CALIBRATIONS,
    "scaling": SCALINGS,
    "referral": REFERRALS,
    "layout": LAYOUTS,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameters(Scalars):
    """The parameters of the detector; None leaves the choice to it."""

    posterior: Annotated[Posterior, ByKind(POSTERIORS)] | None = None
    architecture: Annotated[Architecture, ByKind(NETWORKS)] | None = None
    likelihood: Annotated[Likelihood, ByKind(LIKELIHOODS)] | None = None
    training: Training | None = None
    anomaly_score: ScoreName | None = None
    conversion: Annotated[Conversion, ByKind(CONVERSIONS)] | None = None
    calibration: Annotated[Calibration, ByKind(CALIBRATIONS)] | None = None
    scaling: Annotated[Scaling, ByKind(SCALINGS)] | None = None
    spectra: Spectra | Literal[False] | None = None
    referral: Annotated[Referral, ByKind(REFERRALS)] | None = None
    trimming: Trimming | None = None
    device: str = "cpu"
    seed: NotNegativeInt = 0


PARAMETERS = tuple(field.name for field in dataclasses.fields(Parameters))  # a test compares them with the constructor
# Where these stand says what they are.
WITHOUT_KIND: tuple[type[Settings], ...] = (
    Training,
    RangeTest,
    EarlyStopping,
    Denoising,
    Trimming,
    Reading,
    Roles,
    FileFormat,
    Windowing,
    ImageFiles,
    Spectra,
    Parameters,
)

_KINDS = {settings: kind for family in FAMILIES.values() for kind, settings in family.items()}


def to_plain(settings: Settings) -> dict[str, Any]:
    """The settings as numbers, texts, lists and mappings."""
    if isinstance(settings, OwnNetwork):
        raise ConfigError(
            "OwnNetwork is made of Python functions, which are not data and cannot be stored. Leave it out of the "
            "configuration; a model that was saved with one is loaded by `load(path, architecture=OwnNetwork(...))`."
        )
    if type(settings) not in (*_KINDS, *WITHOUT_KIND):
        raise ConfigError(
            f"{type(settings).__name__} is in none of the lists of settings, so it has no name to be stored by."
        )
    kind = {KIND: _KINDS[type(settings)]} if type(settings) in _KINDS else {}
    return kind | {field.name: _plain(getattr(settings, field.name)) for field in dataclasses.fields(settings)}


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return to_plain(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def from_plain(expected: type[SettingsT], plain: object, place: str = "") -> SettingsT:
    """Settings from plain data, checked strictly.

    Args:
        expected: a class of settings, such as `Training`, or the base of a family, such as `Conversion`.
        plain: what `to_plain` gave, or a user wrote.
        place: where it stands, for messages.
    """
    family: Any = expected
    plain = plain if family in WITHOUT_KIND else _with_kind(plain)
    try:
        return cast(SettingsT, _reader(family).validate_json(json.dumps(plain, default=str), strict=True))
    except ValidationError as error:
        raise ConfigError(_explained(error.errors(), plain, place)) from None


@cache
def _reader(expected: Any) -> TypeAdapter[Any]:
    choices = {kind: settings for settings, kind in _KINDS.items() if issubclass(settings, expected)}
    return TypeAdapter(Annotated[expected, ByKind(choices)] if choices else expected)


def _with_kind(plain: object) -> object:
    return {KIND: plain} if isinstance(plain, str) else plain


def detector_to_plain(detector: Detector) -> dict[str, Any]:
    """The parameters of a detector, without those that are None and so have their default."""
    given = {name: value for name, value in detector.get_params(deep=False).items() if value is not None}
    return {name: _plain(value) for name, value in given.items()}


def detector_from_plain(plain: object) -> Detector:
    """An unfitted detector from what `detector_to_plain` gave, or a user wrote."""
    return Detector(**parameters_from_plain(plain))


def parameters_from_plain(plain: object) -> dict[str, Any]:
    """Its parameters by name."""
    if isinstance(plain, Mapping):
        plain = {name: _with_kind(value) if name in FAMILIES else value for name, value in plain.items()}
    given = from_plain(Parameters, plain)
    return {name: getattr(given, name) for name in PARAMETERS}


def _explained(details: list[ErrorDetails], plain: object, place: str) -> str:
    """What is wrong: of all that was tried, what is furthest inside; of several there, a rule of the settings' own."""
    tried = [(_path(detail, plain), detail) for detail in details]
    path, detail = max(tried, key=lambda one: (len(one[0]), one[1]["type"] == OWN_RULE))
    name, context = ".".join([place, *path] if place else path), detail.get("ctx", {})
    if detail["type"] == OWN_RULE:
        return _at(name, str(context["error"]))
    if detail["type"] == NO_KIND:
        return _at(name, _explained_kind(detail["input"].get(KIND), context["known"].split()))
    rules, got = broken_rules(one for at, one in tried if at == path), repr(detail["input"])
    return Message("`{name}` {rules}, got {got}.", name=name or "settings", rules=rules, got=got)


def _explained_kind(kind: object, known: list[str]) -> str:
    if kind is None:
        return Message("`{kind}` is missing: one of {names}.", kind=KIND, names=quoted(known))
    if isinstance(kind, str) and ARCHITECTURES.get(kind) is OwnNetwork:
        return Message("the user's own network is Python and not data: pass `architecture=OwnNetwork(...)`.")
    got = repr(kind)
    return Message("`{name}` must not be {got}. {nearest}", name=KIND, got=got, nearest=nearest(kind, known))


def _path(detail: ErrorDetails, plain: Any) -> list[str]:
    """The names on the way to the error: of the steps that pydantic took, those that the data has."""
    path = []
    for step in detail["loc"]:
        if step in plain if isinstance(plain, Mapping) else isinstance(step, int):
            plain = plain[step]
            path.append(str(step))
    return path


def _at(place: str, message: str) -> str:
    """The message of a settings class, with the place in front of the name it begins with."""
    if not place:
        return message
    if isinstance(message, Message) and message.template.startswith("`"):
        return Message(f"`{{inside}}.{message.template[1:]}", inside=place, **message.fields)
    return Message("{place}: {message}", place=place, message=message)
