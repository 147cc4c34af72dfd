"""Drift while `indubio assess` runs: what was seen so far, kept in a file between runs where the user wants that."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indubio.drift import DriftTest
from indubio.errors import DataError
from indubio.io import whole_file

if TYPE_CHECKING:
    from indubio.chain import Assessment
    from indubio.data import Examples
    from indubio.judge import Judge


class DriftWatch:
    """Sees every part that is assessed.

    Args:
        judge: what assesses.
        alpha: largest probability of ever raising a false alarm.
        path: file to go on from and to write to; None starts anew and forgets.
    """

    def __init__(self, judge: "Judge", alpha: float, path: Path | None) -> None:
        self._judge, self._path = judge, path
        try:
            kept = json.loads(path.read_text()) if path is not None and path.exists() else None
            self._monitor = judge.drift_monitor(DriftTest(alpha=alpha), kept)
        except ValueError as error:
            raise DataError(f"{path}: {error} Give another file to --drift-state.") from None

    def see(self, part: "Examples", found: "Assessment") -> None:
        """One more part; rows that are labelled as anomalies are counted, but not tested."""
        self._monitor = self._judge.detector.monitored(part, found.p_value, self._monitor, known_anomalies=part.labels)

    def told(self) -> tuple[str, dict[str, Any], bool]:
        """Drift in words, as plain data, and whether there is an alarm."""
        if self._path is not None:
            with whole_file(self._path) as file:
                file.write(json.dumps(self._monitor.to_plain()).encode())
        drift = self._monitor.drift()
        return str(drift), drift.to_plain(), drift.alarm
