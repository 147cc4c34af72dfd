"""`indubio fit`: a file of good examples in, a model out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from indubio.cli.flags import Configures, Gives
from indubio.cli.options import (
    COUNT,
    DATA,
    FILE,
    FOLDER,
    SHARE,
    Anomaly,
    Categorical,
    Columns,
    ConfigFile,
    Exclude,
    Group,
    Ids,
    Json,
    Label,
    Overwrite,
    Rate,
    Step,
    Time,
    Window,
    WorkersOption,
    set_option,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indubio.configuration import Configuration
    from indubio.data import Examples, ExampleStream, Reading
    from indubio.detector import Detector

CONTAMINATED = "Rows that are not all good"
IN_MEMORY = 2**27  # values, 1 GiB as read; what has more is streamed
MOST_NAMED = 20  # columns with missing values


def fit(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(help='Good examples: CSV, Parquet, Excel, PNG or JPEG; a file, folder, "pattern*", or -.')
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar=FOLDER, help="Folder for the model.")],
    columns: Columns = None,
    exclude: Exclude = None,
    ids: Ids = None,
    time: Time = None,
    group: Group = None,
    label: Label = None,
    anomaly: Anomaly = None,
    categorical: Categorical = None,
    window: Window = None,
    step: Step = None,
    rate: Rate = None,
    missing: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT", help="What to do with missing values: error, median or refer.", rich_help_panel=DATA
        ),
    ] = None,
    false_alarms: Annotated[
        float | None,
        typer.Option(metavar=SHARE, help="Share of good examples that may be called anomalies (default 0.1)."),
    ] = None,
    suspects: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar=COUNT,
            help="Write so many rows that look like anomalies to <out>-suspects.csv, for a person to label.",
            rich_help_panel=CONTAMINATED,
        ),
        Gives("most"),
    ] = None,
    labelled: Annotated[
        Path | None,
        typer.Option(metavar=FILE, help="That file, labelled: what is bad is left out.", rich_help_panel=CONTAMINATED),
    ] = None,
    workers: WorkersOption = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    config: ConfigFile = None,
    changes: Annotated[
        list[str] | None,
        set_option("fit", "referral.share=0.1", config=True),
        Configures("indubio.configuration:Configuration"),
    ] = None,
) -> None:
    """Learn what good examples look like, and save the model.

    Such as: indubio fit good.csv --id serial --time when --out model
    """
    from indubio.cli.file_words import tell_files
    from indubio.cli.label_words import tell_training_labels
    from indubio.cli.progress import fit_bar
    from indubio.cli.standard_input import named_source
    from indubio.cli.told_settings import settings_told
    from indubio.cli.unused_columns import tell_unused
    from indubio.configuration import Configuration
    from indubio.data import are_images
    from indubio.detector import suspects as find_suspects
    from indubio.detector import without_bad
    from indubio.errors import ConfigError, ModelFileError, data_warnings_told_otherwise
    from indubio.io import sink
    from indubio.judge import refuse_output_names
    from indubio.storage import save

    settings = settings_told(context, Configuration, config, **({"images": {}} if are_images(source) else {}))
    if settings.images is not None and not are_images(source):
        raise ConfigError(f"`images` is for .png, .jpg and .jpeg, and {source} holds none: leave it out.")
    detector, reading = settings.detector, settings.reading
    if out.exists() and not overwrite:
        raise ModelFileError(f"{out}: there is something already. Pass --overwrite to replace a model.")
    listed: Path | None = None
    with named_source(source) as path:
        reading = reading.resolved(path)
        files = reading.opened(path)
        tell_files(reading.files(files))
        refuse_output_names(reading)
        data = _data(files, reading, settings)
        tell_training_labels(files, reading)
        if settings.columns is None:
            tell_unused(reading.files(files), reading, known=False)
        if labelled is not None:
            data = without_bad(_in_memory(data, "--labelled"), labelled)
        with fit_bar() as report, data_warnings_told_otherwise():
            detector.fit(data, progress=report, workers=settings.workers)
        if suspects is not None:
            found = find_suspects(detector, _in_memory(data, "--suspects"), suspects)
            listed = out.with_name(f"{out.name}-suspects.csv")
            with sink(listed) as file:
                file.write(found)
        detector = detector.read_by(reading.kept(files))
    save(detector, out, overwrite=overwrite)
    _tell(detector, data, out, listed, as_json)


def _data(source: Any, reading: "Reading", settings: "Configuration") -> "Examples | ExampleStream":
    from indubio.data import ExampleStream
    from indubio.errors import ConfigError

    stream, buffer = settings.stream, settings.buffer
    if reading.images is not None:
        if stream or buffer is not None:
            raise ConfigError("`stream` and `buffer` are for tables and recordings: images are held in memory.")
        return reading.images.read(source)
    streamed = ExampleStream(source, reading, buffer)
    if stream is None:
        stream = buffer is not None or streamed.value_count() > IN_MEMORY
    return streamed if stream else streamed.read()


def _in_memory(data: "Examples | ExampleStream", flag: str) -> "Examples":
    from indubio.data import ExampleStream
    from indubio.errors import ConfigError

    if not isinstance(data, ExampleStream):
        return data
    if not data.fits:
        raise ConfigError(
            f"{flag} is for examples that fit into memory, and these are streamed: pass --set stream=false."
        )
    return data.read()


def _filled(missing: "Mapping[str, int]") -> str | None:
    """What was filled in of a table, in the words of what was done to windows; None where nothing was."""
    if not missing:
        return None
    counts, more = [f"{name} {count}" for name, count in missing.items()], len(missing) - MOST_NAMED
    rest = f" and {more} more columns" if more > 0 else ""
    return f"missing: {', '.join(counts[:MOST_NAMED])}{rest}; filled in by the median of the column"


def _tell(
    detector: "Detector", data: "Examples | ExampleStream", out: Path, listed: Path | None, as_json: bool
) -> None:
    import numpy as np

    from indubio.cli.by_flags import by_flags
    from indubio.cli.consoles import terminal
    from indubio.data import ExampleStream
    from indubio.decision import predictions
    from indubio.io import json_text

    streamed = isinstance(data, ExampleStream) and not data.fits
    seen = data.outline if isinstance(data, ExampleStream) else data
    own = int(np.count_nonzero(predictions(detector.reference_uncertainty_.probability, detector.decision_threshold)))
    unseen = detector.unseen_alarms_
    told: dict[str, Any] = {
        "model": str(out),
        "examples": detector.n_training_,
        "shape": list(detector.input_shape_),
        "features": list(detector.chain_.preparation.value_shape),
        "draws": detector.draws_.count,
        "referral_threshold": detector.referral_threshold_,
        "calibration_examples": detector.n_reference_,
        "p_values": bool(detector.reference_ and detector.reference_.unseen),
        "streamed": streamed,
        "read": _filled(seen.missing) if seen.report is None else str(seen.report),
        "left_out_of_calibration": detector.reference_.dropped if detector.reference_ else 0,
        "reference_anomalies": own,
        "unseen_alarms": None if unseen is None else [float(share) for share in unseen],
        "suspects": None if listed is None else str(listed),
        "findings": [
            {
                "kind": finding.kind,
                "columns": list(finding.columns),
                "what": finding.what,
                "follows": finding.follows,
                "way_out": by_flags(finding.way_out),
            }
            for finding in detector.findings_
        ],
    }
    if as_json:
        typer.echo(json_text(told))
        return
    console = terminal()
    what = seen.word
    size, spectra = " x ".join(map(str, detector.input_shape_)), detector.preparation_.spectra
    console.print(
        f"Fitted {detector.draws_.count} draws on {detector.n_training_} {what} of {size} values"
        f"{'' if spectra is None else f', {spectra.count} features each'}"
        f"{', streamed' if streamed else ''}; saved to {out}.",
        soft_wrap=True,
    )
    reference = detector.reference_
    if reference is not None and reference.unseen:
        console.print(
            f"Calibrated on {reference.examples} {what} that the draws have not seen; "
            f"the smallest p-value is {1 / (reference.fewest + 1):.2g}.",
            soft_wrap=True,
        )
    else:
        console.print("Calibrated on its training scores: there are no p-values.", soft_wrap=True)
    if unseen is not None:
        console.print(
            f"On stretches it had not seen it would call {unseen.mean():.0%} anomalies "
            f"(best {unseen.min():.0%}, worst {unseen.max():.0%}).",
            soft_wrap=True,
        )
    console.print(
        f"It would call {own} of the {detector.n_reference_} {what} that it compares with anomalies "
        f"({own / detector.n_reference_:.1%}).",
        soft_wrap=True,
    )
    if told["left_out_of_calibration"]:
        console.print(
            f"{told['left_out_of_calibration']} {what} were left out of calibration as likely anomalies.",
            soft_wrap=True,
        )
    if listed is not None:
        console.print(
            f"Suspects are in {listed}: fill in its column `bad`, and fit again with --labelled.",
            soft_wrap=True,
        )
    if told["read"]:
        console.print(f"Read: {by_flags(told['read'])}.", soft_wrap=True)
    if detector.findings_:
        console.print("Before you rely on it:", style="bold")
    for finding in detector.findings_:
        console.print(f"- {by_flags(str(finding))}", soft_wrap=True)
