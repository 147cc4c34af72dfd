"""Figures as files: SVG for pages, PDF for papers, PNG for everything else. The same results give the same files."""

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from indubio.errors import ConfigError, quoted
from indubio.io import whole_file
from indubio.report import report_style, with_short_numbers

RESOLUTION = 150  # dots an inch, of PNG and of the maps and raw signals inside the others
METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
FORMATS = tuple(METADATA)


def write_figure(figure: Figure, stem: Path, formats: Iterable[str] = FORMATS) -> list[Path]:
    """Write one figure in every format, as `stem` with the format's ending."""
    asked = list(formats)
    unknown = [kind for kind in asked if kind not in FORMATS]
    if unknown:
        raise ConfigError(f"figures are written as {quoted(FORMATS)}, got {unknown[0]!r}.")
    stem.parent.mkdir(parents=True, exist_ok=True)
    with report_style():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the arrangement is found: every format need not look for it again
        return [_write(figure, stem.with_name(f"{stem.name}.{kind}"), kind) for kind in asked]


def _write(figure: Figure, path: Path, kind: str) -> Path:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=RESOLUTION, facecolor="white", metadata=METADATA[kind])
    content = buffer.getvalue()
    if kind == "svg":
        content = with_short_numbers(_counted_identifiers(content.decode())).encode()
    with whole_file(path) as stream:
        stream.write(content)
    return path


def _counted_identifiers(svg: str) -> str:
    """Identifiers by their order: matplotlib's are hashes of positions that differ in digits nobody sees."""
    names: dict[str, str] = {}
    return re.sub(r"\b[pmC][0-9a-f]{10}\b", lambda found: names.setdefault(found[0], f"i{len(names)}"), svg)


def chosen_names(names: Sequence[str] | None, there_are: Iterable[str]) -> list[str]:
    """The figures asked for; None means all."""
    known = list(there_are)
    for name in names or ():
        if name not in known:
            raise ConfigError(f"there is no figure {name!r}; there are {quoted(known)}.")
    return known if names is None else list(names)
