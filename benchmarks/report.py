"""What was measured, as tables on the terminal, as a page and as a figure."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.processor import processor

if TYPE_CHECKING:
    from benchmarks.growth import Growth

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "benchmarks.md"
FIRST_SECOND = "From the first second"  # section of the page that benchmarks.cold_start writes
NOTES = Path(__file__).with_name("what_did_not_help.md")


@dataclass(frozen=True)
class Section:
    """One table."""

    key: str
    title: str
    headers: list[str]
    rows: list[list[str]]
    note: str

    def printed(self, console: Console) -> None:
        """The table on the terminal."""
        table = Table(title=self.title, caption=self.note, caption_justify="left", title_justify="left")
        for place, header in enumerate(self.headers):
            table.add_column(header, justify="right" if place else "left")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)

    def column(self, header: str) -> list[str]:
        """Its values."""
        return [row[self.headers.index(header)] for row in self.rows]

    def markdown(self) -> str:
        """The table on the page."""
        lines = [self.headers, ["---", *["---:"] * (len(self.headers) - 1)], *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"## {self.title}\n\n{table}\n\n{self.note}\n"


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:,.0f}"


def ratio(value: float) -> str:
    return f"{value:.2f}x" if value < 10 else f"{value:.1f}x" if value < 100 else f"{value:.0f}x"


def write(sections: Sequence[Section], growth: "Sequence[Growth]", loads: tuple[float, float]) -> None:
    """docs/benchmarks.md and its figure; the section on cold starts stays as it was measured."""
    figure(sections, growth, DOCS / "images" / "benchmarks.png")
    head = (
        "# Benchmarks\n\n"
        "Written by `python -m benchmarks --write`; `make bench` measures again. Works of one table run in turns, each "
        "number is the median of the rounds, on one thread; CPU time is the process's own. Ratios count: the "
        "times are those of one machine on one day.\n\n"
        f"{processor()}. Python {platform.python_version()}, torch {torch.__version__}. Load average {loads[0]:.1f} "
        f"before and {loads[1]:.1f} after (1 is this command's own).\n\n"
    )
    picture = "![Ratios to the plain loop and to the limit, and growth of the training time](images/benchmarks.png)\n"
    parts = [section.markdown() for section in sections]
    parts.insert(1, picture)  # after the targets
    start, end = section_of(page := PAGE.read_text(), FIRST_SECOND)
    parts.append(page[start:end].rstrip("\n") + "\n")
    PAGE.write_text(head + "\n".join([*parts, NOTES.read_text()]))


def figure(sections: Sequence[Section], growth: "Sequence[Growth]", path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    (steps,) = (section for section in sections if section.key == "steps")
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    names = list(dict.fromkeys(row[0] for row in steps.rows))
    sets = [name for name in dict.fromkeys(steps.column("instructions")) if name != "plain"]
    for column, marker in (("plain / ours", "o"), ("ours / limit", "s")):
        for number, instructions in enumerate(sets):
            shown = zip(steps.column("size"), steps.column("instructions"), steps.column(column), strict=True)
            points = {size: float(value[:-1]) for size, own, value in shown if own == instructions}
            color = f"C{number}"
            face = color if number == 0 else "white"
            left.plot(
                list(points.values()),
                [names.index(size) for size in points],
                marker,
                color=color,
                markerfacecolor=face,
                label=f"{column.replace('plain', 'plain loop')}, {instructions}",
            )
    left.set(yticks=range(len(names)), yticklabels=names, xscale="log", title="CPU time of a training step, ratios")
    left.axvline(1, color="grey", linewidth=0.8)
    left.grid(axis="y", linewidth=0.4)
    left.invert_yaxis()
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, fontsize=8)  # points are everywhere inside
    for one in growth:
        relative = [value / one.values[0] for value in one.values]
        right.loglog(relative, [1000 * s for s in one.seconds], "o-", label=f"{one.name}: slope {one.slope:.2f}")
    right.set(xlabel="times the smallest", ylabel="CPU ms", title="Growth of the training time")
    right.legend(fontsize=8)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def put_section(title: str, text: str) -> None:
    """Put a section in the place of the one of this title, or before the notes at the end."""
    start, end = section_of(page := PAGE.read_text(), title)
    PAGE.write_text(f"{page[:start]}{text}\n{page[end:]}")


def section_of(page: str, title: str) -> tuple[int, int]:
    """Where it begins and ends on the page; an empty place before the notes at the end where it is not on it."""
    start = page.find(f"## {title}\n")
    if start < 0:
        start = page.index(NOTES.read_text().splitlines()[0])
        return start, start
    return start, page.index("\n## ", start) + 1
