"""The settings of a command as TOML, each with its default and with what the docstrings say of it."""

import dataclasses
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tomlkit

from indubio.calibration import HoldOut
from indubio.configuration import FAMILIES, PARAMETERS, Configuration, to_plain
from indubio.data import ImageFiles, Roles, Wide, Windowing
from indubio.detector import Detector
from indubio.fitting import DEFAULTS, Trimming
from indubio.networks import Dense, StudentLikelihood, Training
from indubio.posteriors import POSTERIORS, Posterior
from indubio.prepare import Spectra, ZScore
from indubio.settings import KIND, Settings, argument_notes
from indubio.workers import Workers

WIDTH = 118


def _those(chosen: Callable[[type[Posterior]], bool]) -> str:
    """The posteriors for which something holds: "`a`, `b` and `c`"."""
    names = [f"`{kind}`" for kind, posterior in POSTERIORS.items() if chosen(posterior)]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


COMPUTED = _those(lambda posterior: not posterior.TRAINED)
REMEMBERING = _those(lambda posterior: isinstance(posterior.LIKELIHOOD, StudentLikelihood))
BY_MOMENTS = _those(lambda posterior: isinstance(posterior.SCALING, ZScore))
EXAMPLES = {
    "architecture": Dense(),
    "calibration": HoldOut(),
    "spectra": Spectra(),
    "trimming": Trimming(),
    "table": Roles(),
    "layout": Wide(),
    "windowing": Windowing(length=60),
    "images": ImageFiles(),
    "workers": Workers(),
}
LEFT_OUT = {
    "likelihood": f"# Left out, it suits the posterior: this one for {REMEMBERING}, `gaussian` for the others.",
    "training": f"# For posteriors that are trained, as {COMPUTED} are not. Left out, it is this.",
    "scaling": f"# Left out, it suits the posterior: `z_score` for {BY_MOMENTS}, `min_max` for the others.",
    "architecture": f"# Left out, {COMPUTED} have a network of their own; that of the others is `dense` for\n"
    "#   tables and spectra, `conv1d` for windows as they are, and `conv2d` for images; `coalition` is one network\n"
    "#   for each sensor.",
    "calibration": "# Left out, the calibration is chosen by the number of rows, and by whether neighbours are alike.",
    "spectra": f"# For windows only. Left out, {COMPUTED} take spectra, and the others windows as they are;\n"
    "#   `spectra = false` above all tables takes windows as they are.",
    "trimming": "# Left out, all rows are trained on.",
    "table": "# For rows of a table.",
    "layout": "# For windows of a recording.",
    "windowing": "# For windows of a recording; its length must be given.",
    "images": "# For images.",
    "workers": "# Left out, everything is done here.",
}
OF_LEARNING_RATE = (
    '# learning_rate may be a table instead: learning_rate = { use = "fixed" }, found by a range test',
    "# early_stopping = { held_out = 0.2, patience = 10 }",
    "# denoising = { scale = 0.1, highest = 1.0, by_kurtosis = false }",
)


def default_toml(settings: type[Settings], command: str) -> str:
    """Every setting of a command with its default.

    Args:
        settings: of the command.
        command: its name.
    """
    lines = [
        f"# Settings of `indubio {command}`: in a file for --config where it takes one, or each by --set NAME=VALUE.",
        "# What is left out has the value that stands here.",
        "",
    ]
    notes = argument_notes(Detector) | argument_notes(settings)
    usual = _usual(settings)
    tables = {name: value for name, value in usual.items() if isinstance(value, Settings)}
    for name, value in usual.items():
        if name not in tables:
            lines += [*_comment(notes.get(name, "")), _line(name, _plain(value))]
    for name, value in tables.items():
        lines += ["", *_section(name, value, notes.get(name, ""), off=name in LEFT_OUT)]
    return "\n".join([*lines, ""])


def table_toml(name: str) -> str:
    """All kinds of a family of settings, each with its settings and their defaults."""
    return "\n".join(line for kind, settings in FAMILIES[name].items() for line in (*_kind(name, kind, settings), ""))


def written_toml(config: Mapping[str, Any]) -> str:
    """A configuration as TOML; what is None is left out."""
    return tomlkit.dumps(_given(config))


def _usual(settings: type[Settings]) -> dict[str, Any]:
    """The default of each setting; of a table that is chosen by other things, an example."""
    stands_for = {name: DEFAULTS.get(name) for name in PARAMETERS} if _is_fit(settings) else {}
    usual = {}
    for field in dataclasses.fields(settings):
        default = stands_for.get(field.name) or field.default
        usual[field.name] = EXAMPLES.get(field.name, default) if default is None else default
    return usual


def _is_fit(settings: type[Settings]) -> bool:
    return issubclass(settings, Configuration)


def _given(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: _given(inner) for name, inner in value.items() if inner is not None}


def _section(name: str, settings: Settings, note: str, *, off: bool) -> Iterator[str]:
    kinds = FAMILIES.get(name, {})
    yield from [LEFT_OUT[name]] if name in LEFT_OUT else _comment(note)
    if len(kinds) > 1:
        yield from _comment(f"{KIND}: {', '.join(kinds)}; `indubio config {name}` shows the settings of each")
    yield f"{'# ' if off else ''}[{name}]"
    notes = argument_notes(type(settings))
    for key, value in _plain(settings).items():
        yield from _comment(notes.get(key, ""))
        yield ("# " if off and value is not None else "") + _line(key, value)
    if isinstance(settings, Training):
        yield from OF_LEARNING_RATE


def _kind(name: str, kind: str, settings: type[Settings]) -> Iterator[str]:
    notes, summary = argument_notes(settings), (settings.__doc__ or "").partition("\n")[0]
    yield from _comment(summary)
    yield from (f"[{name}]", f'{KIND} = "{kind}"')
    for field in dataclasses.fields(settings):
        yield from _comment(notes.get(field.name, ""))
        needed = field.default is field.default_factory is dataclasses.MISSING
        yield f"# {field.name} must be given" if needed else _line(field.name, _plain(_default(field)))


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _plain(value: Any) -> Any:
    """A setting in TOML's terms."""
    if isinstance(value, Settings):
        return to_plain(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _line(name: str, value: Any) -> str:
    return f"# {name} is not set" if value is None else f"{name} = {tomlkit.item(_given(value)).as_string()}"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="#   ") if text else []
