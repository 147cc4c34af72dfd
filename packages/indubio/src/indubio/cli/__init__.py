"""The command line: one file per command."""

import sys

from indubio.cli.app import app
from indubio.cli.exit_codes import ExitCode
from indubio.cli.interruption import interruptible
from indubio.errors import IndubioError


def main() -> None:
    """Run the command line; an error of ours is one line on stderr, without a traceback unless `--debug` is given."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        with interruptible():
            app()
    except IndubioError as error:
        if debug:
            raise
        from rich.text import Text

        from indubio.cli.by_flags import by_flags
        from indubio.cli.terminal import terminal
        from indubio.cli.told_settings import ConfigFileError

        told = str(error) if isinstance(error, ConfigFileError) else by_flags(str(error), sys.argv[1])
        said = Text.assemble((f"{type(error).__name__}:", "bold red"), " ", told)
        terminal(stderr=True).print(said, soft_wrap=True)
        raise SystemExit(ExitCode.FAILED) from None
