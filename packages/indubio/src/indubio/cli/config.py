"""`indubio config`: the settings of a command as commented TOML, or a check of a file of them."""

from pathlib import Path
from typing import Annotated

import typer


def config(
    of: Annotated[
        str, typer.Argument(help="A command, or a table whose kinds to show, such as posterior or referral.")
    ] = "fit",
    check: Annotated[
        Path | None, typer.Option(help="Check this TOML file for the command instead of printing its settings.")
    ] = None,
) -> None:
    """Print the settings of a command with their defaults and what they mean, or check a file of them."""
    from indubio.cli.default_toml import default_toml, table_toml
    from indubio.cli.flags import commands_with_settings
    from indubio.cli.told_settings import in_file
    from indubio.configuration import FAMILIES
    from indubio.errors import quoted

    commands = commands_with_settings()
    if of in FAMILIES and check is None:
        typer.echo(table_toml(of), nl=False)
        return
    if of not in commands:
        raise typer.BadParameter(f"{of!r} is no command with settings, and no table: {quoted([*commands, *FAMILIES])}.")
    if check is None:
        typer.echo(default_toml(commands[of], of), nl=False)
        return
    in_file(commands[of], check)
    typer.echo(f"{check}: fine.")
