"""Files that are whole or not there.

A file is written under another name in the same folder, synced, and renamed when all is well; after an error or Ctrl-C
nothing is left of it.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from indubio.errors import OutputError
from indubio.io.remote import RemotePath, is_remote, local_path

UNFINISHED = ".part"  # how the name ends that a file has while it is written


@contextmanager
def whole_file(target: str | Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of the target when the block ends without an error, and never before.

    Args:
        target: a path, or a URL that fsspec knows.
    """
    if is_remote(target):
        with RemotePath(str(target)).whole() as stream:
            yield stream
        return
    path = local_path(target)
    try:
        with replacing(path) as stream:
            yield stream
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror}).") from None


@contextmanager
def replacing(path: Path, unfinished: str = UNFINISHED) -> Iterator[IO[bytes]]:
    """A file of this machine that replaces another as a whole, with the errors of the system as they are.

    Args:
        path: the file to replace, or to make.
        unfinished: how the name ends that it has until then.
    """
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}{unfinished}"
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable: a file that was synced and renamed may have its old name after a power cut."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
