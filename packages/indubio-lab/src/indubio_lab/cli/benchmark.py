"""`indubio benchmark`: detectors compared on many sets, ours and other packages'."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from indubio.cli import Configures, Json, WorkersOption, set_option
from indubio.errors import ConfigError, TrainingError, quoted

if TYPE_CHECKING:
    from rich.console import Console

    from indubio.detector import Detector
    from indubio.report import Sheet
    from indubio_lab.benchmark import Standings

# Of the tables what fits on a terminal of 80 characters; the pages have all.
SHOWN = {
    "detection": ("detector", "sets", "AUROC", "AUPR", "rank AUROC", "rank AUPR", "fit s", "score s"),
    "uncertainty": ("detector", "W", "Gain", "rank W", "error %", "accepted %", "certain and wrong %", "CPU s"),
}
TABLES = "The user's own tables"


def benchmark(
    context: typer.Context,
    collections: Annotated[
        list[str], typer.Argument(help='"odds", "adbench", or folders and files of your own tables; several.')
    ],
    detectors: Annotated[
        str | None,
        typer.Option(
            help='With commas: "default" is ours; nn, knn, gmm, kmeans, lof, iforest, ocsvm, pca, hbos, copod, ecod, '
            'lunar; or "module:Class". Default: all that are installed and not slow.'
        ),
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option(help="TOML file of our settings, as `fit` takes it; may be repeated.")
    ] = None,
    sets: Annotated[str | None, typer.Option(help="Only these sets, with commas.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of every detector on every set.")] = 5,
    refits: Annotated[
        bool, typer.Option(help="Also run the peers through EnsembleDetector, to compare uncertainty.")
    ] = True,
    against: Annotated[
        str | None, typer.Option(help="The detector that is tested against each other; default: the first of ours.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help='Column of labels; of NPZ files an array, "y" if not given.', rich_help_panel=TABLES),
    ] = None,
    anomaly: Annotated[
        list[str] | None, typer.Option(help="Label that means anomaly (default 1, true).", rich_help_panel=TABLES)
    ] = None,
    ignore: Annotated[
        str | None, typer.Option(help="Columns that are no features, with commas.", rich_help_panel=TABLES)
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of results; a run goes on where the last one stopped.")
    ] = Path("benchmark"),
    write: Annotated[
        Path | None, typer.Option(help="Also write the Markdown page here, its figures into images/ beside it.")
    ] = None,
    remake: Annotated[bool, typer.Option(help="Run nothing: tables and figures from what is there.")] = False,
    workers: WorkersOption = None,
    data: Annotated[Path | None, typer.Option(help="Folder with odds/ and adbench/ (default: INDUBIO_DATA).")] = None,
    as_json: Json = False,
    changes: Annotated[
        list[str] | None,
        set_option("benchmark", "workers.cluster=tcp://host:8786"),
        Configures("indubio.cli.command_settings:WorkSettings"),
    ] = None,
) -> None:
    """Compare detectors on many sets: quality, uncertainty, false alarms and cost, with ranks and tests.

    Such as: indubio benchmark mine.csv --label bad --out benchmark
    """
    from indubio.cli import WorkSettings, settings_told
    from indubio.workers import Workers
    from indubio_lab.benchmark import (
        BenchmarkStore,
        Standings,
        benchmark_cells,
        benchmark_sets,
        contenders,
        write_markdown,
        write_results,
    )
    from indubio_lab.cli.cell_bar import cell_bar
    from indubio_lab.grids import run_grid

    hands = settings_told(context, WorkSettings).workers or Workers()
    taking_part = contenders(_listed(detectors), own=_configured(config or []), refits=refits)
    chosen = _chosen(against, [one.name for one in taking_part])
    tables = benchmark_sets(
        collections, sets=_listed(sets), data=data, label=label, anomaly=anomaly, ignore=_listed(ignore) or ()
    )
    cells = benchmark_cells(tables, taking_part, seeds=seeds)
    store, failed = BenchmarkStore(out), None
    if not remake:
        try:
            with cell_bar() as tell:
                run_grid(cells, store, workers=hands, tell=tell)
        except TrainingError as error:  # some cells failed: the pages are of the others
            failed = error
    standings = Standings.of(taking_part, store.records(cells))
    if not standings.records:
        raise failed or ConfigError(f"{out}: none of the {len(cells)} cells is done. Run it without --remake.")
    written = write_results(standings, chosen, out, cells=len(cells))
    if write is not None:
        written.append(write_markdown(standings, chosen, write, cells=len(cells)))
    _tell(standings, chosen, written, as_json)
    if failed is not None:
        raise failed


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _configured(paths: list[Path]) -> "dict[str, Detector]":
    """Detectors of ours by the names of their files."""
    from indubio.cli import in_file
    from indubio.configuration import Configuration

    stems = [path.stem for path in paths]
    if len(set(stems)) < len(stems):
        raise ConfigError(f"--config: files need different names, got {quoted(stems)}: tables name detectors by them.")
    return {path.stem: in_file(Configuration, path).detector for path in paths}


def _chosen(against: str | None, names: list[str]) -> str:
    if against is None:
        return names[0]
    if against not in names:
        raise ConfigError(f"--against: there is no detector {against!r}; there are {quoted(names)}.")
    return against


def _tell(standings: "Standings", chosen: str, written: list[Path], as_json: bool) -> None:
    from indubio.cli import terminal
    from indubio.io import json_text
    from indubio_lab.benchmark import MEASURES, detection_sheet, uncertainty_sheet

    if as_json:
        leagues = {name: standings.league(name) for name in ("detection", "uncertainty")}
        ranks = {
            measure: standings.ranks(leagues[league], measure)
            for league, measure in (("detection", "auroc"), ("detection", "aupr"), ("uncertainty", "gss_w"))
        }
        tests = {
            measure: {
                one.other: {
                    "difference": one.difference,
                    "won": one.won,
                    "lost": one.lost,
                    "sets": one.sets,
                    "p": one.p,
                }
                for one in standings.tests(chosen, leagues[league], measure)
            }
            for league, measure in (("detection", "auroc"), ("detection", "aupr"), ("uncertainty", "gss_w"))
            if chosen in leagues[league]
        }
        told = {
            "detectors": {
                name: {measure: standings.mean(name, measure) for measure in MEASURES} for name in standings.contenders
            },
            "ranks": ranks,
            "against": chosen,
            "tests": tests,
            "sets": ["/".join(one) for one in standings.sets],
            "files": [str(path) for path in written],
        }
        typer.echo(json_text(told))
        return
    console = terminal()
    for league, made in (("detection", detection_sheet), ("uncertainty", uncertainty_sheet)):
        if standings.league(league):
            _print(console, made(standings), SHOWN[league])
    for path in written:
        console.print(str(path), soft_wrap=True)


def _print(console: "Console", sheet: "Sheet", shown: tuple[str, ...]) -> None:
    from rich.table import Table

    table = Table(title=sheet.title, title_justify="left")
    places = [sheet.header.index(name) for name in shown]
    for place in places:
        table.add_column(sheet.header[place].removesuffix(" %"), justify="right" if place else "left")
    for row in sheet.rows:
        table.add_row(*(row[place] for place in places))
    console.print(table)
