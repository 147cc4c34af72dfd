"""What was measured, as tables on the terminal, as a page and as a figure."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.growth import Growth

DOCS = Path(__file__).parents[1] / "docs"
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

    def markdown(self) -> str:
        """The table on the page."""
        lines = [self.headers, ["---", *["---:"] * (len(self.headers) - 1)], *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"## {self.title}\n\n{table}\n\n{self.note}\n"


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:,.0f}"


def ratio(value: float) -> str:
    return f"{value:.1f}x" if value < 100 else f"{value:.0f}x"


def write(sections: Sequence[Section], growth: "Sequence[Growth]", loads: tuple[float, float]) -> None:
    """docs/benchmarks.md and its figure."""
    figure(sections, growth, DOCS / "images" / "benchmarks.png")
    head = (
        "# Benchmarks\n\n"
        "Written by `python -m benchmarks --write`; `make bench` measures again. Works of one table run in turns, each "
        "number is the median of the rounds, on one torch thread; CPU time is the process's own. Ratios count: the "
        "times are those of one machine on one day.\n\n"
        f"Python {platform.python_version()}, torch {torch.__version__}, {os.cpu_count()} cores, "
        f"load average {loads[0]:.1f} before and {loads[1]:.1f} after (1 is this command's own).\n\n"
        "![Ratios to the plain loop and to the limit, and growth of the training time](images/benchmarks.png)\n\n"
    )
    body = "\n".join(section.markdown() for section in sections)
    (DOCS / "benchmarks.md").write_text(f"{head}{body}\n{NOTES.read_text()}")


def figure(sections: Sequence[Section], growth: "Sequence[Growth]", path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    (steps,) = (section for section in sections if section.key == "steps")
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    names = [row[0] for row in steps.rows]
    places = range(len(names))
    for shift, (column, label) in zip((-0.2, 0.2), ((-2, "plain loop / ours"), (-1, "ours / limit")), strict=True):
        bars = left.barh(
            [p + shift for p in places], [float(row[column][:-1]) for row in steps.rows], 0.38, label=label
        )
        left.bar_label(bars, [row[column] for row in steps.rows], padding=3, fontsize=8)
    left.set(yticks=list(places), yticklabels=names, xscale="log", title="CPU time of a training step, ratios")
    left.axvline(1, color="grey", linewidth=0.8)
    left.margins(x=0.15)
    left.invert_yaxis()
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, fontsize=8)  # bars are everywhere inside
    for one in growth:
        relative = [value / one.values[0] for value in one.values]
        right.loglog(relative, [1000 * s for s in one.seconds], "o-", label=f"{one.name}: slope {one.slope:.2f}")
    right.set(xlabel="times the smallest", ylabel="CPU ms", title="Growth of the training time")
    right.legend(fontsize=8)
    fig.savefig(path, dpi=130)
    plt.close(fig)
