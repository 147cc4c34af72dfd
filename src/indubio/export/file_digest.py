"""The digest of an exported file, kept in its own metadata: sha256 of the file with zeros in place of these 64 digits.

It shows damage and careless changes anywhere in the file, graph and metadata. It is no signature: who can write to the
file can make a new one, so where that matters compare with the sha256 of the whole file (`--sha256`).
"""

import hashlib
import re

from indubio.errors import ConfigError, ModelFileError

KEY = "indubio_sha256"
BLANK = b"0" * 64
# A property of an ONNX model: the key, then field 2 of 64 bytes.
_PLACE = re.compile(re.escape(KEY.encode()) + rb"\x12\x40([0-9a-f]{64})")


def with_digest(content: bytes) -> bytes:
    """Put the digest in; the metadata has the property already, all zeros."""
    start, end = _place(content) or (0, 0)
    return content[:start] + _digest(content).encode() + content[end:]


def checked_digest(content: bytes, where: str) -> bool:
    """Whether a file has a digest; one that it does not match is refused.

    Args:
        content: of the file.
        where: the file, for the message.
    """
    place = _place(content)
    if place is None:
        return False
    start, end = place
    if _digest(content[:start] + BLANK + content[end:]) != content[start:end].decode():
        raise ModelFileError(
            f"{where} does not match its digest: the file is damaged or was changed. Get a fresh copy, or export again."
        )
    return True


def check_pinned(found: str, wanted: str | None, where: str) -> None:
    """Refuse a model that is not the one that was pinned by its sha256.

    Args:
        found: sha256 of the ONNX file, or checksum of the folder's manifest.
        wanted: what it must be; None takes any.
        where: the model, for the message.
    """
    if wanted is None:
        return
    if not re.fullmatch(r"[0-9a-fA-F]{64}", wanted):
        raise ConfigError(f"`sha256` must have 64 hexadecimal digits, got {wanted!r}.")
    if found != wanted.lower():
        raise ModelFileError(
            f"{where} has the sha256 {found}, and {wanted.lower()} was asked for: it is another model."
        )


def _place(content: bytes) -> tuple[int, int] | None:
    found = list(_PLACE.finditer(content))
    return found[-1].span(1) if found else None  # the properties come last in the file


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
