"""The most anomalous of what was assessed, with why: what a person at a terminal looks at first."""

from datetime import datetime
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from indubio.assessment import Assessment
from indubio.decision import IN_SHORT, Reason, Verdict
from indubio.pipeline.familiarity import UNFAMILIAR

if TYPE_CHECKING:
    from indubio.inputs.examples import Examples

SHOWN = 10
MOST_IDS = 3  # columns that say which example it is
COLOURS = {Verdict.INLIER: "green", Verdict.ANOMALY: "bold red", Verdict.REFER: "yellow"}


class Worst:
    """Sees every part that is assessed, and keeps the anomalies and referrals that are furthest out.

    Args:
        by: what they are sorted by: "nll", or "probability" of a model that labels have taught.
    """

    def __init__(self, by: str) -> None:
        self._by = by
        self._rows: list[tuple[float, int, dict[str, Any]]] = []
        self._seen = 0

    def see(self, part: "Examples", found: Assessment) -> None:
        """One more part, and what was found of it."""
        score = getattr(found, self._by)
        flagged = np.flatnonzero(found.verdict != Verdict.INLIER)
        chosen = flagged[np.argsort(-score[flagged], kind="stable")[:SHOWN]]
        made = _made_by(found, chosen)
        rows = [
            (float(score[place]), -self._seen - int(place), _row(part, found, int(place), made.get(int(place))))
            for place in chosen
        ]
        self._rows = nlargest(SHOWN, [*self._rows, *rows], key=lambda row: row[:2])
        self._seen += len(found)

    def table(self) -> Table | None:
        """The worst first; None where nothing is anomalous and nothing referred."""
        if not self._rows:
            return None
        rows = [row for _, _, row in self._rows]
        names = [name for name in rows[0] if any(row.get(name, "") != "" for row in rows)]
        title = f"The {len(rows)} most anomalous; doubt from 0 to 100"
        table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim")
        for name in names:
            table.add_column(
                name,
                justify="right" if name in ("probability", "doubt") else "left",
                overflow="fold",
                no_wrap=name in ("verdict", "probability", "doubt"),
            )
        for row in rows:
            table.add_row(*(_coloured(row[name]) if name == "verdict" else row[name] for name in names))
        return table


def coloured_counts(counts: dict[str, int]) -> Text:
    """How many of each verdict, in its colour."""
    words = [_coloured(name, f"{count} {name}") for name, count in counts.items()]
    return Text(", ").join(words)


def _coloured(verdict: str, words: str = "") -> Text:
    return Text(words or verdict, style=COLOURS[Verdict(verdict)])


def _row(part: "Examples", found: Assessment, place: int, made_by: str | None) -> dict[str, str]:
    return _which(part, found, place) | {
        "verdict": str(found.verdict[place]),
        "probability": f"{found.probability[place]:.3f}",
        "doubt": f"{found.total_percent[place]:.0f}",
        "mostly": made_by or "",
        "why": _why(found, place),
    }


def _which(part: "Examples", found: Assessment, place: int) -> dict[str, str]:
    """What tells an example from others: its ids, else the place in its file."""
    if found.passed is None:
        where = getattr(part, "places", None)
        return {"row": f"row {place}" if where is None else where(place)}
    there = {name: found.passed.column(name)[place].as_py() for name in found.passed.column_names if name != "end"}
    known = {name: _plain(value) for name, value in there.items() if value is not None}
    return dict.fromkeys(list(there)[:MOST_IDS], "") | dict(list(known.items())[:MOST_IDS])


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _made_by(found: Assessment, places: np.ndarray) -> dict[int, str]:
    """The feature or sensor that adds most to the score, by example."""
    if found.why is None or not len(places):
        return {}
    chosen = np.sort(places)
    why = found.why.of(chosen).by_sensor
    top = why.top(1)
    both = zip(why.places, top.names[:, 0], top.shares[:, 0], strict=True)
    return {int(chosen[row]): f"{name} {100 * share:.0f} %" for row, name, share in both if share > 0}


def _why(found: Assessment, place: int) -> str:
    reason, far = str(found.reason[place]), float(found.novelty[place])
    if reason == Reason.BAD_INPUT:
        return str(found.notes[place])
    if reason and reason != Reason.UNFAMILIAR:
        return IN_SHORT[Reason(reason)]
    return IN_SHORT[Reason.UNFAMILIAR] if far > UNFAMILIAR else ""
