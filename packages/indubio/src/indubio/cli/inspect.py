"""`indubio inspect`: what is in a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from indubio.detector import Detector
    from indubio.storage import ModelManifest


def inspect(
    model: Annotated[Path, typer.Argument(help="Folder of the model.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Settings, columns, training summary and checksums of a model; every file is verified on the way."""
    from indubio.io import json_text
    from indubio.storage import read_model

    manifest, detector = read_model(model)  # refuses what is damaged
    if as_json:
        import dataclasses

        typer.echo(json_text(dataclasses.asdict(manifest)))
        return
    _print(_sections(manifest, detector))


def _print(sections: dict[str, dict[str, str]]) -> None:
    from rich.table import Column, Table

    from indubio.cli.consoles import terminal

    console = terminal()
    for title, rows in sections.items():
        table = Table("name", Column("value", overflow="fold"), show_header=False, box=None, padding=(0, 2, 0, 2))
        for name, value in rows.items():
            table.add_row(name, value)
        console.print(title, style="bold")
        console.print(table)


def _sections(manifest: "ModelManifest", detector: "Detector") -> dict[str, dict[str, str]]:
    from indubio.cli.by_flags import by_flags
    from indubio.networks import engine_for

    fitted = manifest.fitted
    prepared = fitted["preparation_"]
    trained = detector.settings_in_use().posterior.TRAINED
    settings = {name: _words(value) for name, value in manifest.settings.items() if trained or name != "training"}
    columns = {column["name"]: _column(column) for column in prepared["schema"]["columns"]}
    training = {
        "examples": str(fitted["n_training_"]),
        "shape of one": " x ".join(map(str, prepared["input_shape"])),
        "draws": str(manifest.draws["count"]),
        "calibrated on": f"{detector.n_reference_} examples",
        "largest score": f"{detector.largest_reference_nll_:.4g}",
    }
    chain = detector.fitted_chain
    rate, limit = chain.calibrated.false_alarms, chain.decider.novelty_limit
    verdicts = {
        "false alarms": f"{100 * rate:g} % of good examples",
        "anomaly": f"probability of {detector.decision_threshold:g} or more",
        "refers above": str(detector.referral_threshold_),
        "novelty limit": "none" if limit is None else f"{limit:g}",
    }
    if detector.draws_.mixing is not None:
        training["chains"] = str(detector.draws_.mixing)
    training |= {name: f"{value:.4g}" for name, value in (detector.draws_.facts or {}).items()}
    spectra = detector.preparation_.spectra
    if spectra is not None:
        training["features of one"] = f"{spectra.count}, {spectra.per_sensor} of each sensor"
    files = {file.name: f"{file.size:,} bytes, sha256 {file.sha256}" for file in manifest.files.values()}
    about = {
        "format": str(manifest.format),
        "written by": f"indubio {manifest.indubio}",
        "checksum": manifest.checksum,
        "runs here on": engine_for(detector.draws_.autoencoder).name,
    }
    findings = {one.kind: by_flags(str(one)) for one in detector.findings_}
    reading = {"files": _words(prepared["reading"])} if prepared["reading"] is not None else {}
    return {
        "Model": about,
        "Settings": settings,
        "Columns": columns,
        "Training": training | reading,
        "Verdicts": verdicts,
        **({"Before you rely on it": findings} if findings else {}),
        "Files": files,
    }


def _words(value: Any) -> str:
    if isinstance(value, dict):
        kind = str(value.get("kind", ""))
        rest = ", ".join(f"{key} {_words(item)}" for key, item in value.items() if key != "kind" and item is not None)
        return f"{kind} ({rest})" if kind and rest else kind or rest
    return str(value)


def _column(column: dict[str, Any]) -> str:
    if column["kind"] == "category":
        return "one of " + ", ".join(column["categories"])
    if column["smallest"] is None:
        return "no value"
    return f"{column['smallest']:.6g} to {column['largest']:.6g}"
