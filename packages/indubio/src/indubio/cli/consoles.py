"""The console that all commands print to: text as it is, for names of files and columns may look like markup."""

from typing import Any

from rich.console import Console
from rich.text import Text


class Terminal(Console):
    """A console whose sentences are broken between words where a person reads them, and are whole lines elsewhere."""

    def print(self, *objects: Any, soft_wrap: bool | None = None, **how: Any) -> None:
        """Print; with `soft_wrap` a sentence, which programs that read it want in one line."""
        super().print(*objects, soft_wrap=bool(soft_wrap) and not self.is_terminal, **how)

    def print_next(self, command: str) -> None:
        """The command that goes on from here, in one line that can be copied."""
        line = Text("Next: ", style="bold").append(command, style="not bold cyan")
        super().print(line, soft_wrap=True)


def terminal(*, stderr: bool = False) -> Terminal:
    """A console that neither reads markup in what it prints nor colours numbers and paths; NO_COLOR is honoured."""
    return Terminal(stderr=stderr, markup=False, highlight=False)
