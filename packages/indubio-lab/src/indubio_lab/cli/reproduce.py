"""`indubio reproduce`: the paper's experiments, its tables and figures, and our numbers beside its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from indubio.cli import Configures, WorkersOption, set_option
from indubio.errors import TrainingError

if TYPE_CHECKING:
    from indubio_lab.paper import CollectionName


def reproduce(
    context: typer.Context,
    collection: Annotated[
        Literal["odds", "zema", "strath", "all"], typer.Argument(help="Which of the paper's collections.")
    ] = "all",
    protocol: Annotated[
        Literal["text", "authors"], typer.Option(help="Settings of the text or of the authors' scripts.")
    ] = "text",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of every task and model.")] = 10,
    model: Annotated[list[str] | None, typer.Option("--models", help="May be repeated; default: all.")] = None,
    task: Annotated[list[str] | None, typer.Option("--tasks", help="May be repeated; default: all.")] = None,
    sensors: Annotated[
        list[str] | None,
        typer.Option(help='ZeMA: "text", "authors", "fits" (chosen on test labels), or a sensor.'),
    ] = None,
    variants: Annotated[
        list[str] | None,
        typer.Option(help='Settings changed, such as "training.epochs=300+architecture.activation=selu"; "-" is none.'),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of results; a run goes on where the last one stopped.")] = Path(
        "results"
    ),
    workers: WorkersOption = None,
    quick: Annotated[bool, typer.Option(help="2 seeds of small tasks: a look in about a minute.")] = False,
    remake: Annotated[bool, typer.Option(help="Train nothing: tables and figures from what is there.")] = False,
    figures: Annotated[bool, typer.Option(help="Make the figures.")] = True,
    data: Annotated[Path | None, typer.Option(help="Folder with the collections (default: INDUBIO_DATA).")] = None,
    changes: Annotated[
        list[str] | None,
        set_option("reproduce", "workers.cluster=tcp://host:8786"),
        Configures("indubio.cli.command_settings:WorkSettings"),
    ] = None,
) -> None:
    """Run the paper's experiments and write tables and figures with the paper's numbers beside ours."""
    from indubio.cli import WorkSettings, settings_told, terminal
    from indubio.workers import Workers
    from indubio_lab.cli.cell_bar import cell_bar
    from indubio_lab.grids import run_grid
    from indubio_lab.paper import CellStore, experiments, quick_grid, write_results

    hands = settings_told(context, WorkSettings).workers or Workers()
    chosen: list[CollectionName] = ["odds", "zema", "strath"] if collection == "all" else [collection]
    cells = quick_grid(
        chosen,
        quick=quick,
        protocols=[protocol],
        models=model,
        tasks=task,
        sensors=sensors,
        variants=variants,
        seeds=range(seeds),
        folder=None if data is None else str(data),
    )
    store, failed = CellStore(out), None
    if not remake:
        try:
            with cell_bar() as tell:
                run_grid(cells, store, workers=hands, tell=tell)
        except TrainingError as error:  # some cells could not be trained: the pages are of the others, and name them
            failed = error
    made = experiments(cells, store)
    written = write_results(made, store, out, figures=figures)
    console = terminal()
    for path in written:
        console.print(str(path), soft_wrap=True)
    if failed is not None:
        raise failed
