"""How new files are read for a model: as its training files were, with some columns more."""

from dataclasses import replace

import typer

from indubio.data import Schema
from indubio.data.reading import Reading
from indubio.data.tables import Roles


def reading_for(
    known: Reading | None,
    schema: Schema,
    source: str,
    passed: list[str],
    label: str | None = None,
    anomaly: list[str] | None = None,
) -> Reading:
    """The model's own reading; a model that was not fitted on files knows its columns by name.

    Args:
        known: how the model's training files were read.
        schema: of the model.
        source: what is to be read.
        passed: further columns to pass through.
        label: label column, where it is not the one the model knows.
        anomaly: its values that mean anomaly.
    """
    reading = known or Reading(table=Roles(columns=schema.names))
    if not passed and label is None:
        return reading.for_new_data(source)
    if reading.table is None:
        raise typer.BadParameter("windows take no --pass and no --label: they say where they came from.")
    table = replace(reading.table, ids=(*reading.table.ids, *passed))
    if label is not None:
        table = replace(table, label=label, anomaly_values=tuple(anomaly) if anomaly else None)
    return replace(reading, table=table).for_new_data(source)
