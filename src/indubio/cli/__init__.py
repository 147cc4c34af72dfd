"""The command line: one file per command."""

import sys

from indubio.cli.app import app
from indubio.errors import IndubioError


def main() -> None:
    """Run the command line; an error of ours is one line on stderr, without a traceback unless `--debug` is given."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        app()
    except IndubioError as error:
        if debug:
            raise
        from rich.console import Console

        Console(stderr=True).print(f"[bold red]{type(error).__name__}:[/] {error}", highlight=False, soft_wrap=True)
        raise SystemExit(1) from None
