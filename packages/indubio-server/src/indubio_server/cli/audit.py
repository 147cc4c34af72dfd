"""`indubio audit`: verify, export and anchor the audit trail."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from indubio.cli import ExitCode
from indubio_server.cli.server_options import DATABASE, STATE, opened, require_server

if TYPE_CHECKING:
    from indubio_server.store import Head

audit = typer.Typer(
    help="The server's audit trail: verified, exported, its head to keep elsewhere.", no_args_is_help=True
)
UNPROVEN_WORDS = "nothing was changed, but the end is not proven: no head that was kept elsewhere was given"


@audit.command("verify")
def verified(
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
    anchor_file: Annotated[
        list[Path] | None,
        typer.Option(
            "--anchor-file",
            "--anchor",
            help="File with heads that were kept; repeatable. The one in --state is read too, where there is one.",
        ),
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="A head that was kept elsewhere, as `indubio audit head` prints it.")
    ] = None,
    stamp: Annotated[Path | None, typer.Option(help="A time stamp authority's reply for --head.")] = None,
    stamp_ca: Annotated[
        Path | None, typer.Option(help="Certificates of the authority that are trusted, in PEM.")
    ] = None,
    files: Annotated[
        bool, typer.Option("--files/--no-files", help="Compare the files of all model versions too.")
    ] = True,
    export: Annotated[Path | None, typer.Option(help="Verify an exported file instead of a database.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Find whatever was changed, removed, moved or cut off: exit code 4.

    Exit code 5: nothing was found, but no head that was kept elsewhere shows that the end is there.
    """
    from indubio.io import json_text

    if stamp is not None and (head is None or stamp_ca is None):
        raise typer.BadParameter("--stamp is checked against --head NUMBER:HASH and --stamp-ca FILE: give both.")
    if export is not None:
        from indubio_server.store import verify_export

        with export.open("rb") as file:
            count, findings = verify_export(file)
        summary: dict[str, object] = {"entries": count}
        proven: int | None = None
    else:
        summary, findings, proven = _database_verified(db, state, anchor_file or [], head, files=files)
    if stamp is not None and head is not None and stamp_ca is not None:
        from indubio_server.store import stamp_finding, stamped_at

        wrong = stamp_finding(_head(head), stamp, stamp_ca)
        findings = (*findings, *([] if wrong is None else [wrong]))
        summary |= {} if wrong is not None else {"stamped": stamped_at(stamp)}
    unproven = not findings and proven == 0
    if as_json:
        told = {"whole": not findings, "end_proven": not findings and not unproven, "findings": list(findings)}
        typer.echo(json_text(summary | told))
    else:
        for finding in findings:
            typer.echo(finding)
        stamped = summary.pop("stamped", None)
        words = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in summary.items())
        words += "" if stamped is None else f", stamped {stamped}"
        typer.echo(f"{words}: {'NOT whole' if findings else UNPROVEN_WORDS if unproven else 'whole'}.")
    if findings or unproven:
        raise typer.Exit(ExitCode.INCOMPLETE if findings else ExitCode.UNPROVEN)


def _database_verified(
    db: str | None, state: Path, anchor_files: list[Path], head: str | None, *, files: bool
) -> "tuple[dict[str, object], tuple[str, ...], int]":
    """What there is, what was found, and up to which entry the trail is proven."""
    kept = [] if head is None else [_head(head)]
    with require_server():
        from indubio_server.service import ANCHOR
        from indubio_server.store import ChangedVersionError, read_anchors, verify

    wrong: list[str] = []
    own = [state / ANCHOR] if (state / ANCHOR).exists() else []
    for path in [*own, *anchor_files]:
        if not path.is_file():
            raise typer.BadParameter(f"--anchor-file {path}: there is no such file.")
        read = read_anchors(path)
        kept += read.heads
        wrong += read.findings
    try:
        with opened(db, state, existing=True) as store:
            found = store.read(lambda c: verify(c, kept, files=files, archive=state / "models"))
    except ChangedVersionError as error:
        return {"entries": 0}, (*wrong, str(error)), 0
    summary: dict[str, object] = {
        "entries": found.head.seq,
        "verdicts": found.verdicts,
        "cases": found.cases,
        "reviews": found.reviews,
        "anchors": len(kept),
        "entries_proven": found.proven,
    }
    return summary, (*wrong, *found.findings), found.proven


@audit.command("export")
def exported(
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON lines file to write.")],
    after: Annotated[int, typer.Option(min=0, help="Only entries with a higher number.")] = 0,
    until_entry: Annotated[int | None, typer.Option(min=1, help="Only entries up to this number.")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="From the first entry of this time or later on, as 2026-08-01 or 2026-08-01T06:00:00+02:00."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Up to the last entry before this time.")] = None,
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
) -> None:
    """Write a run of entries, without holes; `indubio audit verify --export FILE` verifies it by itself."""
    chosen = {"since": _moment(since), "before": _moment(until)}
    with opened(db, state, existing=True) as store:
        from indubio.io import whole_file
        from indubio_server.store import export

        count = -2  # a line before the entries, and one after them
        with store.database.reading() as connection, whole_file(str(out)) as file:
            for line in export(connection, after=after, until=until_entry, **chosen):
                file.write(line)
                count += 1
    typer.echo(f"{out}: {count} entries.", err=True)


@audit.command("head")
def print_head(
    db: Annotated[str | None, DATABASE] = None, state: Annotated[Path, STATE] = Path("indubio-state")
) -> None:
    """Print the number and hash of the last entry, to keep where nobody can change it."""
    with opened(db, state, existing=True) as store:
        from indubio_server.store import head

        end = store.read(head)
    typer.echo(f"{end.seq}:{end.hash}")


@audit.command("stamp")
def stamp_head(
    out: Annotated[Path, typer.Option("--out", "-o", help="Request to write, for a time stamp authority (RFC 3161).")],
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
) -> None:
    """Write a request for a time stamp of the last entry, and print the head that it is of."""
    with opened(db, state, existing=True) as store:
        from indubio.io import whole_file
        from indubio_server.store import head, stamp_request

        end = store.read(head)
    request = stamp_request(end)
    with whole_file(str(out)) as file:
        file.write(request)
    typer.echo(f"{end.seq}:{end.hash}")


def _head(text: str) -> "Head":
    from indubio_server.store import Head

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
