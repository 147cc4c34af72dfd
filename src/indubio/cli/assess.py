"""`indubio assess`: new examples in, verdicts out."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections import Counter

    import numpy as np
    import pyarrow as pa

    from indubio.assessment import Assessment
    from indubio.data import Schema
    from indubio.data.reading import Reading
    from indubio.data.tables import Table
    from indubio.data.windows import Windows
    from indubio.detector import Detector
    from indubio.export import OnnxModel

FAILED_ON = 3  # exit code when --fail-on found what it looked for


class FailOn(StrEnum):
    """What makes `assess` exit with code 3."""

    ANOMALY = "anomaly"
    REFER = "refer"
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
    fail_on: Annotated[
        FailOn | None, typer.Option(help=f"Exit with code {FAILED_ON} when there is such a verdict.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON summary on stdout (not with --out -).")] = False,
) -> None:
    """Verdict, probability and uncertainties of every example, streamed: files may be larger than memory."""
    from collections import Counter

    from rich.console import Console

    from indubio.cli.batch import Batch
    from indubio.cli.progress import counter
    from indubio.cli.reading import reading_for
    from indubio.cli.streams import named_source
    from indubio.data.sinks import json_text, sink

    if as_json and out == "-":
        raise typer.BadParameter("--json and --out - would both write to stdout. Give --out a file.")
    scorer, known, schema = _loaded(model)
    verdicts: Counter[str] = Counter()
    batch = Batch(fdr)
    with named_source(source) as path, sink(out, out_format.value if out_format else None) as writer:
        reading = reading_for(known, schema, path, passed or [])
        with counter("assessed") as count:
            for part in [reading.read(path)] if _decides_over_all(scorer) else reading.stream(path):
                found = scorer.assess(part)
                for table in batch.ready(_table(scorer, part, found, reading, top), found):
                    writer.write(table)
                verdicts.update(found.verdict.tolist())
                count(len(found))
        for table in batch.selected():
            writer.write(table)
    summary = {"examples": verdicts.total()} | {name: verdicts[name] for name in ("INLIER", "ANOMALY", "REFER")}
    if as_json:
        typer.echo(json_text(summary | batch.summary() | {"out": out}))
    else:
        words = ", ".join(f"{count} {name}" for name, count in list(summary.items())[1:])
        console = Console(stderr=True)
        console.print(f"{summary['examples']} examples: {words}.", highlight=False)
        for line in batch.words():
            console.print(line, highlight=False, soft_wrap=True)
    if fail_on is not None and _found(verdicts, fail_on):
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


def _table(
    scorer: "Detector | OnnxModel", part: "Table | Windows", found: "Assessment", reading: "Reading", top: int
) -> "pa.Table":
    import pyarrow as pa

    from indubio.data.tables import Table
    from indubio.export import OnnxModel

    table = found.to_arrow()
    if isinstance(part, Table) and part.labels is not None and reading.table is not None:
        table = table.append_column(reading.table.label, pa.array(part.labels.astype("int8")))
    if top and not isinstance(scorer, OnnxModel):  # an ONNX graph has no scores per feature
        table = table.append_column("top_features", pa.array(_top(scorer, part, found, top), pa.string()))
    return table


def _top(detector: "Detector", part: "Table | Windows", found: "Assessment", top: int) -> "np.ndarray":
    """The top features of what needs a look, as "pressure 62 %, flow 20 %"; "" for inliers."""
    import numpy as np

    from indubio.explain import chosen_examples, contributions

    texts = np.full(len(found), "", dtype=object)
    places = np.flatnonzero(found.verdict != "INLIER")
    if len(places):
        largest = contributions(detector, chosen_examples(part, places)).top(top)
        for place, names, shares in zip(places, largest.names, largest.shares, strict=True):
            texts[place] = ", ".join(f"{name} {100 * share:.0f} %" for name, share in zip(names, shares, strict=True))
    return texts


def _found(verdicts: "Counter[str]", wanted: FailOn) -> bool:
    names = ("ANOMALY", "REFER") if wanted is FailOn.ANY else (wanted.value.upper(),)
    return any(verdicts[name] for name in names)
