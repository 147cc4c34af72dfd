"""Several machines in one recording: their rows take turns, and windows across them mean nothing.

Without a group column the first rows are looked at. They are of several machines where one stamp comes again and again,
or times jump back, and a column parts the rows so that neither happens; or where a column of text takes turns from row
to row.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from indubio.data.recordings.layouts import Long, Wide
from indubio.errors import DataError, quoted
from indubio.io import Source, is_text, plain

LOOKED_AT = 10_000  # rows
MOST = 50  # machines that one recording may hold
AGAIN = 0.9  # fewer distinct stamps than this share of the rows, and they come again


def require_one_machine(source: Source, layout: Wide | Long) -> None:
    """Refuse rows that are of several machines in turn, and name the column that says which."""
    if layout.group is not None:
        return
    taken = {layout.time, layout.label, *layout.ids, *(layout.sensors or () if isinstance(layout, Wide) else ())}
    taken |= {layout.tag, layout.value, layout.quality} if isinstance(layout, Long) else set()
    names = [
        field.name
        for field in source.schema
        if field.name not in taken and (is_text(field.type) or pa.types.is_integer(field.type))
    ]
    keys = [layout.time, *([layout.tag] if isinstance(layout, Long) else [])]
    wanted = list(dict.fromkeys([*names, *(key for key in keys if key is not None)]))
    source.require(wanted)
    batch = next(source.batches(dict.fromkeys(wanted)), None) if names else None
    if batch is None or batch.num_rows < 8:
        return
    codes = {name: _codes(batch.slice(0, LOOKED_AT).column(name)) for name in wanted}
    stamps = None if layout.time is None else _stamp(codes, [key for key in keys if key is not None])
    text = {field.name for field in source.schema if is_text(field.type)}
    for name in names:
        machine = codes[name]
        if 2 <= machine.max() + 1 <= min(MOST, len(machine) // 4) and (
            (stamps is not None and _parts(stamps, machine)) or (name in text and _takes_turns(machine))
        ):
            values = plain(batch.column(name)).cast(pa.string())
            turns = _takes_turns(machine)
            seen = quoted((values if turns else values.unique()).slice(0, 3).to_pylist())
            raise DataError(
                '{name}: there are rows of several machines or runs{turns}: column "{column}" {holds} {seen}. Windows '
                'must not mix them: say `group="{column}"`, or pass it through among `ids` if it is no machine.',
                name=source.name,
                turns=", which take turns" if turns else "",
                column=name,
                holds="begins with" if turns else "holds",
                seen=seen,
            )


def _codes(column: pa.Array) -> Int[np.ndarray, " rows"]:
    return np.asarray(plain(column).cast(pa.string()).fill_null("").dictionary_encode().indices.to_numpy())


def _stamp(codes: Mapping[str, Int[np.ndarray, " rows"]], keys: list[str]) -> Int[np.ndarray, " rows"]:
    """A number for every combination of stamp and tag."""
    stamp = np.zeros(len(codes[keys[0]]), dtype=np.int64)
    for key in keys:
        stamp = stamp * (int(codes[key].max()) + 1) + codes[key]
    return stamp


def _parts(stamps: Int[np.ndarray, " rows"], machine: Int[np.ndarray, " rows"]) -> bool:
    """Whether stamps come again, but not within a machine."""
    both = stamps * (int(machine.max()) + 1) + machine
    return len(np.unique(stamps)) < AGAIN * len(stamps) and len(np.unique(both)) == len(both)


def _takes_turns(machine: Int[np.ndarray, " rows"]) -> bool:
    """Whether another machine comes in every other row or more often."""
    return 2 * int(np.count_nonzero(machine[1:] != machine[:-1])) >= len(machine)
