"""`indubio audit`: verify, export and anchor the audit trail."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from indubio.cli.exit_codes import ExitCode
from indubio.cli.server_options import DATABASE, STATE, opened

if TYPE_CHECKING:
    from indubio.server.store.audit_trail import Head

audit = typer.Typer(
    help="The server's audit trail: verified, exported, its head to keep elsewhere.", no_args_is_help=True
)


@audit.command("verify")
def verified(
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
    anchor: Annotated[
        Path | None,
        typer.Option(help="File with heads that were kept; default: the one in --state, where there is one."),
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="A head that was kept elsewhere, as `indubio audit head` prints it.")
    ] = None,
    export: Annotated[Path | None, typer.Option(help="Verify an exported file instead of a database.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Find whatever was changed, removed, moved or cut off; exit code 4 where there is any."""
    from indubio.io.json_text import json_text

    if export is not None:
        from indubio.server.store.verification import verify_export

        with export.open("rb") as file:
            count, findings = verify_export(file)
        summary: dict[str, object] = {"entries": count}
    else:
        with opened(db, state) as store:
            from indubio.server.service import ANCHOR
            from indubio.server.store.verification import read_anchors, verify

            path = anchor or state / ANCHOR
            heads = read_anchors(path) if anchor is not None or path.exists() else []
            heads += [_head(head)] if head is not None else []
            verification = store.read(lambda c: verify(c, heads))
        findings = verification.findings
        summary = {
            "entries": verification.head.seq,
            "verdicts": verification.verdicts,
            "cases": verification.cases,
            "reviews": verification.reviews,
            "anchors": len(heads),
        }
    if as_json:
        typer.echo(json_text(summary | {"whole": not findings, "findings": list(findings)}))
    else:
        for finding in findings:
            typer.echo(finding)
        words = ", ".join(f"{count} {name}" for name, count in summary.items())
        typer.echo(f"{words}: {'NOT whole' if findings else 'whole'}.")
    if findings:
        raise typer.Exit(ExitCode.INCOMPLETE)


@audit.command("export")
def exported(
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON lines file to write.")],
    since: Annotated[
        str | None, typer.Option(help="From this time on, as 2026-08-01 or 2026-08-01T06:00:00+02:00.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before this time.")] = None,
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
) -> None:
    """Write the entries of a period; `indubio audit verify --export FILE` verifies them by themselves."""
    with opened(db, state) as store:
        from indubio.io.whole_files import whole_file
        from indubio.server.store.verification import export

        count = -1
        with store.database.reading() as connection, whole_file(str(out)) as file:
            for line in export(connection, since=_moment(since), until=_moment(until)):
                file.write(line)
                count += 1
    typer.echo(f"{out}: {max(count, 0)} entries.", err=True)


@audit.command("head")
def print_head(
    db: Annotated[str | None, DATABASE] = None, state: Annotated[Path, STATE] = Path("indubio-state")
) -> None:
    """Print the number and hash of the last entry, to keep where nobody can change it."""
    with opened(db, state) as store:
        from indubio.server.store.audit_trail import head

        end = store.read(head)
    typer.echo(f"{end.seq}:{end.hash}")


def _head(text: str) -> "Head":
    from indubio.server.store.audit_trail import Head

    number, _, hash_ = text.partition(":")
    if not number.isdecimal() or len(hash_) != 64:
        raise typer.BadParameter(f"--head takes NUMBER:HASH, as `indubio audit head` prints it, got {text!r}.")
    return Head(seq=int(number), hash=hash_)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time: write 2026-08-01 or 2026-08-01T06:00:00+02:00.") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
