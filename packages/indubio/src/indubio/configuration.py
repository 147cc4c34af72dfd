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
from indubio.chain import Scalars
from indubio.data import LAYOUTS, ImageFiles, Long, Reading, Roles, Wide, Windowing
from indubio.decision import REFERRALS, Referral
from indubio.detector import Detector
from indubio.errors import ConfigError, quoted
from indubio.fitting import Trimming, default_of, default_posterior
from indubio.io import UNSAID, FileFormat
from indubio.judging import CONVERSIONS, Conversion, ScoreName
from indubio.message import Message, joined
from indubio.networks import ARCHITECTURES, LIKELIHOODS, Architecture, Likelihood, OwnNetwork, Training
from indubio.posteriors import POSTERIORS, Posterior
from indubio.prepare import SCALINGS, Scaling, Spectra
from indubio.settings import KIND, NO_KIND, AtLeastOne, ByKind, NotNegativeInt, Settings, broken_rules, nearest
from indubio.workers import Workers

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


def _given(place: str, settings: Settings) -> list[Message]:
    """The settings that have another value than usual, as a message names them."""
    return [
        Message("`{place}.{name}`", place=place, name=field.name)
        for field in dataclasses.fields(settings)
        if getattr(settings, field.name) != field.default
    ]


PARAMETERS = tuple(field.name for field in dataclasses.fields(Parameters))  # a test compares them with the constructor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Configuration(Parameters):
    """What `indubio fit` is told: the parameters of the detector, how files are read, and where the work is done.

    Args:
        table: roles of the columns, for a table.
        layout: how a recording lies in its columns, for windows.
        windowing: how windows are cut, for windows.
        images: size and colour, for images.
        file: how the files are written, where it is not found out.
        stream: read the files again and again instead of holding them in memory; not set, from 2^27 values on.
        buffer: examples that a stream mixes at a time; not set, 128 MB of them.
        workers: processes that folds and draws are fitted in; the result is the same. Not set, it is fitted here.
    """

    table: Roles | None = None
    layout: Annotated[Wide | Long, ByKind(LAYOUTS)] | None = None
    windowing: Windowing | None = None
    images: ImageFiles | None = None
    file: FileFormat = UNSAID
    stream: bool | None = None
    buffer: AtLeastOne | None = None
    workers: Workers | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layout is not None and self.windowing is None:
            raise ConfigError(
                Message("`layout` is for windows of a recording: give `windowing.length` too, or leave it out.")
            )
        if self.images is not None and (given := self._of_columns()):
            raise ConfigError("{given}: for tables and recordings, and these are images. Leave it out.", given=given)
        if self.layout is not None and self.table is not None:
            raise ConfigError(
                "{given}: for tables, and windows are of numbers. Name such a column by `layout.ids`.",
                given=joined(_given("table", self.table), ", "),
            )

    def _of_columns(self) -> str:
        """The settings that are given of tables and recordings."""
        parts = {name: getattr(self, name) for name in ("table", "layout", "windowing", "file")}
        given = [name for place, part in parts.items() if part is not None for name in _given(place, part)]
        return joined(given, ", ")

    @property
    def plain_reading(self) -> dict[str, Any]:
        """What it says of the files, as plain data."""
        parts = {name: getattr(self, name) for name in ("table", "layout", "windowing", "images", "file")}
        return {name: to_plain(part) for name, part in parts.items() if part not in (None, UNSAID)}

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The features that are named; None where all columns are taken that have no other role."""
        if self.layout is not None:
            return self.layout.sensors
        return None if self.table is None else self.table.columns

    @property
    def detector(self) -> Detector:
        """The detector that it describes, unfitted."""
        return Detector(**{name: getattr(self, name) for name in PARAMETERS})

    @property
    def reading(self) -> Reading:
        """How files are read; a configuration that says nothing reads a table of features."""
        columns = Roles() if self.layout is None and self.images is None else None
        return Reading(
            table=self.table or columns,
            layout=self.layout,
            windowing=self.windowing,
            images=self.images,
            file_format=self.file if self.file.given else None,
        )


# Whose kinds are named; where other settings stand says what they are.
_BASES = (Posterior, Architecture, Likelihood, Conversion, Calibration, Scaling, Referral)


@cache
def _kinds() -> Mapping[type[Settings], str]:
    return {settings: kind for family in FAMILIES.values() for kind, settings in family.items()}


def to_plain(settings: Settings) -> dict[str, Any]:
    """The settings as numbers, texts, lists and mappings."""
    if isinstance(settings, OwnNetwork):
        raise ConfigError(
            "OwnNetwork is made of Python functions, which are not data and cannot be stored. Leave it out of the "
            "configuration; a model that was saved with one is loaded by `load(path, architecture=OwnNetwork(...))`."
        )
    kinds = _kinds()
    if isinstance(settings, _BASES) and type(settings) not in kinds:
        raise ConfigError(
            f"{type(settings).__name__} is in none of the lists of settings, so it has no name to be stored by."
        )
    kind = {KIND: kinds[type(settings)]} if type(settings) in kinds else {}
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
    plain = _with_kind(plain) if _choices(family) else plain
    try:
        return cast(SettingsT, _reader(family).validate_json(json.dumps(plain, default=str), strict=True))
    except ValidationError as error:
        raise ConfigError(_explained(error.errors(), plain, place)) from None


@cache
def _reader(expected: Any) -> TypeAdapter[Any]:
    choices = _choices(expected)
    return TypeAdapter(Annotated[expected, ByKind(choices)] if choices else expected)


def _choices(expected: type[Settings]) -> dict[str, type[Settings]]:
    """The settings by kind that such an annotation may stand for; none where there is no kind."""
    return {kind: settings for settings, kind in _kinds().items() if issubclass(settings, expected)}


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
    """The parameters of a detector by name, from plain data."""
    if isinstance(plain, Mapping):
        plain = {name: _with_kind(value) if name in FAMILIES else value for name, value in plain.items()}
    given = from_plain(Parameters, plain)
    return {name: getattr(given, name) for name in PARAMETERS}


def configured(expected: type[SettingsT], plain: Mapping[str, Any]) -> SettingsT:
    """Settings of a command from what its user said, who may leave out what goes without saying.

    A table without a kind is of the usual one, `true` stands for a table with its defaults, and windows are cut from a
    recording with a column per sensor where no other layout is named.

    Args:
        expected: the settings of the command, such as `Configuration`.
        plain: what was said.
    """
    said = dict(plain)
    for name in {"spectra", "trimming", *FAMILIES} & said.keys():
        if said[name] is True:
            said[name] = {}
    if said.get("windowing") is not None:
        said.setdefault("layout", {})
    for family, kinds in FAMILIES.items():
        if family not in said:
            continue
        table = said[family] = _with_kind(said[family])
        if isinstance(table, Mapping) and KIND not in table and (usual := _usual_kind(family, said)):
            table = said[family] = {KIND: usual, **table}
        if isinstance(table, Mapping) and table.get(KIND) in kinds:
            _refuse_other_kinds(family, kinds, table)
    return from_plain(expected, said)


def _usual_kind(family: str, said: Mapping[str, Any]) -> str | None:
    """The kind that a table has which names none; None where nothing is usual."""
    if family == "layout":
        return "long" if "tag" in said[family] else "wide"
    posterior = said.get("posterior")
    kind = posterior.get(KIND) if isinstance(posterior, Mapping) else posterior
    known = isinstance(kind, str) and kind in POSTERIORS
    window = said.get("windowing")
    length = window.get("length") if isinstance(window, Mapping) else None
    shape = (length, 1) if isinstance(length, int) else None
    chosen = POSTERIORS[str(kind)]() if known else default_posterior(said.get("spectra"), shape)
    usual = chosen if family == "posterior" else default_of(family, chosen)
    return None if usual is None else _kinds().get(type(usual))


def _refuse_other_kinds(family: str, kinds: Mapping[str, type[Settings]], table: Mapping[str, Any]) -> None:
    """Refuse a setting that other kinds of the family have, and say which."""
    there = {kind: {field.name for field in dataclasses.fields(settings)} for kind, settings in kinds.items()}
    for name in table.keys() - there[table[KIND]] - {KIND}:
        having = [kind for kind, names in there.items() if name in names]
        if having:
            raise ConfigError(
                '`{family}.{name}` is a setting of {having}, and `{family}` is "{kind}": set `{family}` too, or leave '
                "it out.",
                family=family,
                name=name,
                having=quoted(having),
                kind=table[KIND],
            )


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
