"""The command line: one file per command, and what the commands of other packages are made of."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from indubio.cli.exit_codes import ExitCode
from indubio.cli.flags import Configures, Gives
from indubio.cli.interruption import interruptible
from indubio.cli.options import (
    Anomaly,
    Categorical,
    Columns,
    ConfigFile,
    Exclude,
    Group,
    Ids,
    Json,
    Label,
    Rate,
    Step,
    Time,
    Window,
    WorkersOption,
    set_option,
)
from indubio.errors import IndubioError

if TYPE_CHECKING:
    from indubio.cli.command_settings import WorkSettings
    from indubio.cli.consoles import terminal
    from indubio.cli.default_toml import written_toml
    from indubio.cli.file_words import tell_files
    from indubio.cli.label_words import tell_training_labels
    from indubio.cli.told_settings import in_file, settings_told
    from indubio.cli.unused_columns import tell_unused

__all__ = [
    "Anomaly",
    "Categorical",
    "Columns",
    "ConfigFile",
    "Configures",
    "Exclude",
    "ExitCode",
    "Gives",
    "Group",
    "Ids",
    "Json",
    "Label",
    "Rate",
    "Step",
    "Time",
    "Window",
    "WorkSettings",
    "WorkersOption",
    "in_file",
    "main",
    "set_option",
    "settings_told",
    "tell_files",
    "tell_training_labels",
    "tell_unused",
    "terminal",
    "written_toml",
]

_LATER = {  # what loads much: imported when a command runs, not when it is asked for its help
    "WorkSettings": "indubio.cli.command_settings",
    "in_file": "indubio.cli.told_settings",
    "settings_told": "indubio.cli.told_settings",
    "tell_files": "indubio.cli.file_words",
    "tell_training_labels": "indubio.cli.label_words",
    "tell_unused": "indubio.cli.unused_columns",
    "terminal": "indubio.cli.consoles",
    "written_toml": "indubio.cli.default_toml",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'indubio.cli' has no attribute {name!r}")


def main() -> None:
    """Run the command line; an error of ours is one line on stderr, without a traceback unless `--debug` is given."""
    from indubio.cli.app import app  # imports every command, of other packages too, which import what is above

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
        from indubio.cli.consoles import terminal
        from indubio.cli.told_settings import ConfigFileError

        told = str(error) if isinstance(error, ConfigFileError) else by_flags(str(error), sys.argv[1])
        said = Text.assemble((f"{type(error).__name__}:", "bold red"), " ", told)
        terminal(stderr=True).print(said, soft_wrap=True)
        raise SystemExit(ExitCode.FAILED) from None
