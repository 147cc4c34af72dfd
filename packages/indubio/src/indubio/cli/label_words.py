"""What is said of labels on stderr: which rows count as what, so that nobody trains on bad parts without knowing."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from indubio.data import Examples, Reading

LISTED = 8  # labels that are named
ZERO_AND_ONE = (0.0, 1.0)


def tell_training_labels(source: Any, reading: "Reading") -> None:
    """Say how many rows are left out for their label, and which labels the others have.

    Where no row has a label that means anomaly, all others being alike, the file may be of good parts only: that is
    told. Where they are not alike, some of them may be bad ones, and nothing is trained.
    """
    from indubio.data import is_named
    from indubio.errors import DataError

    if reading.label is None:
        return
    counts = reading.label_counts(source)
    named = reading.anomaly_values or (1,)
    bad = {value: rows for value, rows in counts.items() if is_named(value, named)}
    good = {value: rows for value, rows in counts.items() if value not in bad}
    if reading.anomaly_values is not None and not bad and len(good) > 1:
        raise DataError(
            f'{source}: no row has {_named(named)} in the label column "{reading.label}"; there are {_named(good)}. '
            "Name those that mean anomaly by --anomaly; if all are good, pass the column on by --id instead of --label."
        )
    if not bad:
        _tell(
            f'No row has {_named(named)} in the label column "{reading.label}": all {sum(good.values())} have '
            f"{_named(good)}, and are taken for good."
        )
        return
    unused = [value for value in named if not any(is_named(one, (value,)) for one in bad)]
    more = f" No row has {_named(unused)}." if unused and reading.anomaly_values is not None else ""
    left_out = f'{_rows(sum(bad.values()))} labelled as anomalies ({_named(bad)} in "{reading.label}")'
    left_out = f"Left out {left_out}" if reading.layout is None else f"{left_out}: windows with any are left out"
    _tell(f"{left_out}; {_rows(sum(good.values()))} with {_named(good)} are taken for good.{more}")


class LabelsSeen:
    """The labels of what is assessed, part by part."""

    def __init__(self) -> None:
        self._anomalies = self._labelled = self._unlabelled = 0

    def see(self, part: "Examples") -> None:
        """Count the labels of one more part."""
        if part.labels is not None:
            self._anomalies += int(part.labels.sum())
            self._labelled += len(part)
            self._unlabelled += 0 if part.unlabelled is None else int(part.unlabelled.sum())

    def tell(self, source: Any, reading: "Reading") -> None:
        """Say what is odd about them: some rows have none, or none is that of an anomaly."""
        if self._unlabelled:
            _tell(
                f'{self._unlabelled} of {_rows(self._labelled)} have no label in "{reading.label}": it stays empty in '
                "the output."
            )
        if reading.anomaly_values is not None and self._labelled > self._unlabelled and not self._anomalies:
            _tell(
                f'No row has {_named(reading.anomaly_values)} in the label column "{reading.label}"; there are '
                f"{_named(reading.label_counts(source))}, and all are labelled 0."
            )


def tell_unlabelled(without: "np.ndarray", label: str) -> None:
    """Say how many rows are left out for want of a label."""
    _tell(f'Left out {int(without.sum())} of {_rows(len(without))} that have no label in "{label}".')


def without_labels(without: "np.ndarray", label: str) -> str:
    """What a report says where some rows have no label."""
    return (
        f'{int(without.sum())} of {_rows(len(without))} have no label in "{label}" yet, so this page compares nothing '
        "with labels. Assess the file, and evaluate the result: that leaves them out."
    )


def known_labels(table: "pa.Table", label: str, anomaly: list[str] | None) -> "tuple[pa.Table, list[str] | None]":
    """The rows of a result that have a label, and the values that mean anomaly in it.

    `assess` writes 0 and 1, whatever the values were that it read: 1 is then the anomaly, whatever is named.
    """
    import pyarrow.compute as pc

    from indubio.data import is_named, label_texts

    if label not in table.column_names:
        return table, anomaly  # refused where it is read
    values = label_texts(table.column(label).combine_chunks())
    if values.null_count and values.null_count < len(values):
        tell_unlabelled(pc.is_null(values).to_numpy(zero_copy_only=False), label)
        table = table.filter(pc.is_valid(values))
    there = values.drop_null().unique().to_pylist()
    if not anomaly or any(is_named(value, anomaly) for value in there):
        return table, anomaly
    if all(is_named(value, ZERO_AND_ONE) for value in there):
        _tell(f'"{label}" holds 0 and 1, as `assess` writes them: 1 is taken for an anomaly, not {_named(anomaly)}.')
        return table, None
    return table, anomaly


def _named(values: Any) -> str:
    from indubio.errors import quoted

    there = list(values)
    return quoted(there[:LISTED]) + (f" and {len(there) - LISTED} more" if len(there) > LISTED else "")


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def _tell(line: str) -> None:
    from indubio.cli.consoles import terminal

    terminal(stderr=True).print(line, soft_wrap=True)
