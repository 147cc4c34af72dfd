"""What an exported model says of itself: columns, checks and thresholds, as JSON in the ONNX file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from indubio.data import Column, Schema
from indubio.decision import REFERRALS, Referral
from indubio.errors import ModelFileError
from indubio.judging import Reference
from indubio.prepare import FittedScaling, FittedSpectra, Preparation, QualityLimits, Spectra

KEY = "indubio"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """All that is beside the graph.

    Args:
        preparation: names and checks of incoming rows; the graph itself fills in and scales.
        anomaly_threshold: of the detector that was exported.
        referral_threshold: likewise.
        referral: the referral rule that the threshold is of.
        reference: scores that p-values are made from.
        n_reference: how many reference examples there are.
        novelty_limit: what is more novel is referred; None refers nothing for that.
    """

    preparation: Preparation
    anomaly_threshold: float
    referral_threshold: float
    referral: Referral
    reference: Reference
    n_reference: int
    novelty_limit: float | None

    def to_json(self) -> str:
        """The metadata as text, as the file of the model keeps it."""
        plain = asdict(self) | {"format": FORMAT}
        kinds = {rule: kind for kind, rule in REFERRALS.items()}
        plain["referral"]["kind"] = kinds[type(self.referral)]
        return json.dumps(plain, default=lambda array: array.tolist())

    @classmethod
    def from_json(cls, text: str) -> "Metadata":
        """The metadata that `to_json` made a text of."""
        plain = json.loads(text)
        if plain.get("format") != FORMAT:
            raise ModelFileError(
                f"the ONNX model has metadata of format {plain.get('format')}, and this version reads {FORMAT}. "
                "Export it again, or install the version that exported it."
            )
        return cls(
            preparation=_preparation(plain["preparation"]),
            anomaly_threshold=plain["anomaly_threshold"],
            referral_threshold=plain["referral_threshold"],
            referral=_referral(plain["referral"]),
            reference=_reference(plain["reference"]),
            n_reference=plain["n_reference"],
            novelty_limit=plain["novelty_limit"],
        )


def _preparation(plain: Mapping[str, Any]) -> Preparation:
    medians, quality = plain["medians"], plain["quality"]
    columns = [Column(**column | {"categories": tuple(column["categories"])}) for column in plain["schema"]["columns"]]
    return Preparation(
        schema=Schema(tuple(columns)),
        named=plain["named"],
        input_shape=tuple(plain["input_shape"]),
        scaling=_scaling(plain["scaling"]),
        medians=None if medians is None else np.array(medians),
        missing=plain["missing"],
        unseen=plain["unseen"],
        quality=None
        if quality is None
        else QualityLimits(**{name: np.array(values, dtype=float) for name, values in quality.items()}),
        margin=plain["margin"],
        spectra=_spectra(plain["spectra"]),
    )


def _scaling(plain: Mapping[str, Any]) -> FittedScaling:
    numbers = {name: np.array(value) for name, value in plain.items() if isinstance(value, list)}
    return FittedScaling(clip=plain["clip"], **numbers)


def _spectra(plain: Mapping[str, Any] | None) -> FittedSpectra | None:
    if plain is None:
        return None
    arrays = {name: np.array(plain[name], dtype=np.float64) for name in ("floor", "smallest", "largest")}
    return FittedSpectra(**(dict(plain) | arrays | {"spectra": Spectra(**plain["spectra"])}))


def _referral(plain: Mapping[str, Any]) -> Referral:
    return REFERRALS[plain["kind"]](**{name: value for name, value in plain.items() if name != "kind"})


def _reference(plain: Mapping[str, Any]) -> Reference:
    groups, group = plain["groups"], plain["group"]
    return Reference(
        scores=np.array(plain["scores"], dtype=np.float64),
        part=np.array(plain["part"], dtype=np.int64),
        unseen=plain["unseen"],
        groups=None if groups is None else tuple(groups),
        group=None if group is None else np.array(group, dtype=np.int32),
        dropped=plain["dropped"],
    )
