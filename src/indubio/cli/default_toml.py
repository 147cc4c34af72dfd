"""The default configuration as TOML, with what the docstrings say beside every setting."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import tomlkit

from indubio.calibration import HoldOut
from indubio.configuration import FAMILIES, to_plain
from indubio.detector import Detector
from indubio.fitting.defaults import DEFAULTS
from indubio.fitting.trimming import Trimming
from indubio.inputs import Spectra
from indubio.networks import Dense
from indubio.posteriors import POSTERIORS, Training
from indubio.settings import Settings, argument_notes

WIDTH = 118
COMPUTED = " and ".join(f"`{kind}`" for kind, posterior in POSTERIORS.items() if not posterior.TRAINED)
EXAMPLES = {"architecture": Dense(), "calibration": HoldOut(), "spectra": Spectra(), "trimming": Trimming()}
LEFT_OUT = {
    "likelihood": f"# Left out, it suits the posterior: this one for {COMPUTED}, `gaussian` for the others.",
    "training": f"# For posteriors that are trained, as {COMPUTED} are not. Left out, it is this.",
    "scaling": f"# Left out, it suits the posterior: this one for {COMPUTED}, `min_max` for the others.",
    "architecture": f"# Left out, {COMPUTED} have a network of their own; that of the others is `dense` for\n"
    "#   tables and spectra, `conv1d` for windows as they are, and `conv2d` for images; `coalition` is one network\n"
    "#   for each sensor.",
    "calibration": "# Left out, the calibration is chosen by the number of rows.",
    "spectra": f"# For windows only. Left out, {COMPUTED} take spectra, and the others windows as they are;\n"
    "#   `spectra = false` above all tables takes windows as they are.",
    "trimming": "# Left out, all rows are trained on.",
}


def default_toml() -> str:
    """Every setting of the detector with its default, and how files are read."""
    lines = ["# Settings of `indubio fit --config`. What is left out has the value that stands here.", ""]
    scalars = {name: value for name, value in Detector().get_params(deep=False).items() if value is not None}
    notes = argument_notes(Detector)
    for name, value in scalars.items():
        lines += [*_comment(notes.get(name, "")), f"{name} = {tomlkit.item(value).as_string()}"]
    for name, settings in {**DEFAULTS, **EXAMPLES}.items():
        lines += ["", *_section(name, settings)]
    return "\n".join([*lines, "", *_data_section(), ""])


def written_toml(config: Mapping[str, Any]) -> str:
    """A configuration as TOML; what is None is left out."""
    return tomlkit.dumps(_given(config))


def _given(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: _given(inner) for name, inner in value.items() if inner is not None}


def _section(name: str, settings: Settings) -> Iterator[str]:
    kinds = FAMILIES.get(name, {})
    if name in LEFT_OUT:
        yield LEFT_OUT[name]
    if len(kinds) > 1:
        yield from _comment("kind: " + ", ".join(kinds))
    off = "# " if name in LEFT_OUT else ""
    yield f"{off}[{name}]"
    notes = argument_notes(type(settings))
    for key, value in to_plain(settings).items():
        yield from _comment(notes.get(key, ""))
        yield f"# {key} is not set" if value is None else f"{off}{key} = {tomlkit.item(value).as_string()}"
    if isinstance(settings, Training):
        yield '# learning_rate may be a table instead: learning_rate = { use = "fixed" }, found by a range test'
        yield "# early_stopping = { held_out = 0.2, patience = 10 }"
        yield "# denoising = { scale = 0.1, highest = 1.0, by_kurtosis = false }"


def _data_section() -> list[str]:
    return [
        "# How files are read: the roles of the columns of a table ...",
        "# [data.table]",
        '# columns = ["pressure", "flow"]     # default: all that have no other role',
        '# ids = ["serial"]',
        '# time = "when"',
        '# group = "machine"                  # p-values hold within each of its values',
        '# label = "defect"                   # rows labelled as anomalies are left out of training',
        '# anomaly_values = ["NOK"]',
        '# categorical = ["machine"]          # or a table: { machine = ["A", "B"] }',
        "#",
        "# ... or windows of a recording, wide (a column per sensor) or long (a row per value).",
        '# layout = { kind = "wide", time = "time", group = "cycle" }     # time_format = "%m/%d/%Y %I:%M:%S %p"',
        '# layout = { kind = "long", time = "time", tag = "tag", value = "value", quality = "quality" }',
        '# windowing = { length = 60, step = 30, rate = 1.0, gaps = "hold", longest_gap = 5.0 }     # under [data]',
        "#",
        "# Text files and spreadsheets are looked at, and what they are written in is found out. To say it:",
        '# file_format = { separator = ";", decimal = ",", encoding = "cp1252" }     # under [data]',
    ]


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="#   ") if text else []
