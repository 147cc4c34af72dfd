"""Snapshots: the state of all machines after a position of the journal, so that what came before need not be kept.

A snapshot is written only when the verdicts of everything before its position are in the store.
"""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from indubio.errors import StoreError
from indubio.io import whole_file

ARRAY = 1  # how msgpack marks an array
FORMAT = 1


def write_snapshot(path: Path, position: int, plan: str, machines: dict[str, dict[str, Any]]) -> None:
    """Write the states of all machines, whole or not at all.

    Args:
        path: of the file.
        position: in the journal, up to which they have seen everything.
        plan: names how values become examples; another plan cannot go on from these states.
        machines: states by name.
    """
    body = _encoder.encode({"format": FORMAT, "position": position, "plan": plan, "machines": machines})
    with whole_file(path) as file:
        file.write(hashlib.sha256(body).digest() + body)


def read_snapshot(path: Path) -> tuple[int, str, dict[str, dict[str, Any]]] | None:
    """The position, the plan and the states; None where no snapshot was written yet."""
    if not path.exists():
        return None
    content = path.read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        raise StoreError(f"{path}: is damaged, and the windows that were begun are lost with it. Delete it to go on.")
    known = _decoder.decode(content[32:])
    if known["format"] != FORMAT:
        raise StoreError(f"{path}: made by another version of indubio. Delete it to go on.")
    return known["position"], known["plan"], known["machines"]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        packed = msgspec.msgpack.encode([value.dtype.str, list(value.shape), value.tobytes()])
        return msgspec.msgpack.Ext(ARRAY, packed)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be kept in a snapshot")


def _array(code: int, data: memoryview) -> Any:
    if code != ARRAY:
        raise StoreError(f"a snapshot has content of an unknown kind, {code}.")
    kind, shape, content = msgspec.msgpack.decode(data)
    return np.frombuffer(content, dtype=kind).reshape(shape).copy()


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_decoder = msgspec.msgpack.Decoder(ext_hook=_array)
