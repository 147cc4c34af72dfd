"""`OnnxModel`: runs an exported file by ONNX Runtime, and says what the detector says.

It is what the exported graph is tested by, and shows what is to be done around the graph in another language. Commands
and the server take the model's folder.
"""

from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from indubio.chain import Assessment, Decider, Scored
from indubio.data import Examples, Rows, require_numbers
from indubio.errors import DataError, MissingExtraError, ModelFileError
from indubio.export.file_digest import check_digest
from indubio.export.metadata import KEY, Metadata
from indubio.judging import Conformal, Uncertainty
from indubio.prepare import Beside

_NAMES = tuple(field.name for field in fields(Uncertainty))


class OnnxModel:
    """A detector that was exported by `export_onnx`.

    Attributes:
        metadata: columns, checks and thresholds of the detector that was exported.
        anomaly_threshold: an anomaly has at least this mean probability; may be changed.
        referral_threshold: what the referral rule compares with; may be changed.
    """

    def __init__(self, path: str | PathLike[str] | bytes) -> None:
        """Load an exported model; one that does not match the digest in it is refused.

        Args:
            path: the ONNX file, or its content.
        """
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtraError('scoring an ONNX model needs onnxruntime: pip install "indubio[onnx]".') from None
        model = path if isinstance(path, bytes) else _content(Path(path))
        path = "the ONNX model" if isinstance(path, bytes) else path
        check_digest(model, str(path))
        try:
            self._session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
            about = self._session.get_modelmeta().custom_metadata_map
        except Exception as error:  # noqa: BLE001 - onnxruntime's errors have no common base of their own
            raise ModelFileError(f"{path}: not an ONNX model that can be read ({error}).") from None
        if KEY not in about:
            raise ModelFileError(f"{path}: an ONNX model, but not one that indubio exported.")
        self._outputs = [output.name for output in self._session.get_outputs()]
        self.metadata = Metadata.from_json(about[KEY])
        self.anomaly_threshold = self.metadata.anomaly_threshold
        self.referral_threshold = self.metadata.referral_threshold

    def assess(self, X: Any, *, groups: Any = None) -> Assessment:
        """Verdict, probability and uncertainties of every example, as `Detector.assess` gives them."""
        about = self.metadata
        known = about.preparation
        examples = X if isinstance(X, Examples) else Rows(values=_array(X), names=known.schema.encoded_names)
        rows, beside = known.rows(examples), Beside.of(examples, groups)
        found = self._run(rows.values)
        scored = Scored(
            nll=found["nll"],
            conformal=Conformal.of(about.reference, found["part_nll"], beside.groups),
            novelty=found["novelty"],
            uncertainty=Uncertainty(**{name: found[name] for name in _NAMES if name in found}),
        )
        decider = Decider(
            rule=about.referral,
            referral_threshold=self.referral_threshold,
            anomaly_threshold=self.anomaly_threshold,
            reference=about.reference,
            n_reference=about.n_reference,
            novelty_limit=about.novelty_limit,
        )
        inspected = known.inspect(rows)
        told = about.reference.notes(beside.groups)
        notes = [inspected.notes] if told is None else [inspected.notes, told]
        return decider.assessment(scored, decider.decision(scored, inspected, beside.days), beside, notes)

    def _run(self, values: Float[np.ndarray, "examples ..."]) -> dict[str, np.ndarray]:
        inputs = {
            "rows": np.ascontiguousarray(values, dtype=np.float64),
            "anomaly_threshold": np.array(self.anomaly_threshold),
            "referral_threshold": np.array(self.referral_threshold),
        }
        return dict(zip(self._outputs, self._session.run(self._outputs, inputs), strict=True))


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise ModelFileError(f"{path}: there is no such file.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read ({error.strerror}).") from None


def _array(X: Any) -> Float[np.ndarray, "examples ..."]:
    require_numbers(X)
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the rows must be numbers: {error}.") from None
    if len(values) == 0:
        raise DataError("there are no rows.")
    return values
