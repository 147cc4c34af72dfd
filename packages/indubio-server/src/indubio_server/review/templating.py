"""The templates of the review pages, with what they need to write times, labels and uncertainties."""

from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Environment

import indubio
from indubio.judging import LARGEST_TOTAL
from indubio.report import count, page_templates
from indubio.report import moment as written_moment
from indubio.texts import LANGUAGES, marked
from indubio_server.store import LABELS, now

MINUTE, HOUR, DAY = 60, 3600, 86400
STORED = (  # words of the store that templates translate
    *(marked("inlier"), marked("anomaly"), marked("unsure")),
    *(marked("total"), marked("epistemic"), marked("aleatoric")),
    *(marked("running"), marked("done"), marked("failed"), marked("interrupted")),
    *(marked("given"), marked("recalibrated"), marked("learned"), marked("retrained")),
    *(marked("found on disk"), marked("activated"), marked("rolled back"), marked("raised"), marked("cleared")),
)
LONGEST = 32  # characters of a name in a table


def rendered(template: str, **values: Any) -> str:
    """Fill in a template of the review pages."""
    return _environment().get_template(template).render(**values)


def age(at: datetime) -> str:
    """How long ago: 40 s, 12 min, 3 h, 5 days."""
    seconds = max(0, int((now() - at).total_seconds()))
    if seconds < MINUTE:
        return f"{seconds} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min"
    return f"{seconds // HOUR} h" if seconds < 2 * DAY else count(seconds // DAY, "day")


def moment(at: datetime) -> str:
    """A time of the store as people read it."""
    return f"{written_moment(at)} UTC"


def abridged(name: str | None) -> str:
    """A name with its beginning and its end, where it is too long for a table: serial numbers differ at the end."""
    text = name or ""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}…{text[-LONGEST // 2 :]}"


def of_hundred(uncertainty: float) -> int:
    """An uncertainty on a scale of 0 to 100, where 100 is a fair coin."""
    return round(100 * min(1.0, uncertainty / LARGEST_TOTAL))


@cache
def _environment() -> Environment:
    environment = page_templates("indubio_server.review")
    environment.filters |= {"abridged": abridged, "age": age, "moment": moment, "of_hundred": of_hundred}
    environment.globals |= {"version": indubio.__version__, "labels": LABELS, "languages": LANGUAGES}
    return environment
