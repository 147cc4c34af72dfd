"""From a part of a file to its table of results, by a detector or an exported model.

Nothing here imports the networks before a detector is loaded: an ONNX model is assessed without them.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from indubio.errors import ConfigError, quoted
from indubio.export import OnnxModel
from indubio.export.file_digest import check_pinned
from indubio.inputs.examples import Examples
from indubio.inputs.reading import Reading, reading_for
from indubio.inputs.windows import Windowing
from indubio.io.file_format import UNSAID, FileFormat
from indubio.io.sources import Source, opened

if TYPE_CHECKING:
    from indubio.assessment import Assessment
    from indubio.detector import Detector


EXPLAINED = ("contribution: ", "spread: ")  # how columns begin that say what features add


class Assessor:
    """A model, and what it knows of the files it was fitted on.

    Args:
        scorer: a fitted detector, or an exported one.
    """

    def __init__(self, scorer: "Detector | OnnxModel") -> None:
        self.scorer = scorer
        if isinstance(scorer, OnnxModel):
            self._known, self.schema = scorer.metadata.reading, scorer.metadata.schema
        else:
            self._known, self.schema = scorer.reading_, scorer.schema_

    @classmethod
    def load(cls, model: Path, *, sha256: str | None = None) -> "Assessor":
        """From the folder of a model, or an ONNX file.

        Args:
            model: the folder or file.
            sha256: of the file, or checksum of the folder's manifest, that it must have; None takes any.
        """
        if is_onnx(model):
            return cls(OnnxModel(model, sha256=sha256))
        from indubio.storage import load, read_manifest

        if sha256 is not None:
            check_pinned(read_manifest(model).checksum, sha256, str(model))
        return cls(load(model).ready())

    @property
    def decides_over_all(self) -> bool:
        """Whether the referral rule must see all examples at once."""
        if isinstance(self.scorer, OnnxModel):
            return self.scorer.metadata.referral.OVER_BATCH
        return self.scorer.settings_in_use().referral.OVER_BATCH

    @property
    def grouped_by(self) -> str | None:
        """The column whose rows of one value belong together, for a model of windows that may go on over files."""
        return None if self._known is None or self._known.layout is None else self._known.layout.group

    @property
    def windowing(self) -> Windowing | None:
        """How windows are cut; None for a model of rows."""
        return None if self._known is None else self._known.windowing

    @property
    def row_by_row(self) -> bool:
        """Whether rows are examples, so that a file can be cut anywhere."""
        return self._known is None or self._known.table is not None

    def reading(
        self,
        source: Any,
        passed: tuple[str, ...],
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
        reading = reading_for(self._known, self.schema, source, passed, label, anomaly_values, file_format)
        refuse_output_names(reading)
        return reading

    def files(self, source: Any, file_format: FileFormat | None) -> list[Source]:
        """The files of a source, opened; what is not asked of them is found out, as the training files were first."""
        known = self._known.file_format if self._known is not None else None
        return opened(source, (known or UNSAID).changed(file_format))

    def assessed(
        self, part: Examples, reading: Reading, *, top: int, contributions: bool
    ) -> "tuple[Assessment, pa.Table]":
        """What is found in a part, and as the table to write.

        Args:
            part: rows, windows or images.
            reading: how they were read.
            top: so many top features of each anomaly and referral.
            contributions: also what every feature adds to the score.
        """
        if isinstance(self.scorer, OnnxModel) or not (top or contributions):  # an ONNX graph has no score per feature
            found = self.scorer.assess(part)
            table = found.to_arrow()
        else:
            from indubio.explain import explained_table

            found, table = explained_table(self.scorer, part, top=top, contributions=contributions)
        labels = part.labels
        if labels is not None and reading.label is not None and reading.label not in table.column_names:
            table = table.append_column(reading.label, pa.array(labels.astype("int8"), mask=part.unlabelled))
        return found, table


def refuse_output_names(reading: Reading) -> None:
    """Refuse columns that are passed on under a name of the output: they would be taken for what the model says."""
    from indubio.assessment import OUTPUT_COLUMNS

    columns = reading.table or reading.layout
    if columns is None:
        return
    named = (*columns.ids, columns.time, columns.group, columns.label)
    taken = [name for name in dict.fromkeys(named) if name in OUTPUT_COLUMNS or str(name).startswith(EXPLAINED)]
    if taken:
        raise ConfigError(
            f"columns {quoted(taken)} of the input have names of the output, where they would be taken for what the "
            'model says. Rename them in the file; or leave them out of `ids` and `label` (--label "" where a model '
            "knows the column)."
        )


def is_onnx(model: Path) -> bool:
    """Whether this is an exported model and not a folder."""
    return model.suffix.lower() == ".onnx"
