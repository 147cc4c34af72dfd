"""How a detector's data is read: kept with the model, so that new files are read as the training files were."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from indubio.data.examples import Examples
from indubio.data.images import ImageFiles
from indubio.data.labels import AnomalyValues, label_texts
from indubio.data.recordings.layouts import LAYOUTS, Long, Wide
from indubio.data.recordings.window_stream import read_windows, stream_windows
from indubio.data.schema import Schema
from indubio.data.tables import Roles, stream_tables
from indubio.data.windows import Windowing
from indubio.errors import ConfigError, DataError
from indubio.io import UNSAID, FileFormat, Source, opened
from indubio.message import Message, joined
from indubio.settings import ByKind, Settings
from indubio.texts import english


@dataclass(frozen=True, kw_only=True)
class Reading(Settings):
    """Rows of a table, windows of a recording, or images.

    Args:
        table: roles of the columns, for a table.
        layout: how the recording lies in its columns, for windows.
        windowing: how windows are cut, for windows.
        images: size and colour, for images.
        file_format: separator, decimal mark, encoding, sheet of the files. A model keeps those of its training files
            as a first guess: every file is looked at by itself.
    """

    table: Roles | None = None
    layout: Annotated[Wide | Long, ByKind(LAYOUTS)] | None = None
    windowing: Windowing | None = None
    images: ImageFiles | None = None
    file_format: FileFormat | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = [self.table, self.layout, self.images]
        if (self.layout is None) != (self.windowing is None) or kinds.count(None) != len(kinds) - 1:
            raise ConfigError(Message("give either `table`, or `layout` and `windowing`, or `images`."))
        if self.images is not None and self.file_format is not None:
            given = joined([Message("`{name}`", name=name) for name in self.file_format.given], ", ")
            raise ConfigError("{given}: for tables and recordings, and these are images.", given=given)

    @property
    def label(self) -> str | None:
        """The label column; None without one."""
        columns = self.table or self.layout
        return None if columns is None else columns.label

    def read(self, source: Any, *, unlabelled: bool = False) -> Examples:
        """All rows, windows or images of the source, in memory; `unlabelled` as for `stream`."""
        if self.images is not None:
            return self.images.read(source)
        if self.layout is not None and self.windowing is not None:
            return read_windows(source, self.layout, self.windowing, file_format=self.file_format)
        parts = list(self.stream(source, unlabelled=unlabelled))
        if not parts:
            raise DataError(english("{file}: there are no rows.", file=str(source)))
        return Examples.joined(parts)

    def stream(self, source: Any, *, at_once: int | None = None, unlabelled: bool = False) -> Iterator[Examples]:
        """All rows, windows or images of the source, a part at a time.

        Args:
            source: file, folder, pattern, frame or table.
            at_once: rows, windows or images in a part.
            unlabelled: whether rows of a table may have no label yet, as new parts do.
        """
        if self.images is not None:
            yield from self.images.stream(source, at_once=at_once)
            return
        size = {} if at_once is None else {"rows_at_once" if self.table else "windows_at_once": at_once}
        if self.layout is not None and self.windowing is not None:
            yield from stream_windows(source, self.layout, self.windowing, file_format=self.file_format, **size)
        elif self.table is not None:
            yield from stream_tables(source, self.table, file_format=self.file_format, unlabelled=unlabelled, **size)

    def label_counts(self, source: Any) -> dict[Any, int]:
        """How many rows have each label, blank ones left out; read from the label column alone."""
        assert self.label is not None
        counts: dict[Any, int] = {}
        for file in self.files(source):
            for batch in file.batches({self.label: None}):
                for one in label_texts(batch.column(0)).drop_null().value_counts().to_pylist():
                    counts[one["values"]] = counts.get(one["values"], 0) + one["counts"]
        return counts

    @property
    def anomaly_values(self) -> AnomalyValues | None:
        """Values of the label column that mean anomaly; None where they are 1 and true."""
        columns = self.table or self.layout
        return None if columns is None else columns.anomaly_values

    def opened(self, source: Any) -> Any:
        """What the source names, opened once to be read again and again; images stay as they are named."""
        return source if self.images is not None else opened(source, self.file_format)

    def files(self, source: Any) -> list[Source]:
        """What the source names, opened; of images nothing."""
        return [] if self.images is not None else opened(source, self.file_format)

    def kept(self, source: Any) -> "Reading":
        """This reading for a model to keep: how its training files were written is a first guess for others."""
        files = self.files(source)
        if not files or (not self.file_format and all(file.said is None for file in files[:1])):
            return self
        found = (self.file_format or UNSAID).changed(files[0].found_format)
        return replace(self, file_format=found.as_guess())

    def resolved(self, source: Any) -> "Reading":
        """This reading with all that the training files decide: the size and colour of images."""
        return self if self.images is None else replace(self, images=self.images.resolved(source))

    def for_new_data(self, source: Any) -> "Reading":
        """This reading for data to judge, which need not have the label column."""
        label = self.label
        if label is None:
            return self
        if all(label in file.schema.names for file in self.files(source)):
            return self
        return self.without_label()

    def without_label(self) -> "Reading":
        """This reading without a label column."""
        without: dict[str, Any] = {"label": None, "anomaly_values": None}
        if self.table is not None:
            return replace(self, table=replace(self.table, **without))
        if self.layout is None:
            return self
        return replace(self, layout=replace(self.layout, **without))


def opened_for(known: Reading | None, source: Any, file_format: FileFormat | None = None) -> Any:
    """What a source names, opened once to be read for a model; images stay as they are named.

    Args:
        known: how the model's training files were read, which is a first guess; None for a model of arrays.
        source: what is to be read.
        file_format: what is asked of the files; the rest is found out.
    """
    reading = known or Reading(table=Roles())
    if reading.images is not None:
        return source
    return opened(source, (reading.file_format or UNSAID).changed(file_format))


def reading_for(
    known: Reading | None,
    schema: Schema,
    source: Any,
    passed: Sequence[str],
    label: str | None = None,
    anomaly: Sequence[str] | None = None,
    file_format: FileFormat | None = None,
) -> Reading:
    """How new files are read for a model: as its training files were, with some columns more.

    Args:
        known: how the model's training files were read; None for one that was not fitted on files: it knows its
            columns by name.
        schema: of the model.
        source: what is to be read.
        passed: further columns to pass through.
        label: label column, where it is not the one the model knows; "" reads no labels, whatever the model knows.
        anomaly: its values that mean anomaly; None takes those that the model knows of this column.
        file_format: what is asked of the files; the rest is found out, with those of the training as a first guess.
    """
    reading = known or Reading(table=Roles(columns=schema.names))
    if file_format is not None and file_format.given:
        reading = replace(reading, file_format=(reading.file_format or UNSAID).changed(file_format))
    if reading.images is not None:
        if passed or label is not None:
            raise ConfigError("images take no --pass and no --label: they say where they came from.")
        return reading
    if label == "":
        reading, label = reading.without_label(), None
    columns = reading.table or reading.layout
    assert columns is not None
    more: dict[str, Any] = {"ids": (*columns.ids, *passed)}
    if label is not None:
        known_values = columns.anomaly_values if label == columns.label else None
        more |= {"label": label, "anomaly_values": tuple(anomaly) if anomaly else known_values}
    elif anomaly and columns.label is not None:
        more |= {"anomaly_values": tuple(anomaly)}
    more["ids"] = tuple(name for name in dict.fromkeys(more["ids"]) if name != (label or columns.label))
    if isinstance(columns, Roles):
        found = replace(reading, table=replace(columns, columns=schema.names, **more))
    else:
        found = replace(reading, layout=replace(columns, sensors=schema.names, **more))
    return found if label is not None else found.for_new_data(source)
