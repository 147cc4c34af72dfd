"""`indubio keys`: API keys of the server."""

from pathlib import Path
from typing import Annotated

import typer

from indubio_server.cli.server_options import DATABASE, STATE, RoleChoice, opened, who

keys = typer.Typer(
    help="API keys of the server: made, listed, taken back. Only their hashes are kept.", no_args_is_help=True
)


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Who gets the key; the audit trail calls them so.")],
    role: Annotated[
        RoleChoice, typer.Option(help="metrics: read /metrics; scorer: assess; reviewer: label; admin: everything.")
    ],
    site: Annotated[
        list[str] | None, typer.Option(help="Only for machines of this site of the plant; repeatable. None: all sites.")
    ] = None,
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
) -> None:
    """Make a key and print it; it is shown only now."""
    with opened(db, state) as store:
        from indubio_server.store import Role, add_key

        typer.echo(store.write(lambda c: add_key(c, name, Role(role.value), sites=site or None, actor=who())))


@keys.command("list")
def listed(
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List all keys, with roles and dates."""
    from indubio.io import json_text

    with opened(db, state) as store:
        from indubio_server.store import all_keys

        known = store.read(all_keys)
    if as_json:
        plain = [
            {
                "name": key.name,
                "role": key.role,
                "sites": None if key.sites is None else sorted(key.sites),
                "made": key.at.isoformat(),
                "in_use": key.revoked is None,
            }
            for key in known
        ]
        typer.echo(json_text({"keys": plain}))
        return
    from rich.table import Table

    from indubio.cli import terminal

    table = Table("name", "role", "sites", "made", "revoked")
    for key in known:
        table.add_row(
            key.name,
            key.role,
            "all" if key.sites is None else ", ".join(sorted(key.sites)),
            f"{key.at:%Y-%m-%d %H:%M}",
            f"{key.revoked:%Y-%m-%d %H:%M}" if key.revoked else "",
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
        from indubio_server.store import revoke_key

        store.write(lambda c: revoke_key(c, name, actor=who()))
    typer.echo(f"{name}: revoked.", err=True)


@keys.command("logout")
def logout(
    name: Annotated[str, typer.Argument(help="Name of a key, or oidc:NAME for a person who logs in without one.")],
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
) -> None:
    """End all sessions of somebody at once; a key can still be used, and a person can log in again."""
    with opened(db, state) as store:
        from indubio_server.store import end_sessions

        ended = store.write(lambda c: end_sessions(c, name, actor=who()))
    typer.echo(f"{name}: {ended} sessions ended.", err=True)
