"""Anchors: heads of the trail, kept outside of the database to show that its end was cut off or that it was made anew.

A line of an anchor file has the hash of the line before it, so a line that was changed or removed shows; how many were
cut off at the end does not. A line that a crash cut short is passed over: the line after it has the hash of that too.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from indubio.errors import ConfigError, StoreError
from indubio_server.store.audit_trail import Head
from indubio_server.store.clock import now

LONGEST = 4096  # bytes from the end of the file that are looked at for its last line
PATIENCE = 10.0  # seconds that an address may take to answer


class _Line(msgspec.Struct):
    seq: int
    hash: str
    at: str = ""
    before: str | None = None


@dataclass(frozen=True, kw_only=True)
class KeptHeads:
    """What an anchor file holds.

    Args:
        heads: the heads, in order.
        findings: what is wrong with the file, in words.
    """

    heads: tuple[Head, ...]
    findings: tuple[str, ...]


def write_anchor(path: Path, end: Head) -> None:
    """Add a head to an anchor file, and wait until it is on the disk."""
    with open(path, "a+b", opener=_private) as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - LONGEST))
        tail = file.read()
        line = {"seq": end.seq, "hash": end.hash, "at": now().isoformat(), "before": _hash(_last(tail))}
        cut_off = tail[-1:] not in (b"", b"\n")
        file.write((b"\n" if cut_off else b"") + msgspec.json.encode(line) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_anchors(path: Path) -> KeptHeads:
    """Read an anchor file; whatever is in it, the heads that can be read are given."""
    heads: list[Head] = []
    findings: list[str] = []
    since = b""  # the last line that could be read, and what came after it
    unread = 0
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        read = _read(line)
        if read is None:
            unread = unread or (number if line else 0)
            since += line + b"\n"
            continue
        if read.before is not None and read.before != _hash(since):
            findings.append(f"{path}, line {number}: a line before it was changed or removed.")
        elif unread and read.before is None:
            findings.append(f"{path}, line {unread} is no head of a trail.")
        heads.append(Head(seq=read.seq, hash=read.hash))
        since, unread = line + b"\n", 0
    if unread and unread < len(lines):  # one without its line break is what a crash leaves
        findings.append(f"{path}, line {unread} is no head of a trail.")
    return KeptHeads(heads=tuple(heads), findings=tuple(findings))


def post_anchor(url: str, end: Head) -> None:
    """Send a head to an address, as JSON; anything but an answer of 2xx is an error."""
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    body = msgspec.json.encode({"seq": end.seq, "hash": end.hash, "at": now().isoformat()})
    request = Request(checked_address(url), body, {"content-type": "application/json"}, method="POST")
    try:
        with urlopen(request, timeout=PATIENCE):
            return
    except (OSError, HTTPException) as error:
        raise StoreError(f"the head of the audit trail could not be sent: {error}") from None


class AnchorPlaces:
    """All places that heads are kept at: files, and an address.

    Args:
        files: anchor files.
        url: an address that heads are sent to; None for none.
    """

    def __init__(self, files: Iterable[Path], url: str | None = None) -> None:
        self._keep: dict[str, Callable[[Head], None]] = {str(path): partial(write_anchor, path) for path in files}
        if url is not None:
            self._keep[url] = partial(post_anchor, checked_address(url))
        self._kept = dict.fromkeys(self._keep, 0)

    def add(self, end: Head) -> list[str]:
        """Keep a head wherever an older one was kept last; what failed, in words. It is tried again the next time."""
        failed = []
        for place, keep in self._keep.items():
            if end.seq <= self._kept[place]:
                continue
            try:
                keep(end)
                self._kept[place] = end.seq
            except (OSError, StoreError) as error:
                failed.append(str(error))
        return failed


def checked_address(url: str) -> str:
    """Refuse what is no address that a head can be sent to."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(f"`anchor_url` must begin with http:// or https:// and name a host, got {url!r}.")
    return url


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read(line: bytes) -> _Line | None:
    try:
        return msgspec.json.decode(line, type=_Line)
    except (ValueError, RecursionError):
        return None


def _last(tail: bytes) -> bytes:
    """The last line that can be read and all after it, as the next line follows it."""
    lines = tail.split(b"\n")
    found = [number for number, line in enumerate(lines) if _read(line) is not None]
    rest = b"\n".join(lines[found[-1] if found else 0 :])
    return rest if rest[-1:] in (b"", b"\n") else rest + b"\n"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
