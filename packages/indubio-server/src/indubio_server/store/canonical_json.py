"""JSON that is the same bytes for the same content: what hashes are taken over."""

import hashlib
from typing import Any

import msgspec


def canonical(body: Any) -> bytes:
    """JSON with sorted names and no spaces: the same bytes for the same content."""
    return msgspec.json.encode(body, order="sorted")


def digest(body: Any) -> str:
    """The sha256 of some data as canonical JSON."""
    return hashlib.sha256(canonical(body)).hexdigest()
