"""`indubio evaluate`: what the uncertainty is worth, on the output of `assess` or of any other tool."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from indubio.cli.flags import Configures
from indubio.cli.options import COLUMN, VALUE, Json, set_option
from indubio.errors import ConfigError, DataError, quoted

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from rich.table import Table

    from indubio.evaluation import Evaluation, VerdictErrors
    from indubio.io import FileFormat

OTHER = "Columns of another tool"
MEANINGS = (
    "GSS: geometric mean of sensitivity (recall) and specificity. AUROC: of the score, by which rows are sorted.",
    "W: the mean over the whole curve, from none to all rejected. Gain: W minus the value with nothing rejected.",
)
UNCERTAINTY_COLUMNS = ("total", "epistemic", "aleatoric", "exceed", "var_nll", "disagreement")


def evaluate(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="CSV, Parquet or Excel with a row per example.")],
    label: Annotated[str, typer.Option(metavar=COLUMN, help="Column of labels, 1 for an anomaly.")],
    anomaly: Annotated[list[str] | None, typer.Option(metavar=VALUE, help="Label that means anomaly.")] = None,
    costs: Annotated[
        tuple[float, float, float] | None,
        typer.Option(help="Say what the verdicts cost, by what each of these does.", metavar="MISSED ALARM REVIEW"),
    ] = None,
    uncertainty: Annotated[
        list[str] | None,
        typer.Option(
            metavar=COLUMN, help="Uncertainty, repeatable. Default: those of `assess`.", rich_help_panel=OTHER
        ),
    ] = None,
    prediction: Annotated[
        str, typer.Option(metavar=COLUMN, help="Predictions, 1 or true for an anomaly.", rich_help_panel=OTHER)
    ] = "prediction",
    probability: Annotated[
        str | None,
        typer.Option(metavar=COLUMN, help="Take predictions from these probabilities instead.", rich_help_panel=OTHER),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(
            min=0, max=1, metavar="FROM", help="Probability of an anomaly, with --probability.", rich_help_panel=OTHER
        ),
    ] = 0.5,
    score: Annotated[
        str | None,
        typer.Option(metavar=COLUMN, help="Scores, high for anomalous; adds AUROC.", rich_help_panel=OTHER),
    ] = None,
    as_json: Json = False,
    changes: Annotated[
        list[str] | None,
        set_option("evaluate", "file.separator=;"),
        Configures("indubio.cli.command_settings:FileSettings"),
    ] = None,
) -> None:
    """Compare verdicts with labels: what is missed, false alarms, what referral bought, what the uncertainty is worth.

    Such as: indubio evaluate verdicts.csv --label bad
    """
    from indubio import evaluation
    from indubio.cli.command_settings import FileSettings
    from indubio.cli.consoles import terminal
    from indubio.cli.label_words import known_labels
    from indubio.cli.told_settings import settings_told
    from indubio.cli.truth_words import truth_lines, truth_table
    from indubio.data import Roles
    from indubio.evaluation import TruthByVerdict
    from indubio.io import json_text

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
    predicted = called.astype(bool)
    truth = TruthByVerdict.of(labels, predicted, _referred(table))
    referral = _referral(table, labels, predicted)
    if as_json:
        told: dict[str, Any] = {name: result.to_dict() for name, result in results.items()}
        plain = {words: asdict(errors) for words, errors in referral.items()}
        told |= {"truth": asdict(truth)} | ({"cost": cost} if cost else {}) | ({"referral": plain} if plain else {})
        typer.echo(json_text(told))
        return
    console = terminal()
    console.print(truth_table(truth))
    console.print(truth_lines(truth, (referral["without"], referral["referring"]) if referral else None))
    if cost:
        amounts = ", ".join(f"{words} {amount:.4g}" for words, amount in cost.items())
        console.print(f"Cost an example: {amounts}.", soft_wrap=True)
    console.print()
    console.print(_table(results))
    for line in MEANINGS:
        console.print(line, soft_wrap=True, style="dim")


def _referral(table: "pa.Table", labels: "np.ndarray", predicted: "np.ndarray") -> "dict[str, VerdictErrors]":
    """Errors without referral and with it; nothing where the table has no verdicts."""
    if "verdict" not in table.column_names:
        return {}
    from indubio.evaluation import VerdictErrors

    return {
        "without": VerdictErrors.of(labels, predicted),
        "referring": VerdictErrors.of(labels, predicted, ~_referred(table)),
    }


def _referred(table: "pa.Table") -> "np.ndarray":
    """Which examples are referred; none where the table has no verdicts."""
    import numpy as np

    if "verdict" not in table.column_names:
        return np.zeros(table.num_rows, dtype=bool)
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
    from indubio.io import opened

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
    table = Table(title="What the uncertainty is worth, in %", title_justify="left", title_style="bold")
    table.add_column("rejected by")
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
