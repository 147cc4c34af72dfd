"""`indubio keys`: API keys of the server."""

from pathlib import Path
from typing import Annotated

import typer

from indubio.cli.server_options import DATABASE, STATE, RoleChoice, opened, who

keys = typer.Typer(
    help="API keys of the server: made, listed, taken back. Only their hashes are kept.", no_args_is_help=True
)


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Who gets the key; the audit trail calls them so.")],
    role: Annotated[RoleChoice, typer.Option(help="scorer: assess; reviewer: label; admin: everything.")],
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
) -> None:
    """Make a key and print it; it is shown only now."""
    with opened(db, state) as store:
        from indubio.server.store.keys import Role, add_key

        typer.echo(store.write(lambda c: add_key(c, name, Role(role.value), actor=who())))


@keys.command("list")
def listed(
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List all keys, with roles and dates."""
    from indubio.io.json_text import json_text

    with opened(db, state) as store:
        from indubio.server.store.keys import all_keys

        known = store.read(all_keys)
    if as_json:
        plain = [{"name": k.name, "role": k.role, "made": k.at.isoformat(), "in_use": k.revoked is None} for k in known]
        typer.echo(json_text({"keys": plain}))
        return
    from rich.table import Table

    from indubio.cli.terminal import terminal

    table = Table("name", "role", "made", "revoked")
    for key in known:
        table.add_row(
            key.name, key.role, f"{key.at:%Y-%m-%d %H:%M}", f"{key.revoked:%Y-%m-%d %H:%M}" if key.revoked else ""
        )
    terminal().print(table)


@keys.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="Whose key.")],
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
) -> None:
    """Take a key back; a running server follows within seconds."""
    with opened(db, state) as store:
        from indubio.server.store.keys import revoke_key

        store.write(lambda c: revoke_key(c, name, actor=who()))
    typer.echo(f"{name}: revoked.", err=True)
