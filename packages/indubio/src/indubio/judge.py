"""Judge: a model in use, by a command, a batch, the server, live data or an assistant.

model folder -> detector, how its files were read, digest -> examples of new files -> Assessment, drift
"""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from re import fullmatch
from typing import Any

import pyarrow as pa

from indubio.chain import COLUMNS, OUTPUT_COLUMNS, Assessment
from indubio.data import Examples, Reading, Windowing, opened_for, reading_for
from indubio.decision import Referral
from indubio.detector import Detector
from indubio.drift import DriftMonitor, DriftTest
from indubio.errors import ConfigError, ModelFileError, quoted
from indubio.io import FileFormat
from indubio.storage import read_model


@dataclass(frozen=True, kw_only=True, eq=False)
class Judge:
    """A model in use: what it says of examples, how their files are read, and which model it is.

    Args:
        detector: gives verdicts, and reasons for them.
        digest: checksum of the model's manifest, which has those of all its files.
    """

    detector: Detector
    digest: str

    @classmethod
    def load(cls, path: str | PathLike[str], *, sha256: str | None = None) -> "Judge":
        """From the folder of a model.

        Args:
            path: the folder.
            sha256: checksum of the manifest that it must have; None takes any.
        """
        folder = Path(path)
        manifest, detector = read_model(folder)
        check_pinned(manifest.checksum, sha256, str(folder))
        return cls(detector=detector, digest=manifest.checksum)

    @property
    def known_reading(self) -> Reading | None:
        """How the files were read that the model was fitted on; None where it was fitted on arrays."""
        return self.detector.reading_

    @property
    def rule(self) -> Referral:
        """Which verdicts go to a person."""
        return self.detector.fitted_chain.decider.rule

    @property
    def grouped_by(self) -> str | None:
        """The column whose rows of one value belong together, for a model of windows that may go on over files."""
        known = self.known_reading
        return None if known is None or known.layout is None else known.layout.group

    @property
    def windowing(self) -> Windowing | None:
        """How windows are cut; None for a model of rows."""
        return None if self.known_reading is None else self.known_reading.windowing

    @property
    def row_by_row(self) -> bool:
        """Whether rows are examples, so that a file can be cut anywhere."""
        return self.known_reading is None or self.known_reading.table is not None

    def opened(self, source: Any, file_format: FileFormat | None = None) -> Any:
        """The files of a source, opened once; images stay as they are named.

        Args:
            source: file, folder, pattern, frame or table.
            file_format: what is asked of the files; the rest is found out, as the training files were first.
        """
        return opened_for(self.known_reading, source, file_format)

    def reading(
        self,
        source: Any,
        passed: tuple[str, ...] = (),
        label: str | None = None,
        anomaly_values: tuple[str, ...] | None = None,
        file_format: FileFormat | None = None,
    ) -> Reading:
        """How files are read for this model.

        Args:
            source: the files.
            passed: columns to pass through to the output.
            label: column of labels to pass on as 0 and 1, where it is not the one the model knows; "" for none.
            anomaly_values: its values that mean anomaly; None takes those that the model knows of this column.
            file_format: what is asked of the files; the rest is found out.
        """
        schema = self.detector.schema_
        reading = reading_for(self.known_reading, schema, source, passed, label, anomaly_values, file_format)
        refuse_output_names(reading)
        return reading

    def assessed(
        self, part: Examples, reading: Reading, *, top: int = 0, contributions: bool = False, full: bool = True
    ) -> tuple[Assessment, pa.Table]:
        """What is found in a part of a file, and as the table to write.

        Args:
            part: rows, windows or images.
            reading: how they were read.
            top: so many top features of each anomaly and referral.
            contributions: also what every feature adds to the score.
            full: all columns and digits; else those that people read.
        """
        found = self.detector.assess(part, explain=top > 0 or contributions)
        table = found.to_arrow(top=top, contributions=contributions, full=full)
        labels = part.labels
        if labels is not None and reading.label is not None and reading.label not in table.column_names:
            table = table.append_column(reading.label, pa.array(labels.astype("int8"), mask=part.unlabelled))
        return found, table

    def drift_monitor(self, test: DriftTest, kept: Mapping[str, Any] | None = None) -> DriftMonitor:
        """What watches new data for drift; `detector.monitored` brings it on.

        Args:
            test: how strict a new one is.
            kept: what an earlier one was as plain data, to go on from; None starts anew.
        """
        reference = self.detector.drift_reference_
        return DriftMonitor.fresh(reference, test) if kept is None else DriftMonitor.resumed(reference, kept)


def check_pinned(digest: str, wanted: str | None, where: str) -> None:
    """Refuse a model that is not the one that was pinned by its sha256.

    Args:
        digest: checksum of the model's manifest.
        wanted: what it must be; None takes any.
        where: the model, for the message.
    """
    if wanted is None:
        return
    if not fullmatch(r"[0-9a-fA-F]{64}", wanted):
        raise ConfigError(f"`sha256` must have 64 hexadecimal digits, got {wanted!r}.")
    if digest != wanted.lower():
        raise ModelFileError(
            f"{where} has the sha256 {digest}, and {wanted.lower()} was asked for: it is another model."
        )


def refuse_output_names(reading: Reading) -> None:
    """Refuse columns that are passed on under a name of the output: they would be taken for what the model says."""
    columns = reading.table or reading.layout
    if columns is None:
        return
    named = (*columns.ids, columns.time, columns.group, columns.label)
    taken = [name for name in dict.fromkeys(named) if name in OUTPUT_COLUMNS or str(name).startswith(COLUMNS)]
    if taken:
        raise ConfigError(
            "columns {names} of the input have names of the output, where they would be taken for what the "
            'model says. Rename them in the file; or leave them out of `ids` and `label` (--label "" where a model '
            "knows the column).",
            names=quoted(taken),
        )
