"""`indubio evaluate`: what the uncertainty is worth, on the output of `assess` or of any other tool."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from indubio.errors import ConfigError, DataError, quoted

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from rich.table import Table

    from indubio.evaluation import Evaluation

UNCERTAINTY_COLUMNS = ("total", "epistemic", "aleatoric", "exceed", "var_nll")


def evaluate(
    source: Annotated[Path, typer.Argument(help="CSV or Parquet with a row per example.")],
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Judge predictions and uncertainties against labels: W, Base and Gain of the accuracy-rejection curve."""
    from rich.console import Console

    from indubio import evaluation
    from indubio.data.sinks import json_text
    from indubio.data.tables import Roles

    table = _read(source)
    scores = score or ("nll" if "nll" in table.column_names else None)
    chosen = uncertainty or [name for name in UNCERTAINTY_COLUMNS if name in table.column_names]
    if not chosen:
        raise ConfigError(
            f"{source}: none of {', '.join(UNCERTAINTY_COLUMNS)} is there. Name a column by --uncertainty."
        )
    labels = Roles(columns=[], label=label, anomaly_values=anomaly).labels(table, str(source))
    called = _numbers(table, probability) >= threshold if probability else _numbers(table, prediction)
    results = {
        name: evaluation.evaluate(
            labels, called, _numbers(table, name), scores=None if scores is None else _numbers(table, scores)
        )
        for name in chosen
    }
    if as_json:
        typer.echo(json_text({name: result.to_dict() for name, result in results.items()}))
        return
    Console().print(_table(results))


def _read(source: Path) -> "pa.Table":
    import pyarrow as pa

    from indubio.data.sources import opened

    parts = [file.batches(dict.fromkeys(file.schema.names)) for file in opened(source)]
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
    rates = [f"GSS at {100 * rate:g} %" for rate in first.gss_at]
    table = Table(
        title=f"{first.examples} examples, {first.anomalies} anomalies; all values in %", title_justify="left"
    )
    table.add_column("rejecting by")
    for header in ("GSS", "W", "Gain", *rates, *(["AUROC", "W AUROC"] if first.auroc else []), "error AUROC", "AURC"):
        table.add_column(header, justify="right")
    for name, result in results.items():
        auroc = [] if result.auroc is None else [result.auroc.base, result.auroc.weighted_average]
        numbers = [
            result.gss.base,
            result.gss.weighted_average,
            result.gss.gain,
            *result.gss_at.values(),
            *auroc,
            result.error_detection_auroc,
            result.aurc,
        ]
        table.add_row(name, *(f"{100 * number:.1f}" for number in numbers))
    return table
