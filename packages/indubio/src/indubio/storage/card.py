"""The model card: what a model is, for people who find the folder."""

import json
import re
from typing import Any

import numpy as np

from indubio.data import Column
from indubio.detector import Detector
from indubio.prepare import STATISTICS
from indubio.storage.model_manifest import ModelManifest

MOST_COLUMNS = 100  # listed one by one
MOST_CATEGORIES = 20


def card(detector: Detector, manifest: ModelManifest) -> bytes:
    """The model card, as the content of README.md."""
    schema, shape = detector.schema_, detector.input_shape_
    trained = detector.settings_in_use().posterior.TRAINED
    settings = {name: value for name, value in manifest.settings.items() if trained or name != "training"}
    kind = settings["posterior"]["kind"].replace("_", " ")
    example = {
        1: "{} features",
        2: "windows of {} samples of {} sensors",
        3: "images of {} x {} pixels, {} channels",
    }[len(shape)].format(*shape)
    columns = schema.columns[:MOST_COLUMNS]
    left = len(schema.columns) - len(columns)
    lines = [
        "# Anomaly detector",
        "",
        f"Bayesian autoencoder ({kind}, {detector.draws_.count} draws), trained on {detector.n_training_} examples "
        f"of {example}.",
        "For every example it gives the probability of an anomaly, how unsure it is and why, and a verdict: inlier, "
        "anomaly, or refer to a person.",
        "",
        "```python",
        "import indubio",
        "",
        f"detector = {_call(settings)}",
        "detector.assess(examples)",
        "```",
        "",
        "## What it was trained on",
        "",
        "| column | kind | training values |",
        "|---|---|---|",
        *(f"| {_text(column.name)} | {column.kind} | {_values(column)} |" for column in columns),
        *([f"| and {left} more, see manifest.json | | |"] if left else []),
        "",
        *_spectra(detector),
        *_findings(detector),
        "## How it decides",
        "",
        *_rate(detector),
        f"- anomaly: mean probability of at least {detector.decision_threshold:g}",
        f"- refer: {_referral(detector, settings['referral'])}",
        *(
            []
            if detector.novelty_limit is None
            else [f"- refer as unfamiliar: novelty above {detector.novelty_limit:g}"]
        ),
        f"- calibrated on {detector.n_reference_} examples ({settings['calibration']['kind']})",
        *_special(detector),
        f"- missing values: {detector.missing}; new categories: {detector.unseen}",
        f"- largest mean score of a reference example: {detector.largest_reference_nll_:.6g}",
        "",
        "## Settings",
        "",
        "```json",
        json.dumps(settings, indent=2),
        "```",
        "",
        f"Written by indubio {manifest.indubio}, format {manifest.format}, for the manifest with the checksum "
        f"{manifest.checksum[:12]}. `load` does not read this file: it may be edited.",
        "",
    ]
    return "\n".join(lines).encode()


def _rate(detector: Detector) -> list[str]:
    rate = detector.fitted_chain.calibrated.false_alarms
    told, unseen = f"- rate of false alarms: {100 * rate:g} % of good examples", detector.unseen_alarms_
    if unseen is None:
        return [told]
    mean, best, worst = (f"{100 * share:.0f}" for share in (unseen.mean(), unseen.min(), unseen.max()))
    return [f"{told}; of stretches that it had not seen {mean} % (best {best}, worst {worst})"]


def _spectra(detector: Detector) -> list[str]:
    spectra = detector.preparation_.spectra
    if spectra is None:
        return []
    rate = "" if spectra.rate is None else f" at {spectra.rate:g} samples a second"
    more = f", {len(STATISTICS)} statistics" if spectra.spectra.statistics else ""
    more += f", {len(spectra.shapes.chosen)} shapes by energy, skewness and spikiness" if spectra.shapes.chosen else ""
    return [
        f"Of every window it sees {spectra.count} features, {spectra.per_sensor} per sensor: means of "
        f"{len(spectra.block_edges) - 1} blocks, RMS, kurtosis, energies of {len(spectra.band_edges) - 1} frequency "
        f"bands and of {len(spectra.envelope_edges) - 1} bands of the envelope{more}{rate}.",
        "",
    ]


def _findings(detector: Detector) -> list[str]:
    if not detector.findings_:
        return []
    lines = [f"- {_text(str(finding))}" for finding in detector.findings_]
    return ["## Before you rely on it", "", *lines, ""]


def _special(detector: Detector) -> list[str]:
    lines = []
    by_group, learned = detector.group_conversions_, detector.correction_
    if by_group is not None:
        names = ", ".join(_text(name) for name in by_group.names[:MOST_CATEGORIES])
        lines.append(f"- probabilities of their own: {len(by_group.names)} groups ({names})")
    if learned is not None:
        lines.append(f"- corrected by {learned.reviewed} labels, {learned.anomalies} of anomalies")
    return lines


def _call(settings: dict[str, Any]) -> str:
    own = settings["architecture"]["kind"] == "own"
    return f'indubio.load("path/to/this/folder"{", architecture=OwnNetwork(encoder=..., decoder=...)" if own else ""})'


def _referral(detector: Detector, rule: dict[str, Any]) -> str:
    if not np.isfinite(detector.referral_threshold_):
        return "nothing for its uncertainty"
    words = detector.settings_in_use().referral.in_words(detector.referral_threshold_)
    if words is None:
        return ", ".join(
            f"{name.replace('_', ' ')} {value}" for name, value in rule.items() if name != "by" and value is not None
        )
    return f"{words} (at most {100 * rule['share']:g} % of good examples)" if rule["kind"] == "budget" else words


def _values(column: Column) -> str:
    if column.kind == "category":
        more = ", ..." if len(column.categories) > MOST_CATEGORIES else ""
        return ", ".join(_text(name) for name in column.categories[:MOST_CATEGORIES]) + more
    return "not known" if column.smallest is None else f"{column.smallest:.6g} to {column.largest:.6g}"


def _text(name: str) -> str:
    """A name from the data, so that it stays within its cell and is no markup."""
    shown = name.encode("utf-8", "replace").decode()
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~-])", r"\\\1", " ".join(shown.split()))
