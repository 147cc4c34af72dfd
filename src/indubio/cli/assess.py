"""`indubio assess`: new examples in, verdicts out."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections import Counter

    import pyarrow as pa

    from indubio.assessment import Assessment
    from indubio.data import Schema
    from indubio.data.reading import Reading
    from indubio.data.tables import Table
    from indubio.data.windows import Windows
    from indubio.detector import Detector
    from indubio.explain import Explained
    from indubio.export import OnnxModel

FAILED_ON = 3  # exit code when --fail-on found what it looked for


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


def assess(
    source: Annotated[str, typer.Argument(help='CSV or Parquet: a file, folder, "pattern*", or - for CSV on stdin.')],
    model: Annotated[Path, typer.Option("--model", "-m", help="Folder of the model, or an exported ONNX file.")],
    out: Annotated[str, typer.Option("--out", "-o", help="CSV, Parquet or JSON lines file, or - for stdout.")] = "-",
    out_format: Annotated[
        OutFormat | None, typer.Option("--format", help="Format to write; default: by the file's name.")
    ] = None,
    passed: Annotated[
        list[str] | None,
        typer.Option("--pass", help="Column of the file to pass through, such as a label; repeatable."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="So many top features of each anomaly and referral; 0 for none.")] = 3,
    fdr: Annotated[
        float | None,
        typer.Option(help="Mark anomalies of which at most this share is false; holds the results in memory."),
    ] = None,
    contributions: Annotated[
        bool,
        typer.Option("--contributions", help="Also a column per feature: what it adds to the score, and its spread."),
    ] = False,
    drift_alpha: Annotated[
        float, typer.Option(min=1e-9, max=0.5, help="Largest probability of ever raising a false alarm of drift.")
    ] = 0.01,
    drift_state: Annotated[
        Path | None, typer.Option(help="JSON file: go on watching for drift from it, and keep what was seen in it.")
    ] = None,
    fail_on: Annotated[
        FailOn | None, typer.Option(help=f"Exit with code {FAILED_ON} when there is such a verdict, or drift.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON summary on stdout (not with --out -).")] = False,
) -> None:
    """Verdict, probability and uncertainties of every example, streamed: files may be larger than memory."""
    from collections import Counter

    from rich.console import Console

    from indubio.cli.batch import Batch
    from indubio.cli.drift_watch import DriftWatch
    from indubio.cli.progress import counter
    from indubio.cli.reading import reading_for
    from indubio.cli.streams import named_source
    from indubio.data.sinks import json_text, sink

    if as_json and out == "-":
        raise typer.BadParameter("--json and --out - would both write to stdout. Give --out a file.")
    scorer, known, schema = _loaded(model)
    verdicts: Counter[str] = Counter()
    batch, watch = Batch(fdr), DriftWatch(scorer, drift_alpha, drift_state)
    with named_source(source) as path, sink(out, out_format.value if out_format else None) as writer:
        reading = reading_for(known, schema, path, passed or [])
        with counter("assessed") as count:
            for part in [reading.read(path)] if _decides_over_all(scorer) else reading.stream(path):
                found, why = _assessed(scorer, part, schema, top, contributions)
                for table in batch.ready(_table(part, found, reading, why), found):
                    writer.write(table)
                verdicts.update(found.verdict.tolist())
                watch.see(part, found)
                count(len(found))
        for table in batch.selected():
            writer.write(table)
    summary = {"examples": verdicts.total()} | {name: verdicts[name] for name in ("INLIER", "ANOMALY", "REFER")}
    drifted, drift, alarm = watch.told()
    if as_json:
        typer.echo(json_text(summary | batch.summary() | {"out": out, "drift": drift or drifted}))
    else:
        words = ", ".join(f"{count} {name}" for name, count in list(summary.items())[1:])
        console = Console(stderr=True)
        console.print(f"{summary['examples']} examples: {words}.", highlight=False)
        for line in (*batch.words(), f"Drift: {drifted}."):
            console.print(line, highlight=False, soft_wrap=True, markup=False)
    if fail_on is not None and _found(verdicts, alarm, fail_on):
        raise typer.Exit(FAILED_ON)


def _loaded(model: Path) -> "tuple[Detector | OnnxModel, Reading | None, Schema]":
    if model.suffix.lower() == ".onnx":  # this path must not import torch
        from indubio.export import OnnxModel

        exported = OnnxModel(model)
        return exported, exported.metadata.reading, exported.metadata.schema
    from indubio.storage import load

    detector = load(model)
    return detector, getattr(detector, "reading_", None), detector.schema_


def _decides_over_all(scorer: "Detector | OnnxModel") -> bool:
    """Whether the referral rule must see all examples at once."""
    from indubio.export import OnnxModel

    rule = scorer.metadata.referral if isinstance(scorer, OnnxModel) else scorer.settings_in_use().referral
    return rule.OVER_BATCH


def _assessed(
    scorer: "Detector | OnnxModel", part: "Table | Windows", schema: "Schema", top: int, contributions: bool
) -> "tuple[Assessment, dict[str, pa.Array]]":
    """The assessment, and the columns that say why."""
    from indubio.export import OnnxModel

    if isinstance(scorer, OnnxModel) or not (top or contributions):  # an ONNX graph has no scores per feature
        return scorer.assess(part), {}
    from indubio.explain import explained

    done = explained(scorer, part)
    return done.found, _why(done, schema, top, contributions)


def _why(done: "Explained", schema: "Schema", top: int, contributions: bool) -> "dict[str, pa.Array]":
    """What made the scores of what needs a look; "" or nothing for inliers."""
    import numpy as np
    import pyarrow as pa

    from indubio.explain import explained_names

    columns: dict[str, pa.Array] = {}
    if top:
        texts = np.full(len(done.found), "", dtype=object)
        if done.why is not None:
            texts[done.places] = done.why.top(top).texts()
        columns["top_features"] = pa.array(texts, pa.string())
    if contributions:
        for kind in ("value", "spread"):
            values = np.full((len(done.found), len(explained_names(schema))), np.nan)
            if done.why is not None:
                values[done.places] = getattr(done.why.features, kind)
            for name, column in zip(explained_names(schema), values.T, strict=True):
                word = "contribution" if kind == "value" else kind
                columns[f"{word}: {name}"] = pa.array(column, from_pandas=True)  # NaN becomes an empty cell
    return columns


def _table(part: "Table | Windows", found: "Assessment", reading: "Reading", why: "dict[str, pa.Array]") -> "pa.Table":
    import pyarrow as pa

    from indubio.data.tables import Table

    table = found.to_arrow()
    if isinstance(part, Table) and part.labels is not None and reading.table is not None:
        table = table.append_column(reading.table.label, pa.array(part.labels.astype("int8")))
    for name, column in why.items():
        table = table.append_column(name, column)
    return table


def _found(verdicts: "Counter[str]", drift: bool, wanted: FailOn) -> bool:
    names = ("ANOMALY", "REFER") if wanted is FailOn.ANY else (wanted.value.upper(),)
    return any(verdicts[name] for name in names) or (drift and wanted in (FailOn.ANY, FailOn.DRIFT))
