"""Progress on stderr; nothing when nobody is looking."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isnan
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from indubio.cli.consoles import terminal

if TYPE_CHECKING:
    from indubio.networks import Progress, Report


@contextmanager
def fit_bar() -> "Iterator[Report]":
    """A callback for `Detector.fit(progress=...)` that draws a bar while the block runs."""
    console = terminal(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks = {}

        def report(progress: "Progress") -> None:
            loss = "" if isnan(progress.loss) else f"loss {progress.loss:.2e}"  # none while data is read
            if progress.stage not in tasks:
                tasks[progress.stage] = bar.add_task(progress.stage, total=progress.total, loss=loss)
            bar.update(tasks[progress.stage], completed=progress.done, loss=loss)

        yield report


@contextmanager
def counter(word: str) -> Iterator[Callable[[int], None]]:
    """A running count of examples, for a stream whose length nobody knows.

    Args:
        word: what was done to them.
    """
    console = terminal(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} examples {task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(word, total=None)
        yield lambda more: bar.advance(task, more)
