"""A bar over the cells of a grid; nothing but a line a cell when nobody is looking."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from indubio.cli import terminal
from indubio_lab.grids import GridAdvance


@contextmanager
def cell_bar() -> Iterator[Callable[[GridAdvance], None]]:
    """A bar over the cells, and one line a cell where nobody is looking."""
    console = terminal(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def tell(advance: GridAdvance) -> None:
            left = "" if advance.cpu_left is None else f"{advance.cpu_left / 60:.0f} min of processor time left"
            bar.update(task, completed=advance.done, total=advance.total, description=left)
            if not console.is_terminal and advance.latest is not None:
                console.print(f"{advance.done}/{advance.total} {advance.latest.name} {left}")

        yield tell
