"""Named arrays as the bytes of a safetensors file and back."""

from collections.abc import Mapping

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from indubio.errors import ModelFileError

LENGTH = 8  # bytes in front of the header that give its length
LARGEST_HEADER = 2**20  # about 15,000 tensors; one of 300,000 would take the parser 16 s


def packed(tensors: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a safetensors file; the same arrays give the same bytes."""
    for name, values in tensors.items():
        if not np.isfinite(values).all():
            raise ModelFileError(f"`{name}` holds NaN or infinity, so the model cannot be saved. Fit it again.")
    content: bytes = save({name: np.ascontiguousarray(values) for name, values in tensors.items()})
    if _header(content) > LARGEST_HEADER:
        raise ModelFileError(f"a model file cannot hold {len(tensors)} tensors. Use a network with fewer parts.")
    return content


def unpacked(content: bytes, where: str) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file; whatever is not quite such a file is refused.

    Args:
        content: the whole file.
        where: its path, for messages.
    """
    if len(content) < LENGTH or _header(content) > min(LARGEST_HEADER, len(content) - LENGTH):
        raise ModelFileError(f"{where} is no safetensors file: its header has an impossible length.")
    try:
        views: dict[str, np.ndarray] = load(content)
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
        raise ModelFileError(f"{where} is no safetensors file that indubio could have written: {error}.") from None
    for name, values in views.items():
        if values.dtype.kind not in "fiub":
            raise ModelFileError(f"{where}: `{name}` has the type {values.dtype}, which no model has.")
        if not np.isfinite(values).all():
            raise ModelFileError(f"{where}: `{name}` holds NaN or infinity, which no model has.")
    return {name: values.copy() for name, values in views.items()}


def _header(content: bytes) -> int:
    return int.from_bytes(content[:LENGTH], "little")
