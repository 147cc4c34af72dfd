"""The journal: every message that was received, on disk before the broker hears that we have it.

Why a journal of messages, and not of windows or verdicts: everything after it follows from the messages in their order,
with the times of their arrival, so nothing else needs to be kept in step. A message is a record in a file of many:

    length and crc32 of what follows | time of arrival | packet id | length of the topic | topic | payload

Records are only added. `sync` makes all of them durable at once, for a disk confirms some hundred times a second,
whatever the size. What a crash left half written at the end was not acknowledged, and is cut off.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from indubio.errors import StoreError

HEAD = struct.Struct("<II")
BODY = struct.Struct("<qHH")
LARGEST_FILE = 64 * 2**20


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One message: when it came (nanoseconds since 1970), its MQTT packet id, topic and payload."""

    arrived: int
    packet: int
    topic: str
    payload: bytes


class Journal:
    """The files of the journal in a folder.

    Args:
        folder: where they are; made where it is not there.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        files = self._files()
        self.position = 0  # messages that were ever written
        if files:
            first, last = files[-1]
            end, count = _whole(last)
            with last.open("r+b") as file:
                file.truncate(end)
                os.fsync(file.fileno())
            self.position = first + count
        self._open()

    def append(self, entries: list[JournalEntry]) -> None:
        """Write messages; they are durable after `sync`."""
        parts = []
        for one in entries:
            topic = one.topic.encode()
            body = BODY.pack(one.arrived, one.packet, len(topic)) + topic + one.payload
            parts += [HEAD.pack(len(body), zlib.crc32(body)), body]
        self._file.write(b"".join(parts))
        self.position += len(entries)

    def sync(self) -> None:
        """Make all that was written durable."""
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._file.tell() > LARGEST_FILE:
            self._file.close()
            self._open()

    def read(self, after: int) -> Iterator[tuple[int, JournalEntry]]:
        """The messages from a position on, each with the position after it."""
        files = self._files()
        if files and files[0][0] > after:
            raise StoreError(f"{self._folder}: messages {after + 1} to {files[0][0]} are not in the journal any more.")
        for (first, path), following in zip(files, [*files[1:], None], strict=True):
            if following is not None and following[0] <= after:
                continue
            position = first
            for body in _bodies(path):
                position += 1
                if position > after:
                    yield position, _entry(body)
            if following is not None and position != following[0]:
                raise StoreError(f"{path}: is damaged after message {position}.")

    def forget(self, until: int) -> None:
        """Delete the files that hold nothing after a position."""
        if self._first < until == self.position:
            self._file.close()
            self._open()
        files = self._files()
        for (_, path), following in pairwise(files):
            if following[0] <= until:
                path.unlink()

    def close(self) -> None:
        """Close the file that is written to."""
        self._file.close()

    def _open(self) -> None:
        self._first = self.position
        self._file = (self._folder / f"{self.position:020d}.journal").open("ab")
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _files(self) -> list[tuple[int, Path]]:
        return sorted((int(path.stem), path) for path in self._folder.glob("*.journal"))


def _entry(body: bytes) -> JournalEntry:
    arrived, packet, length = BODY.unpack_from(body)
    topic = body[BODY.size : BODY.size + length].decode()
    return JournalEntry(arrived, packet, topic, body[BODY.size + length :])


def _bodies(path: Path) -> Iterator[bytes]:
    """The records of a file up to the first that is not whole."""
    with path.open("rb") as file:
        while len(head := file.read(HEAD.size)) == HEAD.size:
            length, checksum = HEAD.unpack(head)
            body = file.read(length)
            if len(body) < length or zlib.crc32(body) != checksum:
                return
            yield body


def _whole(path: Path) -> tuple[int, int]:
    """Where the last whole record of a file ends, and how many there are."""
    end = count = 0
    for body in _bodies(path):
        end, count = end + HEAD.size + len(body), count + 1
    return end, count
