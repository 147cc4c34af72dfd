"""`indubio assess`: new examples in, verdicts out."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from indubio.cli.exit_codes import ExitCode
from indubio.cli.flags import Configures, Gives
from indubio.cli.options import COLUMN, CONFIG, COUNT, FILE, FOLDER, SHARE, VALUE, WRITTEN, set_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indubio.io import Format


class FailOn(StrEnum):
    """What makes `assess` exit with code 3."""

    ANOMALY = "anomaly"
    REFER = "refer"
    DRIFT = "drift"
    ANY = "any"


class OutFormat(StrEnum):
    """What is written where the file's name does not say."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    XLSX = "xlsx"


def assess(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(help='CSV, Parquet, Excel or images: a file, folder, "pattern*", or - for stdin.')
    ],
    model: Annotated[Path, typer.Option("--model", "-m", metavar=FOLDER, help="Folder of the model.")],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar=FILE,
            help="CSV, Parquet, JSON lines or Excel file, or - (stdout); with workers a folder too. "
            "Default: no rows on a terminal, and CSV to a pipe.",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="CSV and Excel with all columns and digits, as Parquet and JSON lines always have them."
        ),
    ] = False,
    label: Annotated[
        str | None,
        typer.Option(
            metavar=COLUMN,
            help="Label column to pass on as 0 and 1, for `evaluate`; of a window, 1 if any sample is. "
            '"" ignores the one that the model knows.',
        ),
    ] = None,
    anomaly: Annotated[
        list[str] | None, typer.Option(metavar=VALUE, help="Label that means anomaly (default 1, true).")
    ] = None,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            metavar="WHAT",
            help=f"Exit with code {ExitCode.FOUND} at an anomaly, refer, drift, or any of these.",
        ),
    ] = None,
    passed: Annotated[
        list[str] | None,
        typer.Option(
            "--pass",
            metavar=COLUMN,
            help="Column of the file to pass through, of a window its first value; repeatable.",
            rich_help_panel=WRITTEN,
        ),
    ] = None,
    top: Annotated[
        int,
        typer.Option(
            min=0,
            metavar=COUNT,
            help="So many top features of each anomaly and referral; 0 for none.",
            rich_help_panel=WRITTEN,
        ),
    ] = 3,
    contributions: Annotated[
        bool,
        typer.Option(
            "--contributions",
            help="Also a column per feature: what it adds to the score, and its spread.",
            rich_help_panel=WRITTEN,
        ),
    ] = False,
    fdr: Annotated[
        float | None,
        typer.Option(
            metavar=SHARE,
            help="Mark anomalies of which at most this share is false; holds the results in memory.",
            rich_help_panel=WRITTEN,
        ),
    ] = None,
    per_run: Annotated[
        Path | None,
        typer.Option(
            metavar=FILE,
            help="Also a verdict per run (group, or file) of a recording.",
            rich_help_panel=WRITTEN,
        ),
    ] = None,
    points: Annotated[
        Path | None,
        typer.Option(
            metavar=FILE,
            help="Also a score per time step of a recording, from the windows that cover it.",
            rich_help_panel=WRITTEN,
        ),
    ] = None,
    out_format: Annotated[
        OutFormat | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="csv, jsonl, parquet or xlsx; default: by the file's name.",
            rich_help_panel=WRITTEN,
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print a JSON summary on stdout (not with --out -).", rich_help_panel=WRITTEN),
    ] = False,
    drift_state: Annotated[
        Path | None,
        typer.Option(
            metavar=FILE,
            help="JSON file: go on watching for drift from it, and keep what was seen in it.",
            rich_help_panel=CONFIG,
        ),
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option(
            metavar="DIGEST",
            help="The model must have this checksum, which `inspect` shows.",
            rich_help_panel=CONFIG,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar=COUNT,
            help="Assess shard by shard over so many processes.",
            rich_help_panel=CONFIG,
        ),
        Gives("workers.processes"),
    ] = None,
    changes: Annotated[
        list[str] | None,
        set_option("assess", "drift_alpha=0.001"),
        Configures("indubio.cli.command_settings:AssessSettings"),
    ] = None,
) -> None:
    """Verdict, probability and doubt of every example, streamed: files may be larger than memory.

    Such as: indubio assess new.csv --model model --out verdicts.csv
    """
    import sys

    from indubio.cli.command_settings import AssessSettings
    from indubio.cli.told_settings import settings_told
    from indubio.data import are_images

    settings = settings_told(context, AssessSettings)
    if as_json and out == "-":
        raise typer.BadParameter("--json and --out - would both write to stdout. Give --out a file.")
    written: Format | None = out_format.value if out_format else None
    if settings.workers is not None:
        if are_images(source):
            raise typer.BadParameter("workers are for tables and recordings: leave --workers out for images.")
        from indubio.cli.assess_batch import assess_batch

        refused = {
            "--fdr": fdr,
            "--drift-state": drift_state,
            "--fail-on drift": fail_on is FailOn.DRIFT or None,
            "--per-run": per_run,
            "--points": points,
        }
        outcome = assess_batch(
            source,
            model,
            out,
            settings.workers,
            refused=[name for name, value in refused.items() if value is not None],
            as_json=as_json,
            format=written,
            passed=tuple(passed or ()),
            label=label,
            anomaly_values=tuple(anomaly) if anomaly else None,
            top=top,
            contributions=contributions,
            full=full,
            shard_rows=settings.shard_rows,
            sha256=sha256,
            file_format=settings.file,
        )
        if outcome.quarantined:
            raise typer.Exit(ExitCode.INCOMPLETE)
        verdicts: Mapping[str, int] = outcome.verdicts
        alarm = False
    else:
        from indubio.cli.assess_here import AssessHere

        if out is None and not as_json and not sys.stdout.isatty():
            out = "-"
        here = AssessHere(
            source=source,
            model=model,
            sha256=sha256,
            out=out,
            written=written,
            full=full,
            passed=tuple(passed or ()),
            label=label,
            anomaly_values=tuple(anomaly) if anomaly else None,
            top=top,
            contributions=contributions,
            fdr=fdr,
            drift_state=drift_state,
            per_run=per_run,
            points=points,
            as_json=as_json,
            settings=settings,
        )
        verdicts, alarm = here.run()
    if fail_on is not None and _found(verdicts, alarm, fail_on):
        raise typer.Exit(ExitCode.FOUND)


def _found(verdicts: "Mapping[str, int]", drift: bool, wanted: FailOn) -> bool:
    names = ("ANOMALY", "REFER") if wanted is FailOn.ANY else (wanted.value.upper(),)
    return any(verdicts[name] for name in names) or (drift and wanted in (FailOn.ANY, FailOn.DRIFT))
