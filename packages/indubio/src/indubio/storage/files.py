"""Files and folders that are either whole or not there, and reading that trusts no name and no size."""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from indubio.errors import ModelFileError
from indubio.io import replacing

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK = ".lock"
TEMPORARY = ".tmp"
MOST_ENTRIES = 1000  # in a model's folder: three or four, and what killed saves left


def write(folder: Path, name: str, content: bytes) -> None:
    """Put a file in place in one step: after a crash it is the old one, the new one, or not there."""
    with replacing(folder / name, TEMPORARY) as file:
        file.write(content)


def flush_folder(folder: Path) -> None:
    """Make the names in a folder last: a renamed file is safe only when its folder is on the disk too."""
    if sys.platform == "win32":  # folders cannot be opened there, and names last by themselves
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other save works in this folder. The system frees the lock of a process that dies."""
    with (folder / LOCK).open("ab") as lock:
        if sys.platform == "win32":
            msvcrt.locking(lock.fileno(), msvcrt.LK_LOCK, 1)
        else:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def entries(folder: Path) -> list[str]:
    """Names of the files in a folder; links, folders and devices are refused."""
    names = []
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_symlink() or not entry.is_file(follow_symlinks=False):
                raise ModelFileError(f"{folder / entry.name} is not a plain file. A model has plain files only.")
            names.append(entry.name)
            if len(names) > MOST_ENTRIES:
                raise ModelFileError(f"{folder} holds more than {MOST_ENTRIES} files. It is no model.")
    return names


def read(path: Path, largest: int) -> bytes:
    """The content of a plain file of at most so many bytes."""
    # A link is not followed, and a pipe that was put here since `entries` looked is not waited for.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ModelFileError(f"{path} is not a plain file. A model has plain files only.")
        if found.st_size > largest:
            raise ModelFileError(
                f"{path} has {found.st_size} bytes, more than the {largest} it may have. Get a fresh copy."
            )
        return file.read(found.st_size + 1)
