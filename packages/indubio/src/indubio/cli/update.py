"""`indubio update`: a model and a file of good examples in, a model that has learned from them too out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from indubio.cli.flags import Configures
from indubio.cli.options import FILE, FOLDER, Json, Overwrite, set_option

if TYPE_CHECKING:
    from indubio.data import Examples
    from indubio.io import FileFormat
    from indubio.judge import Judge


def update(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="CSV, Parquet or Excel of good examples to add.")],
    model: Annotated[Path, typer.Option("--model", "-m", metavar=FOLDER, help="Folder of the model.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar=FOLDER, help="Folder for the new model.")],
    training_data: Annotated[
        str | None,
        typer.Option(
            "--training",
            metavar=FILE,
            help="What the model was fitted on, which it does not keep; not needed by one with posterior.keep_sums.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    changes: Annotated[
        list[str] | None,
        set_option("update", "file.separator=;"),
        Configures("indubio.cli.command_settings:FileSettings"),
    ] = None,
) -> None:
    """Add good examples to what a model was fitted on, and write a new model; the old one stays as it is.

    Such as: indubio update october.csv --model model --training good.csv --out newer
    """
    import numpy as np

    from indubio.cli.by_flags import by_flags
    from indubio.cli.command_settings import FileSettings
    from indubio.cli.consoles import terminal
    from indubio.cli.progress import fit_bar
    from indubio.cli.told_settings import settings_told
    from indubio.decision import Verdict
    from indubio.errors import ModelFileError, data_warnings_told_otherwise
    from indubio.io import json_text
    from indubio.judge import Judge
    from indubio.storage import save

    if out.exists() and not overwrite:
        raise ModelFileError(f"{out}: there is something already. Pass --overwrite to replace a model.")
    asked = settings_told(context, FileSettings).file
    judge = Judge.load(model)
    present = judge.detector
    added = _good(judge, source, asked)
    training = None if training_data is None else _good(judge, training_data, asked)
    with fit_bar() as report, data_warnings_told_otherwise():
        new = present.update(added, training_data=training, progress=report)
    if present.reading_ is not None:
        new = new.read_by(present.reading_)
    save(new, out, overwrite=overwrite)
    before, after = (int(np.count_nonzero(one.assess(added).verdict == Verdict.ANOMALY)) for one in (present, new))
    told: dict[str, Any] = {
        "model": str(out),
        "added": len(added),
        "examples": new.n_training_,
        "called_anomalies": {"before": before, "now": after},
        "referral_threshold": new.referral_threshold_,
        "findings": [by_flags(str(finding)) for finding in new.findings_],
    }
    if as_json:
        typer.echo(json_text(told))
        return
    console = terminal()
    console.print(
        f"Added {len(added)} examples: the new model knows {new.n_training_}; saved to {out}. Of those that were added "
        f"{before} were called anomalies before, and {after} are now.",
        soft_wrap=True,
    )
    if present.correction_ is not None:
        console.print("What labels taught the old model is not in the new one: `indubio learn` teaches it again.")
    if new.findings_:
        console.print("Before you rely on it:", style="bold")
    for finding in told["findings"]:
        console.print(f"- {finding}", soft_wrap=True)


def _good(judge: "Judge", source: str, asked: "FileFormat") -> "Examples":
    """The examples of a file that no label calls bad; others are told of."""
    from indubio.cli.file_words import tell_files
    from indubio.cli.label_words import tell_training_labels, tell_unlabelled
    from indubio.errors import DataError

    files = judge.opened(source, asked)
    reading = judge.reading(files, file_format=asked)
    tell_files(reading.files(files))
    tell_training_labels(files, reading)
    read = reading.read(files, unlabelled=True)
    if read.unlabelled is not None:
        tell_unlabelled(read.unlabelled, str(reading.label))
    good = read.inliers()
    if not len(good):
        raise DataError(f"{source}: there are no good examples.")
    return good.without_labels()
