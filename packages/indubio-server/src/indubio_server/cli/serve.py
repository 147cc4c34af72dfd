"""`indubio serve`: scoring over HTTP, with a review queue and an audit trail."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from indubio.cli import ConfigFile, Configures, Gives, set_option
from indubio_server.cli.server_options import DATABASE, STATE, opened, who

if TYPE_CHECKING:
    from indubio_server.oidc_login import OidcLogin


def serve(
    context: typer.Context,
    model: Annotated[list[str], typer.Option("--model", "-m", help="Folder of a model, or NAME=FOLDER; repeatable.")],
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[Path, STATE] = Path("indubio-state"),
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    open_: Annotated[
        bool,
        typer.Option("--open", help="Make no key: while there is none, this machine may do everything."),
        Gives("open"),
    ] = False,
    control_share: Annotated[
        float | None, typer.Option(help="Share of the other verdicts that people see too, for control (0.02; 0: none).")
    ] = None,
    referrals_per_hour: Annotated[
        int | None, typer.Option(help="Referrals beyond so many an hour are marked as overflow.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Of the review pages: en, de, or auto, which follows each browser.")
    ] = None,
    training: Annotated[
        list[str] | None,
        typer.Option(help="File of good examples that a model can be trained anew on, or NAME=FILE; repeatable."),
    ] = None,
    sha256: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]HEX",
            help="A model must have this checksum, which `inspect` shows; repeatable.",
        ),
    ] = None,
    plant: Annotated[
        Path | None, typer.Option(help="TOML file that says which machines stand in which line of which site.")
    ] = None,
    oidc: Annotated[
        Path | None, typer.Option(help="TOML file of a provider that people log in with, beside the keys.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate, in PEM.")] = None,
    private_key: Annotated[Path | None, typer.Option(help="Its private key, in PEM.")] = None,
    config: ConfigFile = None,
    changes: Annotated[
        list[str] | None,
        set_option("serve", "most_rows=1000", config=True),
        Configures("indubio_server.server_settings:ServerSettings"),
    ] = None,
) -> None:
    """Serve models over HTTP: scoring, the review queue and an audit trail. Stop it with Ctrl-C.

    The first start makes a key for an admin and prints it, once.

    Such as: indubio serve --model press=model --training press=good.csv
    """
    with opened(db, state) as store:
        from indubio.cli import settings_told
        from indubio_server.http import is_loopback
        from indubio_server.server_settings import ServerSettings
        from indubio_server.store import count_keys, first_key

        login = None if oidc is None else _login(oidc)
        settings = settings_told(context, ServerSettings, config)
        if settings.open and not is_loopback(host) and login is None and not store.read(count_keys):
            raise typer.BadParameter(
                f"--open without a key listens on this machine only, not at {host}. Leave it out, or make a key first: "
                "indubio keys add NAME --role admin."
            )
        from indubio_server.app import build_app
        from indubio_server.http import log_to_stderr
        from indubio_server.plant import PlantFile
        from indubio_server.process import configured, run
        from indubio_server.service import Service

        log_to_stderr()
        sources = model_sources(model)
        pinned = _named("--sha256", sha256 or [], sources)
        trained_on = _training(training or [], sources)
        service = Service(store, sources, state, settings, trained_on, pinned, plant=PlantFile(plant), login=login)
        if login is None and not settings.open and (key := store.write(lambda c: first_key(c, actor=who()))):
            typer.echo(f"The key of the admin, which is shown only now: {key}")
        try:
            pem: dict[str, Any] = {"ssl_certfile": certificate, "ssl_keyfile": private_key}
            run(configured(build_app(service), host=host, port=port, settings=settings, **pem))
        finally:
            service.close()


def _login(path: Path) -> "OidcLogin":
    from indubio.errors import MissingExtraError

    try:
        import authlib  # noqa: F401
        import httpx2  # noqa: F401
    except ImportError:
        raise MissingExtraError('logging in by OIDC needs the oidc extra: pip install "indubio[oidc]".') from None
    from indubio_server.oidc_login import OidcLogin

    return OidcLogin.read(path)


def model_sources(given: list[str]) -> dict[str, Path]:
    """The folders or files of models by name, from options FOLDER or NAME=FOLDER."""
    sources: dict[str, Path] = {}
    for one in given:
        name, equals, path = one.partition("=")
        folder = Path(path if equals else one)
        name = name if equals else folder.resolve().stem
        if not name or not all(letter.isalnum() or letter in "_.-" for letter in name) or not name.isascii():
            raise typer.BadParameter(
                f"{name!r} is no name for a model: use letters, digits, _ . and -, as NAME=FOLDER."
            )
        if name in sources:
            raise typer.BadParameter(f"two models are named {name!r}: name them as NAME=FOLDER.")
        sources[name] = folder
    return sources


def _training(given: list[str], sources: dict[str, Path]) -> dict[str, Path]:
    files = {name: Path(path) for name, path in _named("--training", given, sources).items()}
    for path in files.values():
        if not path.exists():
            raise typer.BadParameter(f"--training: there is no file {path}.")
    return files


def _named(flag: str, given: list[str], sources: dict[str, Path]) -> dict[str, str]:
    """Values given as NAME=VALUE, or as VALUE where there is one model."""
    values: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals and len(sources) == 1:
            name, value = next(iter(sources)), one
        if name not in sources:
            known = ", ".join(sources)
            raise typer.BadParameter(f"{flag} {one}: say of which model, as NAME=...; there are {known}.")
        values[name] = value
    return values
