"""Columns of a file that are not used are told of: nothing is left out without a word."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indubio.data import Reading
    from indubio.io import Source

LISTED = 10  # columns that are named


def tell_unused(files: "Sequence[Source]", reading: "Reading", *, known: bool) -> None:
    """Say on stderr which columns of the first file are not used, why, and how they could be.

    Args:
        files: what is read; none of images.
        reading: how.
        known: whether a model knows which columns it wants; else those that hold numbers are taken.
    """
    from indubio.cli.consoles import terminal
    from indubio.errors import quoted

    unused = _unused(files[0], reading) if files else []
    if not unused:
        return
    more = f" and {len(unused) - LISTED} more" if len(unused) > LISTED else ""
    why = "the model does not know" if known else "no sensor, which holds numbers"
    way_out = (
        "--pass writes a column beside the verdicts, --label reads it as a label."
        if known
        else "--id writes a column beside the verdicts, --label reads it as a label, --columns names the sensors."
    )
    terminal(stderr=True).print(f"Not used ({why}): {quoted(unused[:LISTED])}{more}. {way_out}", soft_wrap=True)


def _unused(file: "Source", reading: "Reading") -> list[str]:
    from indubio.data import Long
    from indubio.io import is_number

    schema = file.schema
    if reading.table is not None:
        needed = {*reading.table.needed(schema.names), *reading.table.exclude}
        return [name for name in schema.names if name not in needed]
    layout = reading.layout
    assert layout is not None
    used = {layout.time, layout.group, layout.label, *layout.ids, *layout.exclude}
    if isinstance(layout, Long):
        used |= {layout.tag, layout.value, layout.quality}
    elif layout.sensors is not None:
        used |= set(layout.sensors)
    else:
        used |= {field.name for field in schema if is_number(field.type)}
    return [name for name in schema.names if name not in used]
