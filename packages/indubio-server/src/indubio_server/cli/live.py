"""`indubio live`: values of machines in by MQTT, verdicts and alarms out."""

from pathlib import Path
from typing import Annotated

import typer

from indubio.errors import MissingExtraError, NotFoundError
from indubio_server.cli.server_options import DATABASE, STATE, opened, who

live = typer.Typer(invoke_without_command=True, no_args_is_help=False)
outbox = typer.Typer(no_args_is_help=True)
live.add_typer(outbox, name="outbox", help="Events that wait for the webhook or the broker.")


@live.callback()
def run(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="TOML file: the broker, the topics, where alarms go.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Folder of the model, or NAME=FOLDER.")] = None,
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Answer /metrics and /health there; port 0 takes a free one."),
    ] = None,
) -> None:
    """Judge machines as their values come in over MQTT, and raise alarms. Stop it with Ctrl-C.

    Windows are cut as the model's folder says, so a verdict is the one that `indubio assess` gives for the same values
    in a file. A message is acknowledged when it is durable; a verdict is in the store exactly once. The database may
    be that of `indubio serve`, which shows the cases and alarms.
    """
    if context.invoked_subcommand is not None:
        return
    if config is None or model is None:
        raise typer.BadParameter("give --config FILE and --model FOLDER; see `indubio live --help`.")
    from indubio_server.cli.serve import model_sources

    address = None if metrics is None else _address(metrics)
    with opened(db, state) as store:
        try:
            from indubio_server.live import run_live
        except ImportError:
            raise MissingExtraError('live data needs the live extra: pip install "indubio[live]".') from None
        from indubio.io import read_toml
        from indubio_server.http import log_to_stderr
        from indubio_server.live import live_settings

        log_to_stderr()
        run_live(store, model_sources([model]), state, live_settings(read_toml(config)), address)


@outbox.command("list")
def list_outbox(
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
    dead: Annotated[bool, typer.Option("--dead", help="Only those that were given up.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
) -> None:
    """List what waits, the oldest first: one line of JSON each."""
    from indubio.io import json_text

    with opened(db, state) as store:
        from indubio_server.store import all_events

        for one in store.read(lambda c: all_events(c, dead=True if dead else None, limit=limit)):
            plain = one.__dict__ | {"at": one.at.isoformat(), "due": one.due.isoformat()}
            typer.echo(json_text(plain, compact=True))


@outbox.command("retry")
def retry_outbox(
    event: Annotated[str | None, typer.Argument(help="Id of a dead event; all of them where it is left out.")] = None,
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
) -> None:
    """Try dead events again, with all their attempts."""
    with opened(db, state) as store:
        from indubio_server.store import retry_dead

        count = store.write(lambda c: retry_dead(c, event, actor=who()))
        if event is not None and not count:
            raise NotFoundError(f"there is no dead event {event!r}: see `indubio live outbox list --dead`.")
        typer.echo(f"{count} events are tried again")


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(f"--metrics takes HOST:PORT, as 127.0.0.1:9464, got {text!r}.")
    return host, int(port)
