"""The digest of an exported file, kept in its own metadata: sha256 of the file with zeros in place of these 64 digits.

It shows damage and careless changes anywhere in the file, graph and metadata. It is no signature: who can write to the
file can make a new one.
"""

import hashlib
import re

from indubio.errors import ModelFileError

KEY = "indubio_sha256"
BLANK = b"0" * 64
# A property of an ONNX model: the key, then field 2 of 64 bytes.
_PLACE = re.compile(re.escape(KEY.encode()) + rb"\x12\x40([0-9a-f]{64})")


def with_digest(content: bytes) -> bytes:
    """Put the digest in; the metadata has the property already, all zeros."""
    start, end = _place(content) or (0, 0)
    return content[:start] + _digest(content).encode() + content[end:]


def check_digest(content: bytes, where: str) -> None:
    """Refuse a file that does not match its digest, or has none.

    Args:
        content: of the file.
        where: the file, for the message.
    """
    place = _place(content)
    if place is None:
        raise ModelFileError(f"{where} has no digest: it is no ONNX model that indubio exported, or was changed.")
    start, end = place
    if _digest(content[:start] + BLANK + content[end:]) != content[start:end].decode():
        raise ModelFileError(
            f"{where} does not match its digest: the file is damaged or was changed. Get a fresh copy, or export again."
        )


def _place(content: bytes) -> tuple[int, int] | None:
    found = list(_PLACE.finditer(content))
    return found[-1].span(1) if found else None  # the properties come last in the file


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
