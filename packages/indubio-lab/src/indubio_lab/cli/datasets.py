"""`indubio datasets`: the public collections, whether they are here, and how to get them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from indubio_lab.collections import Collection

datasets = typer.Typer(help="List the public collections, or fetch one.", invoke_without_command=True)

Folder = Annotated[
    Path | None, typer.Option("--folder", help="Look here first (default: the folder that INDUBIO_DATA names).")
]


@datasets.callback()
def list_datasets(context: typer.Context, folder: Folder = None) -> None:
    """List the collections with sizes, sources, licences and whether they are here."""
    if context.invoked_subcommand is not None:
        return
    from rich.table import Table
    from rich.text import Text

    from indubio.cli import terminal
    from indubio_lab.collections import DATASETS, cache_folder, data_folder

    console = terminal()
    for name, collection in DATASETS.items():
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_row("tasks", ", ".join(collection.tasks))
        table.add_row("here", _presence(collection, folder))
        table.add_row("source", ", ".join(collection.sources))
        table.add_row("licence", collection.licence)
        table.add_row("cite", collection.citation)
        console.print(Text.assemble((name, "bold"), "  ", collection.title))
        console.print(table)
        console.print()
    local = data_folder(folder)
    console.print(f"local folder: {local or 'none (set INDUBIO_DATA)'}", soft_wrap=True)
    console.print(f"cache: {cache_folder()}", soft_wrap=True)


@datasets.command("fetch")
def fetch_dataset(
    name: Annotated[str, typer.Argument(help="odds, zema, strath or adbench.")],
    folder: Folder = None,
) -> None:
    """Download what is not here yet of a collection into the cache, with checksums."""
    from indubio.cli import terminal
    from indubio_lab.collections import DATASETS, fetch, find

    if name not in DATASETS:
        raise typer.BadParameter(f"there is no collection {name!r}; there are {', '.join(DATASETS)}.")
    console = terminal()
    files = DATASETS[name].files
    wanted = [file for file in files if find(file, folder) is None]
    for file in wanted:
        console.print(str(fetch(file, folder=folder)), soft_wrap=True)
    console.print(f"{name}: {len(files) - len(wanted)} files were here, {len(wanted)} fetched.")


def _presence(collection: "Collection", folder: Path | None) -> str:
    from indubio_lab.collections import find

    here = [file for file in collection.files if find(file, folder) is not None]
    sizes = [file.size for file in collection.files]
    known = sum(size for size in sizes if size is not None)
    more = ", some sizes not known" if None in sizes else ""
    return f"{len(here)} of {len(collection.files)} files ({known / 1e6:.1f} MB{more})"
