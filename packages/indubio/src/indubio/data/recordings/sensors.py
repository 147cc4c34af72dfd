"""Which sensors a recording has: columns that hold numbers, or tags."""

from collections.abc import Sequence

import pyarrow as pa

from indubio.data.recordings.layouts import Long, Wide
from indubio.data.spoilt_numbers import refuse_spoilt
from indubio.errors import DataError, quoted
from indubio.io import Source, is_number, natural_order, plain
from indubio.texts import english

LISTED = 20  # names in an error message


def sensor_names(sources: Sequence[Source], layout: Wide | Long) -> tuple[str, ...]:
    """The sensors asked for, or those there are."""
    if isinstance(layout, Long):
        return _tags(sources, layout)
    return layout.sensors or _number_columns(sources, layout)


def _number_columns(sources: Sequence[Source], layout: Wide) -> tuple[str, ...]:
    first, *others = sources
    named = [name for name in (layout.time, layout.group, layout.label, *layout.ids) if name is not None]
    first.require([*named, *(name for name in layout.exclude if name not in first.schema.names)])
    named += layout.exclude
    found = _numeric(first, named)
    refuse_spoilt(first, [name for name in first.schema.names if name not in named], english("name it in `exclude`"))
    if not found:
        raise DataError(f"{first.name}: no column holds numbers; there are {quoted(first.schema.names) or 'none'}.")
    for other in others:
        if extra := [name for name in _numeric(other, named) if name not in first.schema.names]:
            raise DataError(
                "{name}: has {names}, which {other_name} has not. Say which columns are `sensors`.",
                name=other.name,
                names=quoted(extra),
                other_name=first.name,
            )
    return found


def _numeric(source: Source, named: Sequence[str]) -> tuple[str, ...]:
    return tuple(field.name for field in source.schema if is_number(field.type) and field.name not in named)


def _tags(sources: Sequence[Source], layout: Long) -> tuple[str, ...]:
    wanted, found = set(layout.sensors or ()), set[str]()
    for source in sources:
        source.require([layout.tag])
        for batch in source.batches({layout.tag: pa.string()}):
            found.update(
                tag for tag in plain(batch.column(0)).cast(pa.string()).unique().to_pylist() if tag is not None
            )
            if wanted and wanted <= found:
                assert layout.sensors is not None
                return layout.sensors
    names = sorted(found.difference(layout.exclude), key=natural_order)
    if layout.sensors is not None and names:
        missing = [name for name in layout.sensors if name not in found]
        raise DataError(
            f'{_all(sources)}: no tag {quoted(missing)} in column "{layout.tag}"; there are {quoted(names)}.'
        )
    if not names:
        raise DataError(f'{_all(sources)}: column "{layout.tag}" names no sensor: there are no rows.')
    return tuple(names)


def _all(sources: Sequence[Source]) -> str:
    return sources[0].name if len(sources) == 1 else f"{sources[0].name} and {len(sources) - 1} more"
