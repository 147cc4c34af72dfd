"""Plots of cases and curves as SVG, drawn one at a time.

matplotlib's settings belong to the whole process, so a lock lets one thread draw. A case's plot never changes: the
last ones are kept, and the one that a reviewer will see next is made ahead.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes

from indubio.chain import Assessment
from indubio.errors import IndubioError
from indubio.report import Drawing, Subject, Value, cards, count, number, plain
from indubio.texts import _, language, told
from indubio_server.models import Registry
from indubio_server.store import Case, input_values

KEPT = 256  # plots; a few kilobytes each
STYLE = re.compile(r' style="([^"]*)"')
FONT = re.compile(r"(?:(?P<weight>bold|\d+) )?(?P<size>[\d.]+px) .*")


@dataclass(frozen=True, kw_only=True)
class CasePicture:
    """The figures and values that a case's page shows.

    Args:
        figures: signals and contributions.
        values: the features that contribute most, for tables.
        others: the remaining values of the input, name and value.
        without_model: why there are only values: the model's files are gone.
    """

    figures: tuple[Markup, ...]
    values: tuple[Value, ...]
    others: dict[str, str]
    without_model: str


class CasePlots:
    """Draws cases, and keeps the last pictures.

    Args:
        registry: has the model that each case was assessed with.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, str], CasePicture] = OrderedDict()
        self._ahead = ThreadPoolExecutor(max_workers=1, thread_name_prefix="indubio-drawing")

    def of(self, case: Case) -> CasePicture:
        """The picture of a case, drawn or from memory."""
        key = case.id, language()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = self._drawn(case)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def ahead(self, case: Case) -> None:
        """Begin to draw the case that comes next."""
        if (case.id, language()) not in self._kept:
            self._ahead.submit(copy_context().run, self.of, case)

    def one(self, label: str, draw: Callable[[Axes], Any], size: tuple[float, float]) -> Markup:
        """Draw any other figure with one pair of axes."""
        with self._lock:
            return styled_by_attributes(Drawing().one(label, draw, size))

    def close(self) -> None:
        """Stop drawing pictures ahead of being asked."""
        self._ahead.shutdown(cancel_futures=True)

    def _drawn(self, case: Case) -> CasePicture:
        raw = {name: _shown(value) for name, value in input_values(case).items()}
        try:
            loaded = self._registry.version(case.model, case.version)
        except IndubioError as error:
            return CasePicture(figures=(), values=(), others=raw, without_model=told(str(error)))
        model = loaded.model.input
        subject = Subject.of(
            loaded.detector, model.detector_data(model.from_input(case.input)), assessment_of(case), None
        )
        card = cards(subject, np.zeros(1, dtype=np.int64), Drawing())[0]
        named = {value.name.partition("=")[0] for value in card.values}
        others = (
            {}
            if subject.windows or subject.images
            else {name: value for name, value in raw.items() if name not in named}
        )
        figures = tuple(styled_by_attributes(figure) for figure in card.figures)
        return CasePicture(figures=figures, values=card.values, others=others, without_model="")


def assessment_of(case: Case) -> Assessment:
    """The assessment of a case, as it was when the case was kept."""
    kept = {field.name for field in fields(Case)} & {field.name for field in fields(Assessment)}
    values = {name: getattr(case, name) for name in kept}
    columns: dict[str, Any] = {name: np.array([value]) for name, value in values.items() if value is not None}
    unknown: dict[str, Any] = {name: np.full(1, np.nan) for name in ("novelty", "p_value", "smallest_p")}
    unknown["promise"] = ""
    return Assessment(**unknown | columns)


def styled_by_attributes(svg: Markup) -> Markup:
    """A picture with attributes in place of inline styles, which a strict content security policy forbids."""
    return Markup(STYLE.sub(_attributes, svg))  # safe: only moves what is there, and quotes stay quotes


def _attributes(match: re.Match[str]) -> str:
    written = []
    for declaration in match[1].split(";"):
        name, _, value = (text.strip() for text in declaration.partition(":"))
        if name == "font":
            font = FONT.fullmatch(value)
            written += [("font-size", font["size"])] if font else []
            written += [("font-weight", font["weight"])] if font and font["weight"] else []
        elif name:
            written.append((name, value))
    return "".join(f' {name}="{value}"' for name, value in written)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        if value and isinstance(value[0], list):
            return _("{rows} x {columns} pixels", rows=len(value), columns=len(value[0]))
        known = [one for one in value if one is not None]
        length = count(len(value), "sample")
        return (
            _("{length}, {low} to {high}", length=length, low=number(min(known)), high=number(max(known)))
            if known
            else length
        )
    return number(value) if isinstance(value, int | float) else _("missing") if value is None else plain(value)
