"""`indubio mcp`: models and the review queue for assistants, read-only."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from indubio.errors import MissingExtraError
from indubio_server.cli.server_options import DATABASE, database_url

if TYPE_CHECKING:
    from indubio_server.store import Database


def mcp(
    model: Annotated[list[str], typer.Option("--model", "-m", help="Folder of a model, or NAME=FOLDER; repeatable.")],
    folder: Annotated[
        Path | None, typer.Option(help="CSV and Parquet files within it may be assessed; default: none.")
    ] = None,
    db: Annotated[str | None, DATABASE] = None,
    state: Annotated[
        Path | None, typer.Option(help="Folder of `indubio serve`, whose queue may be read; default: none.")
    ] = None,
    most_rows: Annotated[int, typer.Option(min=1, help="Rows of one question, or examples of a file.")] = 10_000,
    largest_file: Annotated[int, typer.Option(min=1, help="Bytes a file may have.")] = 50 * 2**20,
) -> None:
    """Let an assistant look at models, verdicts, reasons and the review queue: the Model Context Protocol over stdio.

    Nothing is ever written: the database is opened read-only, no case is claimed, and files are read from --folder
    alone.
    """
    from indubio_server.cli.serve import model_sources

    try:
        from indubio_server.mcp import mcp_app
    except MissingExtraError:
        raise
    except ImportError:
        raise MissingExtraError('the MCP server needs the mcp extra: pip install "indubio[mcp]".') from None
    from indubio_server.mcp import ExampleFiles, ReadOnlyModels

    files = ExampleFiles(folder, largest_file)
    mcp_app(ReadOnlyModels(model_sources(model), files, most_rows, _database(db, state))).run("stdio")


def _database(db: str | None, state: Path | None) -> "Database | None":
    """The server's database, opened read-only; refused where its tables are not those of this version."""
    if db is None and state is None:
        return None
    from indubio_server.store import Database

    database = Database(database_url(db, state or Path()), read_only=True)
    database.require_current()
    return database
