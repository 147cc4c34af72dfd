"""The console that all commands print to: text as it is, for names of files and columns may look like markup."""

from rich.console import Console


def terminal(*, stderr: bool = False) -> Console:
    """A console that neither reads markup in what it prints nor colours numbers and paths."""
    return Console(stderr=stderr, markup=False, highlight=False)
