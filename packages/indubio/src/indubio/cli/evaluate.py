"""`indubio evaluate`: what the uncertainty is worth, on the output of `assess` or of any other tool."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from indubio.cli.flags import Configures
from indubio.cli.options import Json, set_option
from indubio.errors import ConfigError, DataError, quoted

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from rich.table import Table

    from indubio.evaluation import Evaluation
    from indubio.evaluation.verdict_errors import VerdictErrors
    from indubio.io.file_format import FileFormat

UNCERTAINTY_COLUMNS = ("total", "epistemic", "aleatoric", "exceed", "var_nll", "disagreement")


def evaluate(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="CSV, Parquet or Excel with a row per example.")],
    label: Annotated[str, typer.Option(help="Column of labels, 1 for an anomaly.")],
    anomaly: Annotated[list[str] | None, typer.Option(help="Value of the label column that means anomaly.")] = None,
    prediction: Annotated[str, typer.Option(help="Column of predictions, 1 or true for an anomaly.")] = "prediction",
    probability: Annotated[
        str | None, typer.Option(help="Take predictions from this column of probabilities instead.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Probability of an anomaly, with --probability.")
    ] = 0.5,
    score: Annotated[str | None, typer.Option(help="Column of scores, high for anomalous; adds AUROC.")] = None,
    uncertainty: Annotated[
        list[str] | None, typer.Option(help="Column of uncertainties; may be repeated. Default: those of `assess`.")
    ] = None,
    costs: Annotated[
        tuple[float, float, float] | None,
        typer.Option(
            help="Say what the verdicts of `assess` cost, by what a missed anomaly, a false alarm and a review cost.",
            metavar="MISSED ALARM REVIEW",
        ),
    ] = None,
    as_json: Json = False,
    changes: Annotated[
        list[str] | None,
        set_option("evaluate", "file.separator=;"),
        Configures("indubio.cli.command_settings:FileSettings"),
    ] = None,
) -> None:
    """Judge predictions and uncertainties against labels: W, Base and Gain of the accuracy-rejection curve.

    Such as: indubio evaluate verdicts.csv --label bad
    """
    from indubio import evaluation
    from indubio.cli.command_settings import FileSettings
    from indubio.cli.label_words import known_labels
    from indubio.cli.terminal import terminal
    from indubio.cli.told_settings import settings_told
    from indubio.inputs.tables import Roles
    from indubio.io.json_text import json_text

    table = _read(source, settings_told(context, FileSettings).file)
    table, anomaly = known_labels(table, label, anomaly)
    scores = score or ("nll" if "nll" in table.column_names else None)
    chosen = uncertainty or [name for name in UNCERTAINTY_COLUMNS if name in table.column_names]
    if not chosen:
        raise ConfigError(
            f"{source}: none of {', '.join(UNCERTAINTY_COLUMNS)} is there. Name a column by --uncertainty."
        )
    labels = Roles(label=label, anomaly_values=tuple(anomaly) if anomaly else None).labels(table, str(source))
    if labels.all() or not labels.any():
        raise DataError(
            f'{source}: all {len(labels)} rows have one label in "{label}": nothing can be told apart. Name the value '
            "that means anomaly by --anomaly, or give rows of both kinds."
        )
    called = _numbers(table, probability) >= threshold if probability else _numbers(table, prediction)
    results = {
        name: evaluation.evaluate(
            labels, called, _numbers(table, name), scores=None if scores is None else _numbers(table, scores)
        )
        for name in chosen
    }
    cost = {} if costs is None else _costs(table, labels, called, costs)
    referral = _referral(table, labels, called)
    if as_json:
        told = {name: result.to_dict() for name, result in results.items()}
        plain = {words: asdict(errors) for words, errors in referral.items()}
        typer.echo(json_text(told | ({"cost": cost} if cost else {}) | ({"referral": plain} if plain else {})))
        return
    terminal().print(_table(results))
    if referral:
        terminal().print(_bought(**referral), soft_wrap=True)
    if cost:
        amounts = ", ".join(f"{words} {amount:.4g}" for words, amount in cost.items())
        terminal().print(f"Cost an example: {amounts}.", soft_wrap=True)


def _referral(table: "pa.Table", labels: "np.ndarray", called: "np.ndarray") -> "dict[str, VerdictErrors]":
    """Errors without referral and with it; nothing where the table has no verdicts."""
    if "verdict" not in table.column_names:
        return {}
    from indubio.evaluation.verdict_errors import VerdictErrors

    predicted = called.astype(bool)
    return {
        "without": VerdictErrors.of(labels, predicted),
        "referring": VerdictErrors.of(labels, predicted, ~_referred(table)),
    }


def _bought(without: "VerdictErrors", referring: "VerdictErrors") -> str:
    """What referral buys, in a sentence."""
    looked_at, caught = without.verdicts - referring.verdicts, without.wrong - referring.wrong
    return (
        f"What referral buys: a person looks at {looked_at} of {without.verdicts} ({looked_at / without.verdicts:.1%}) "
        f"and sees {caught} of the {without.wrong} errors. Wrong are {without.share:.1%} of all verdicts "
        f"({without.missed} missed anomalies, {without.false_alarms} false alarms), and {referring.share:.1%} of those "
        f"that are accepted ({referring.missed} and {referring.false_alarms})."
    )


def _referred(table: "pa.Table") -> "np.ndarray":
    import numpy as np

    return np.asarray(np.array(table.column("verdict").to_pylist()) == "REFER")


def _costs(
    table: "pa.Table", labels: "np.ndarray", called: "np.ndarray", costs: tuple[float, float, float]
) -> dict[str, float]:
    """What the verdicts cost an example, and what the three would that look at none."""
    import numpy as np

    from indubio.evaluation import cost_per_example

    if "verdict" not in table.column_names:
        raise DataError("--costs needs the column `verdict`, as `indubio assess` writes it.")
    referred = _referred(table)
    none, every = np.zeros(len(referred), dtype=bool), np.ones(len(referred), dtype=bool)
    verdicts = {
        "verdicts": (called, referred),
        "all inliers": (none, none),
        "all anomalies": (every, none),
        "all reviewed": (none, every),
    }
    missed, alarm, review = costs
    return {
        words: cost_per_example(labels, *verdict, missed_anomaly=missed, false_alarm=alarm, review=review)
        for words, verdict in verdicts.items()
    }


def _read(source: Path, wanted: "FileFormat") -> "pa.Table":
    import pyarrow as pa

    from indubio.cli.file_words import tell_files
    from indubio.io.sources import opened

    files = opened(source, wanted)
    tell_files(files)
    parts = [file.batches(dict.fromkeys(file.schema.names)) for file in files]
    return pa.Table.from_batches([batch for part in parts for batch in part])


def _numbers(table: "pa.Table", name: str) -> "np.ndarray":
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if name not in table.column_names:
        raise DataError(f"there is no column {name!r}; there are {quoted(table.column_names)}.")
    try:
        values: np.ndarray = pc.cast(table.column(name), pa.float64()).to_numpy()
    except pa.ArrowException:
        raise DataError(f"column {name!r} does not hold numbers.") from None
    return values


def _table(results: "dict[str, Evaluation]") -> "Table":
    from rich.table import Table

    first = next(iter(results.values()))
    table = Table(title=f"{first.examples} examples, {first.anomalies} anomalies; in %", title_justify="left")
    table.add_column("rejecting by")
    for name in results:
        table.add_column(name, justify="right")
    rows = {name: _rows(result) for name, result in results.items()}
    for metric in _rows(first):
        table.add_row(metric, *(f"{100 * rows[name][metric]:.1f}" for name in results))
    return table


def _rows(result: "Evaluation") -> dict[str, float]:
    curves = {"GSS": result.gss} | ({"AUROC": result.auroc} if result.auroc else {})
    rows: dict[str, float] = {}
    for name, curve in curves.items():
        rows |= {
            f"{name}, nothing rejected": curve.base,
            f"W {name}": curve.weighted_average,
            f"Gain {name}": curve.gain,
        }
    rows |= {f"GSS at {100 * rate:g} % rejected": value for rate, value in result.gss_at.items()}
    return rows | {"errors found (AUROC)": result.error_detection_auroc, "risk-coverage area": result.aurc}
