"""The `indubio` command and the list of its subcommands: ours, and those of other installed packages.

A package joins with an entry point whose value is a function, or a `typer.Typer` with subcommands of its own:

    [project.entry-points."indubio.commands"]
    serve = "indubio_server.cli.serve:serve"
"""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from indubio import __version__
from indubio.cli import assess, check, config, demo, evaluate, export, fit, inspect, learn, report, update
from indubio.cli.exit_codes import exit_codes
from indubio.errors import ConfigError, MissingExtraError
from indubio.families import installed

app = typer.Typer(
    name="indubio",
    help="Anomaly detection that knows when it is in doubt. Add --debug to see tracebacks.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=exit_codes(),
)

OWN: dict[str, dict[str, Callable[..., Any]]] = {  # by what they are for
    "From a file to verdicts": {
        "demo": demo.demo,
        "check": check.check,
        "fit": fit.fit,
        "assess": assess.assess,
        "report": report.report,
        "evaluate": evaluate.evaluate,
    },
    "Models": {
        "inspect": inspect.inspect,
        "update": update.update,
        "learn": learn.learn,
        "config": config.config,
        "export": export.export,
    },
}
# Commands of packages that can be installed beside this one, by the extra that brings them.
ELSEWHERE = {
    "server": ("serve", "live", "mcp", "keys", "audit"),
    "lab": ("tune", "benchmark", "reproduce", "datasets"),
}
PANELS = {"server": "In a plant", "lab": "Compare and reproduce"}


def _missing(name: str, extra: str) -> Callable[..., None]:
    """A command that says which install brings it."""

    def tell() -> None:
        raise MissingExtraError(f'`indubio {name}` needs the {extra}: pip install "indubio[{extra}]".')

    return tell


def _add_installed() -> None:
    """Add what other packages bring; in place of what is missing stands a command that says how to get it."""
    brought = {entry.name: entry for entry in installed("indubio.commands")}
    own = {name for commands in OWN.values() for name in commands}
    if taken := sorted(own & brought.keys()):
        raise ConfigError(
            f"an installed package brings commands that indubio has itself: {', '.join(taken)}. Remove it."
        )
    for extra, names in ELSEWHERE.items():
        for name in names:
            if name in brought:
                _add(name, brought.pop(name).load(), PANELS[extra])
                continue
            ignored = {"allow_extra_args": True, "ignore_unknown_options": True}
            app.command(name, hidden=True, context_settings=ignored, add_help_option=False)(_missing(name, extra))
    for name, entry in sorted(brought.items()):
        _add(name, entry.load(), "Of other packages")


def _add(name: str, command: Any, panel: str) -> None:
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, rich_help_panel=panel)
    else:
        app.command(name, rich_help_panel=panel)(command)


for _panel, _commands in OWN.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_panel)(_command)
_add_installed()


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"indubio {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Anomaly detection that knows when it is in doubt."""
    del version
