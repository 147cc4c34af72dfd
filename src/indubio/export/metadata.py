"""What an exported model says of itself: columns, checks, thresholds and how files are read, as JSON in the ONNX file.

Nothing here imports torch: it is read where torch is not installed.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from indubio.conformal import Reference
from indubio.decision import REFERRALS, LimitedReviews, Referral
from indubio.errors import ModelFileError
from indubio.export.file_digest import KEY as DIGEST
from indubio.inputs import (
    Column,
    FittedScaling,
    FittedSpectra,
    ImageFiles,
    Intake,
    Long,
    Roles,
    Schema,
    Spectra,
    Wide,
    Windowing,
)
from indubio.inputs.quality import QualityLimits
from indubio.inputs.reading import Reading
from indubio.settings import Settings

KEY = "indubio"
FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """All that is beside the graph.

    Args:
        input_shape: shape of one example.
        schema: columns or sensors of the training data.
        intake: checks of incoming rows; the graph itself fills in and scales.
        anomaly_threshold: of the detector that was exported.
        referral_threshold: likewise.
        referral: the referral rule that the threshold is of.
        reference: scores that p-values are made from; None where the detector has none.
        n_reference: how many reference examples there are.
        novelty_limit: what is more novel is referred; None refers nothing for that.
        reading: how files are read, where the detector was fitted on files.
    """

    input_shape: tuple[int, ...]
    schema: Schema
    intake: Intake
    anomaly_threshold: float
    referral_threshold: float
    referral: Referral
    reference: Reference | None
    n_reference: int
    reading: Reading | None
    novelty_limit: float | None = None

    def to_json(self) -> str:
        """As text for the model's metadata."""
        plain = asdict(self) | {"format": FORMAT, "digest": DIGEST}
        kinds = {rule: kind for kind, rule in REFERRALS.items()}
        plain["referral"]["kind"] = kinds[type(self.referral)]
        if self.reading is not None and self.reading.layout is not None:
            plain["reading"]["layout"]["kind"] = type(self.reading.layout).__name__.lower()
        return json.dumps(plain, default=lambda array: array.tolist())

    @classmethod
    def from_json(cls, text: str, *, has_digest: bool) -> "Metadata":
        """Back from text, as `to_json` gave it.

        Args:
            text: the JSON.
            has_digest: whether the file has a digest of itself; one that was exported with it must.
        """
        plain = json.loads(text)
        if plain.get("digest") and not has_digest:
            raise ModelFileError("the ONNX model has lost its digest: the file is damaged or was changed.")
        if plain.get("format") != FORMAT:
            raise ModelFileError(
                f"the ONNX model has metadata of format {plain.get('format')}, and this version reads {FORMAT}. "
                "Export it again, or install the version that exported it."
            )
        columns = [
            Column(**column | {"categories": tuple(column["categories"])}) for column in plain["schema"]["columns"]
        ]
        reading = plain["reading"]
        return cls(
            input_shape=tuple(plain["input_shape"]),
            schema=Schema(tuple(columns)),
            intake=_intake(plain["intake"]),
            anomaly_threshold=plain["anomaly_threshold"],
            referral_threshold=plain["referral_threshold"],
            referral=_referral(plain["referral"]),
            reference=None if plain["reference"] is None else _reference(plain["reference"]),
            n_reference=plain["n_reference"],
            novelty_limit=plain.get("novelty_limit"),
            reading=None if reading is None else _reading(reading),
        )


def _intake(plain: Mapping[str, Any]) -> Intake:
    medians, quality = plain["medians"], plain["quality"]
    return Intake(
        scaling=_scaling(plain["scaling"]),
        medians=None if medians is None else np.array(medians),
        missing=plain["missing"],
        unseen=plain["unseen"],
        quality=None
        if quality is None
        else QualityLimits(**{name: np.array(values, dtype=float) for name, values in quality.items()}),
        margin=plain["margin"],
        spectra=_spectra(plain.get("spectra")),
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
    if issubclass(REFERRALS[plain["kind"]], LimitedReviews):
        plain = {"inlier_weight": 1.0} | dict(plain)  # as it was before the two kinds counted differently
    return REFERRALS[plain["kind"]](**{name: value for name, value in plain.items() if name != "kind"})


def _reference(plain: Mapping[str, Any]) -> Reference:
    groups, group = plain["groups"], plain["group"]
    return Reference(
        scores=np.array(plain["scores"], dtype=np.float64),
        part=np.array(plain["part"], dtype=np.int64),
        unseen=plain["unseen"],
        groups=None if groups is None else tuple(groups),
        group=None if group is None else np.array(group, dtype=np.int32),
        dropped=plain.get("dropped", 0),
    )


def _reading(plain: Mapping[str, Any]) -> Reading:
    layout = plain["layout"]
    kind: type[Settings] = Wide if layout is not None and layout["kind"] == "wide" else Long
    return Reading(
        table=None if plain["table"] is None else Roles(**_tuples(plain["table"])),
        layout=None if layout is None else kind(**_tuples({k: v for k, v in layout.items() if k != "kind"})),  # type: ignore[arg-type]
        images=None if plain.get("images") is None else ImageFiles(**_tuples(plain["images"])),
        windowing=None if plain["windowing"] is None else Windowing(**_tuples(plain["windowing"])),
    )


def _tuples(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _tupled(value) for name, value in plain.items()}


def _tupled(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return _tuples(value) if isinstance(value, dict) else value
