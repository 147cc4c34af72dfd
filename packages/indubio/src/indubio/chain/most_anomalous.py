"""The most anomalous examples of an assessment with why, as the terminal, `summary()` and notebooks show them."""

from datetime import datetime
from typing import Any

import numpy as np
from jaxtyping import Int

from indubio.chain.assessment import Assessment
from indubio.chain.familiarity import UNFAMILIAR
from indubio.decision import IN_SHORT, Reason, Verdict

MOST_IDS = 3  # columns that say which example it is
RIGHT = ("probability", "doubt")  # columns of numbers


def worst(found: Assessment, most: int, by: str = "nll") -> Int[np.ndarray, " worst"]:
    """Where the anomalies and referrals are that are furthest out, the worst first.

    Args:
        found: of some examples.
        most: so many.
        by: what they are sorted by: "nll", or "probability" of a model that labels have taught.
    """
    flagged = np.flatnonzero(found.verdict != Verdict.INLIER)
    return np.asarray(flagged[np.argsort(-getattr(found, by)[flagged], kind="stable")[:most]])


def rows_of(found: Assessment, places: Int[np.ndarray, " some"], before: int = 0) -> list[dict[str, str]]:
    """Some of the examples, as cells of a table by column.

    Args:
        found: of all examples.
        places: which of them.
        before: how many examples came before these, where they have no ids and are counted.
    """
    made = _made_by(found, places)
    return [
        _which(found, place, before)
        | {
            "verdict": str(found.verdict[place]),
            "probability": f"{found.probability[place]:.3f}",
            "doubt": f"{found.total_percent[place]:.0f}",
            "mostly": made.get(place, ""),
            "why": _why(found, place),
        }
        for place in places.tolist()
    ]


def filled_columns(rows: list[dict[str, str]]) -> list[str]:
    """The columns in which any of the rows says something."""
    return [name for name in (rows[0] if rows else {}) if any(row.get(name, "") != "" for row in rows)]


def counts(found: Assessment) -> str:
    """How many examples there are, and of each verdict."""
    each = ", ".join(f"{np.count_nonzero(found.verdict == verdict):,} {verdict}" for verdict in Verdict)
    return f"{len(found):,} examples: {each}."


def summary(found: Assessment, most: int) -> str:
    """Counts, and the most anomalous as a table of text.

    Args:
        found: of some examples.
        most: rows of the table.
    """
    rows = rows_of(found, worst(found, most))
    if not rows:
        return counts(found)
    names = filled_columns(rows)
    lines = [dict(zip(names, names, strict=True)), *rows]
    widths = {name: max(len(line[name]) for line in lines) for name in names}
    told = [
        "  ".join(f"{line[name]:{'>' if name in RIGHT else '<'}{widths[name]}}" for name in names).rstrip()
        for line in lines
    ]
    return "\n".join([counts(found), f"The {len(rows)} most anomalous; doubt from 0 to 100:", *told])


def _which(found: Assessment, place: int, before: int) -> dict[str, str]:
    """What tells an example from others: its ids, else its number from 0 on."""
    if found.passed is None:
        return {"example": str(before + place)}
    there = {name: found.passed.column(name)[place].as_py() for name in found.passed.column_names if name != "end"}
    known = {name: _plain(value) for name, value in there.items() if value is not None}
    return dict.fromkeys(list(there)[:MOST_IDS], "") | dict(list(known.items())[:MOST_IDS])


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _made_by(found: Assessment, places: Int[np.ndarray, " some"]) -> dict[int, str]:
    """The feature or sensor that adds most to the score, by example."""
    if found.why is None or not len(places):
        return {}
    chosen = np.sort(places)
    why = found.why.of(chosen).by_sensor
    top = why.top(1)
    both = zip(why.places, top.names[:, 0], top.shares[:, 0], strict=True)
    return {int(chosen[row]): f"{name} {100 * share:.0f} %" for row, name, share in both if share > 0}


def _why(found: Assessment, place: int) -> str:
    reason = str(found.reason[place])
    if reason == Reason.BAD_INPUT:
        return str(found.notes[place])
    if reason and reason != Reason.UNFAMILIAR:
        return IN_SHORT[Reason(reason)]
    return IN_SHORT[Reason.UNFAMILIAR] if float(found.novelty[place]) > UNFAMILIAR else ""
