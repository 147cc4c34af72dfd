"""The most anomalous of what was assessed, part by part: what a person at a terminal looks at first."""

from heapq import nlargest

from rich.table import Table
from rich.text import Text

from indubio.chain import RIGHT, Assessment, filled_columns, rows_of, worst
from indubio.decision import Verdict

SHOWN = 10
COLOURS = {Verdict.INLIER: "green", Verdict.ANOMALY: "bold red", Verdict.REFER: "yellow"}


class Worst:
    """Sees every part that is assessed, and keeps the anomalies and referrals that are furthest out.

    Args:
        by: what they are sorted by: "nll", or "probability" of a model that labels have taught.
    """

    def __init__(self, by: str) -> None:
        self._by = by
        self._rows: list[tuple[float, int, dict[str, str]]] = []
        self._seen = 0

    def see(self, found: Assessment) -> None:
        """What was found of one more part."""
        places, score = worst(found, SHOWN, self._by), getattr(found, self._by)
        rows = zip(places.tolist(), rows_of(found, places, self._seen), strict=True)
        more = [(float(score[place]), -self._seen - place, row) for place, row in rows]
        self._rows = nlargest(SHOWN, [*self._rows, *more], key=lambda row: row[:2])
        self._seen += len(found)

    def table(self) -> Table | None:
        """The worst first; None where nothing is anomalous and nothing referred."""
        rows = [row for _, _, row in self._rows]
        if not rows:
            return None
        title, names = f"The {len(rows)} most anomalous; doubt from 0 to 100", filled_columns(rows)
        table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim")
        for name in names:
            numbers = name in RIGHT
            whole = numbers or name == "verdict"
            table.add_column(name, justify="right" if numbers else "left", overflow="fold", no_wrap=whole)
        for row in rows:
            table.add_row(*(_coloured(row[name]) if name == "verdict" else row[name] for name in names))
        return table


def coloured_counts(counts: dict[str, int]) -> Text:
    """How many of each verdict, in its colour."""
    words = [_coloured(name, f"{count} {name}") for name, count in counts.items()]
    return Text(", ").join(words)


def _coloured(verdict: str, words: str = "") -> Text:
    return Text(words or verdict, style=COLOURS[Verdict(verdict)])
