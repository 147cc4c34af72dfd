"""Arrow columns as numpy arrays, with errors that name the row and the value."""

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Shaped

from indubio.errors import DataError

Place = Callable[[int], str]  # where a row is, for error messages
_DOTTED = re.compile(
    r"^\d{1,2}\.\d{1,2}\.\d{4}(?: \d{1,2}:(?P<minutes>\d\d)(?P<seconds>:\d\d(?:(?P<mark>[.,])\d{1,9})?)?)?$"
)
_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers; one that is empty may."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    )


def plain(column: pa.Array) -> pa.Array:
    """The column without dictionary encoding, and text as the one type of text."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if is_text(column.type) else column


def first_null(column: pa.Array) -> int:
    """The first row that is null."""
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))


def numbers(column: pa.Array, name: str, place: Place) -> Float[np.ndarray, " rows"]:
    """Values as float64, NaN where null; text that does not spell a number is refused."""
    column = plain(column)
    if is_text(column.type):
        column = _parsed(pc.utf8_trim_whitespace(column), pa.float64(), name, place, "a number")
    elif not is_number(column.type):
        raise DataError(f'{place(0)}: column "{name}" holds {column.type}, not numbers.')
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def times(
    column: pa.Array, name: str, place: Place, *, expected: pa.DataType | None = None, time_format: str | None = None
) -> tuple[Shaped[np.ndarray, " rows"], pa.DataType]:
    """Seconds (float64), or time stamps (nanoseconds, int64), and which of the two: float64 or a type of time stamps.

    Args:
        column: numbers, which are seconds, time stamps, dates, times of day, or text.
        name: of the column.
        place: where a row is.
        expected: what earlier rows were.
        time_format: of text, as for `strptime`; None is ISO 8601, or day.month.year with a time of day.
    """
    column = plain(column)
    if column.null_count:
        raise DataError(f'{place(first_null(column))}: column "{name}" has no time.')
    if time_format is not None:
        column = _formatted(column, time_format, name, place)
    elif is_text(column.type) and len(column) and (dotted := _dotted(column[0].as_py())):
        column = _formatted(column, dotted, name, place)
    elif is_text(column.type) and len(column):
        column = _iso(column, name, place)
    kind = _clock(column.type)
    if kind is None:
        raise DataError(f'{place(0)}: column "{name}" holds {column.type}, not times.')
    if expected is not None and len(column) and kind != expected:
        if not (pa.types.is_timestamp(kind) and pa.types.is_timestamp(expected) and bool(kind.tz) == bool(expected.tz)):
            raise DataError(f'{place(0)}: column "{name}" holds {kind}, but it began with {expected}.')
        kind = expected
    try:
        stamps = _seconds(column) if kind == pa.float64() else column.cast(kind).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise DataError(f'{place(0)}: column "{name}": {error}') from None
    if kind == pa.float64() and not np.isfinite(stamps).all():
        raise DataError(f'{place(int(np.argmin(np.isfinite(stamps))))}: column "{name}" has no time.')
    return stamps, kind


def _dotted(text: str) -> str | None:
    """The format of a time such as 31.12.2026 14:05:33,5, whose dots say which is the day; None for others."""
    match = _DOTTED.match(text)
    if match is None:
        return None
    # A fraction may be missing on some lines, also on the first.
    clock = "" if match["minutes"] is None else " %H:%M" if match["seconds"] is None else " %H:%M:%S"
    return f"%d.%m.%Y{clock}" + (f"{match['mark'] or '.'}%f" if match["seconds"] else "")


def _iso(column: pa.Array, name: str, place: Place) -> pa.Array:
    kind = _spelled(column[0].as_py())
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        for row, value in enumerate(column.to_pylist()):
            other = _spelled(value)
            if (
                other != kind
                and pa.types.is_timestamp(kind)
                and pa.types.is_timestamp(other)
                and _is_time(value, other)
            ):
                with_zone, without = ("this one", "the first") if other.tz else ("the first", "this one")
                raise DataError(
                    f'{place(row)}, column "{name}": {value!r} and the first, {column[0].as_py()!r}, are different '
                    f"kinds of time: {with_zone} says its time zone, {without} does not. Write all of them in one way."
                ) from None
            if not _is_time(value, kind):
                raise DataError(
                    '{place}, column "{name}": {value!r} is not a time (ISO 8601, or seconds). Say how times are '
                    'written by `time_format`, such as "%m/%d/%Y %I:%M:%S %p" or "%d.%m.%Y %H:%M:%S".',
                    place=place(row),
                    name=name,
                    value=value,
                ) from None
        raise


def _is_time(text: str, kind: pa.DataType) -> bool:
    try:
        pa.scalar(text).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _spelled(text: str) -> pa.DataType:
    """The type that a time in text is of."""
    try:
        float(text)
    except ValueError:
        return pa.timestamp("ns", "UTC") if _ZONE.search(text) and ":" in text else pa.timestamp("ns")
    return pa.float64()


def _clock(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns", kind.tz)
    if pa.types.is_date(kind):
        return pa.timestamp("ns")
    seconds = is_number(kind) and not pa.types.is_boolean(kind)
    return pa.float64() if seconds or pa.types.is_duration(kind) or pa.types.is_time(kind) else None


def _seconds(column: pa.Array) -> Float[np.ndarray, " rows"]:
    if pa.types.is_time(column.type):
        column = column.cast(pa.time64("ns")).cast(pa.int64()).cast(pa.duration("ns"))
    if pa.types.is_duration(column.type):
        return np.asarray(column.cast(pa.duration("ns")).cast(pa.int64()).to_numpy() / 1e9)
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _formatted(column: pa.Array, time_format: str, name: str, place: Place) -> pa.Array:
    if not is_text(column.type):
        raise DataError(
            '{place}: column "{name}" holds {type}, not text. Leave `time_format` out.',
            place=place(0),
            name=name,
            type=column.type,
        )
    whole, nanoseconds, asked = column, pa.scalar(0, pa.int64()), time_format
    if time_format.endswith("%f"):  # which Arrow does not know
        parts = pc.extract_regex(column, rf"^(?P<whole>.*?)(?:[{time_format[-3]}](?P<fraction>\d{{1,9}}))?$")
        whole, fraction = pc.struct_field(parts, "whole"), pc.struct_field(parts, "fraction")
        nanoseconds = pc.utf8_rpad(fraction, 9, "0").cast(pa.int64())
        time_format = time_format[:-3]
    stamps = pc.strptime(whole, format=time_format, unit="ns", error_is_null=True)
    if stamps.null_count:
        row = first_null(stamps)
        raise DataError(f'{place(row)}, column "{name}": {column[row].as_py()!r} is not a time like "{asked}".')
    return pc.add(stamps.cast(pa.int64()), nanoseconds).cast(pa.timestamp("ns"))


def _parsed(column: pa.Array, kind: pa.DataType, name: str, place: Place, what: str) -> pa.Array:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        for row, value in enumerate(column):
            try:
                value.cast(kind)
            except pa.ArrowInvalid:
                raise DataError(f'{place(row)}, column "{name}": {value.as_py()!r} is not {what}.') from None
        raise
