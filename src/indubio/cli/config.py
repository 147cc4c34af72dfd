"""`indubio config`: the default configuration as commented TOML, or a check of one."""

from pathlib import Path
from typing import Annotated

import typer


def config(
    check: Annotated[Path | None, typer.Option(help="Check this TOML file instead of printing the default.")] = None,
) -> None:
    """Print the default configuration as commented TOML, or check one."""
    from indubio.cli.config_file import detector_of, read_config, reading_of
    from indubio.cli.default_toml import default_toml

    if check is None:
        typer.echo(default_toml(), nl=False)
        return
    given = read_config(check)
    detector_of(given, check)
    reading_of(given)
    typer.echo(f"{check}: fine.")
