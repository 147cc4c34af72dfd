"""Drift while `indubio assess` runs: what was seen so far, kept in a file between runs where the user wants that."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indubio.assessment import Assessment
    from indubio.detector import Detector
    from indubio.drift import DriftMonitor
    from indubio.export import OnnxModel
    from indubio.inputs.examples import Examples


class DriftWatch:
    """Sees every part that is assessed.

    Args:
        scorer: what assesses.
        alpha: largest probability of ever raising a false alarm.
        path: file to go on from and to write to; None starts anew and forgets.
    """

    def __init__(self, scorer: "Detector | OnnxModel", alpha: float, path: Path | None) -> None:
        self._scorer, self._alpha, self._path = scorer, alpha, path
        self._monitor = self._kept()

    def see(self, part: "Examples", found: "Assessment") -> None:
        """One more part; rows that are labelled as anomalies are counted, but not tested."""
        from indubio.export import OnnxModel

        if isinstance(self._scorer, OnnxModel):
            return
        from indubio.drift import DriftTest

        test = DriftTest(alpha=self._alpha)
        self._monitor = self._scorer.monitored(
            part, found.p_value, self._monitor, test=test, known_anomalies=part.labels
        )

    def told(self) -> tuple[str, dict[str, Any] | None, bool]:
        """In words, as plain data (None where nothing could be tested), and whether there is an alarm."""
        from indubio.export import OnnxModel

        if self._monitor is None:
            why = "an ONNX model" if isinstance(self._scorer, OnnxModel) else "this model, of an earlier version,"
            return f"not tested: {why} keeps no reference", None, False
        if self._path is not None:
            from indubio.io.whole_files import whole_file

            with whole_file(self._path) as file:
                file.write(json.dumps(self._monitor.to_plain()).encode())
        drift = self._monitor.drift()
        return str(drift), drift.to_plain(), drift.alarm

    def _kept(self) -> "DriftMonitor | None":
        from indubio.export import OnnxModel

        reference = None if isinstance(self._scorer, OnnxModel) else self._scorer.drift_reference_
        if reference is None or self._path is None or not self._path.exists():
            return None
        from indubio.drift import DriftMonitor
        from indubio.errors import DataError

        try:
            return DriftMonitor.resumed(reference, json.loads(self._path.read_text()))
        except ValueError as error:
            raise DataError(f"{self._path}: {error} Give another file to --drift-state.") from None
