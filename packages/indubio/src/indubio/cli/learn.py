"""`indubio learn`: a model and a file with people's labels in, a model that has learned from them out."""

from pathlib import Path
from typing import Annotated

import typer

from indubio.cli.flags import Configures
from indubio.cli.options import Json, Overwrite, set_option


def learn(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="CSV, Parquet or Excel of all examples that people have labelled.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="Folder of the model.")],
    label: Annotated[str, typer.Option(help="Column of labels; both kinds are needed.")],
    recent: Annotated[str, typer.Option(help="Examples as they come, labelled or not: the last batch, say.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the new model.")],
    anomaly: Annotated[
        list[str] | None, typer.Option(help="Label that means anomaly; default: as the model knows, or 1, true.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    changes: Annotated[
        list[str] | None, set_option("learn", "spread=1"), Configures("indubio.cli.command_settings:LearnSettings")
    ] = None,
) -> None:
    """Correct a model's probabilities by labels of good examples and of anomalies; nothing is trained.

    Such as: indubio learn labelled.csv --model model --label bad --recent last_week.csv --out learned
    """
    from indubio.cli.command_settings import LearnSettings
    from indubio.cli.consoles import terminal
    from indubio.cli.file_words import tell_files
    from indubio.cli.label_words import tell_unlabelled
    from indubio.cli.told_settings import settings_told
    from indubio.data import opened_for, reading_for
    from indubio.detector import LabelledExamples
    from indubio.errors import DataError, ModelFileError
    from indubio.io import json_text
    from indubio.storage import load, save

    if out.exists() and not overwrite:
        raise ModelFileError(f"{out}: there is something already. Pass --overwrite to replace a model.")
    settings = settings_told(context, LearnSettings)
    detector = load(model)
    known, schema = detector.reading_, detector.schema_
    files, recent_files = (opened_for(known, one, settings.file) for one in (source, recent))
    of_labels = reading_for(known, schema, files, (), label, anomaly, settings.file)
    tell_files(of_labels.files(files))
    labelled = of_labels.read(files, unlabelled=True)
    if labelled.labels is None:
        raise DataError(f"{source}: there is no column {label!r} with labels.")
    if labelled.unlabelled is not None:
        tell_unlabelled(labelled.unlabelled, label)
        labelled = labelled.select(~labelled.unlabelled)
    # Recent examples may have the column too, and need not have a label in every row.
    own = known is not None and known.table is not None and known.table.label == label
    beside = (label,) if not own and any(label in file.schema.names for file in of_labels.files(recent_files)) else ()
    of_recent = reading_for(known, schema, recent_files, beside, file_format=settings.file)
    tell_files(of_recent.files(recent_files))
    unlabelled = of_recent.read(recent_files, unlabelled=True)
    decided = LabelledExamples.of(labelled, schema) if settings.hold_out else None
    if decided is None:
        learned = detector.learn(labelled, labelled.labels, recent=unlabelled, spread=settings.spread)
    else:
        learned = decided.teach(detector, recent=unlabelled, spread=settings.spread)
    save(learned, out, overwrite=overwrite)
    compared = None if decided is None else decided.compared(detector, learned, decided.held_out)
    found = learned.correction_
    assert found is not None
    told = {
        "model": str(out),
        "labels": found.reviewed,
        "anomalies": found.anomalies,
        "prevalence": found.prevalence,
        "referral_threshold": learned.referral_threshold_,
        "compared": compared,
    }
    if as_json:
        typer.echo(json_text(told))
        return
    terminal().print(
        f"Learned from {found.reviewed} labels, {found.anomalies} of anomalies, which are about "
        f"{found.prevalence:.2g} of all; the referral rule is fitted on {len(unlabelled)} recent examples; "
        f"saved to {out}.",
        soft_wrap=True,
    )
    if compared is not None and compared["cases"]:
        before, after = compared["present"], compared["new"]
        terminal().print(
            f"On {compared['cases']} other labels, which taught nothing: {before['wrong']:.1%} of the predictions were "
            f"wrong before and {after['wrong']:.1%} are now, {before['wrong_accepted']:.1%} and "
            f"{after['wrong_accepted']:.1%} without those that are referred; {before['referred']:.1%} were referred, "
            f"and {after['referred']:.1%} are now.",
            soft_wrap=True,
        )
