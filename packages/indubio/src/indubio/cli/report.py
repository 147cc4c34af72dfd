"""`indubio report`: one HTML page about some examples, for the people who decide."""

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from indubio.cli.flags import Configures
from indubio.cli.options import COLUMN, FILE, FOLDER, VALUE, set_option


class ReportLanguage(StrEnum):
    """The language of the page."""

    ENGLISH = "en"
    GERMAN = "de"


def report(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(help='CSV, Parquet, Excel or images: a file, folder, "pattern*", or - for stdin.')
    ],
    model: Annotated[Path, typer.Option("--model", "-m", metavar=FOLDER, help="Folder of the model.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar=FILE, help="HTML file to write.")],
    label: Annotated[
        str | None, typer.Option(metavar=COLUMN, help='Column of labels, 1 for an anomaly; "" for none.')
    ] = None,
    anomaly: Annotated[list[str] | None, typer.Option(metavar=VALUE, help="Label that means anomaly.")] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the page.")] = None,
    language: Annotated[ReportLanguage, typer.Option(help="Of texts and numbers.")] = ReportLanguage.ENGLISH,
    passed: Annotated[
        list[str] | None, typer.Option("--pass", metavar=COLUMN, help="Column to show of each case; repeatable.")
    ] = None,
    remark: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Sentence the reader must not miss; repeatable.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        set_option("report", "file.separator=;"),
        Configures("indubio.cli.command_settings:FileSettings"),
    ] = None,
) -> None:
    """Write a self-contained HTML report: summary, distributions, what referral buys, and the cases to look at.

    Such as: indubio report new.csv --model model --out report.html
    """
    from indubio.cli.command_settings import FileSettings
    from indubio.cli.consoles import terminal
    from indubio.cli.file_words import tell_files
    from indubio.cli.label_words import without_labels
    from indubio.cli.standard_input import named_source
    from indubio.cli.told_settings import settings_told
    from indubio.cli.unused_columns import tell_unused
    from indubio.data import opened_for, reading_for
    from indubio.io import whole_file
    from indubio.report import html_report
    from indubio.storage import load

    asked = settings_told(context, FileSettings).file
    detector = load(model)
    with named_source(source) as path:
        files = opened_for(detector.reading_, path, asked)
        reading = reading_for(detector.reading_, detector.schema_, files, passed or [], label, anomaly, asked)
        tell_files(reading.files(files))
        data = reading.read(files, unlabelled=True)
        tell_unused(reading.files(files), reading, known=True)
    remarks = list(remark or ())
    if data.unlabelled is not None:
        remarks.append(without_labels(data.unlabelled, str(reading.label)))
        data = data.without_labels()
    page = html_report(
        detector,
        data,
        title=title,
        made=datetime.now(),
        remarks=tuple(remarks),
        language=language.value,
    )
    with whole_file(out) as file:
        file.write(page.encode())
    terminal(stderr=True).print(f"{out}: {len(data)} examples, {len(page) / 1024:.0f} kB.")
