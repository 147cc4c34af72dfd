"""The journal: every message that was received, on disk before the broker hears that we have it.

Why a journal of messages, and not of windows or verdicts: everything after it follows from the messages in their order,
with the times of their arrival, so nothing else needs to be kept in step. A message is a record in a file of many:

    length and crc32 of what follows | time of arrival | packet id | length of the topic | topic | payload

Records are only added, and those that are written together are made durable at once, for a disk confirms some hundred
times a second, whatever the size. What a crash left half written at the end was not acknowledged, and is cut off.

What the disk refused is cut off too before anything else is written. It is written anew, and not only synced again: a
system that could not write some pages may forget that they were not written.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from itertools import pairwise
from pathlib import Path

from indubio.errors import StoreError
from indubio.io import sync_folder

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
        self._file, self._first, self._unclean = self._begun(), self.position, False
        self._end = self._file.tell()  # of what is whole in the present file

    def append(self, entries: list[JournalEntry]) -> None:
        """Write messages durably; after an OSError none of them is there, and the same may be tried again."""
        parts = []
        for one in entries:
            topic = one.topic.encode()
            body = BODY.pack(one.arrived, one.packet, len(topic)) + topic + one.payload
            parts += [HEAD.pack(len(body), zlib.crc32(body)), body]
        if self._end > LARGEST_FILE:
            self._next()
        left = memoryview(b"".join(parts))
        end = self._end + len(left)
        if self._unclean:
            os.ftruncate(self._file.fileno(), self._end)
        self._unclean = True
        while left:
            left = left[self._file.write(left) :]
        os.fsync(self._file.fileno())
        self._unclean, self._end = False, end
        self.position += len(entries)

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
            self._next()
        files = self._files()
        for (_, path), following in pairwise(files):
            if following[0] <= until:
                path.unlink()

    def close(self) -> None:
        """Close the file that is written to."""
        self._file.close()

    def _begun(self) -> FileIO:
        """Another file, whose name is durable."""
        file = (self._folder / f"{self.position:020d}.journal").open("ab", buffering=0)
        sync_folder(self._folder)
        return file

    def _next(self) -> None:
        """Begin another file, and then leave the one before."""
        file, before = self._begun(), self._file
        self._file, self._first, self._end, self._unclean = file, self.position, file.tell(), False
        before.close()

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
