"""A progress bar on stderr for a detector's fit; none when nobody is looking."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from indubio.posteriors.training import Progress, Report


@contextmanager
def fit_bar() -> Iterator[Report]:
    """A callback for `Detector.fit(progress=...)` that draws a bar while the block runs."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.2e}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks = {}

        def report(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bar.add_task(progress.stage, total=progress.total, loss=progress.loss)
            bar.update(tasks[progress.stage], completed=progress.done, loss=progress.loss)

        yield report
