"""Files that only the server's own user may read: they hold inputs, hashes of keys and everybody's names."""

import logging
import os
from contextlib import suppress
from pathlib import Path

log = logging.getLogger("indubio_server")
OTHERS = 0o077  # what a group and everybody else may do


def private_folder(path: Path) -> None:
    """Make a folder that is its owner's alone, whatever the umask; one that is there stays as it is."""
    if not path.exists():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)


def private_file(path: Path) -> None:
    """Make an empty file that is its owner's alone; one that is there stays as it is, and is not even opened.

    To close a file ends all locks that the process has on it (POSIX): if a server has this database open, another
    process would take it for closed and remove the log beside it.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600))


def make_private(path: Path) -> None:
    """Take a file, or a folder with all in it, from everybody but its owner."""
    for one in (path, *path.rglob("*")) if path.is_dir() else (path,):
        one.chmod(0o700 if one.is_dir() else 0o600)


def warn_of_others(state: Path) -> None:
    """Log what in a server's folder other users of the machine may read or change."""
    if os.name != "posix":
        return
    open_to_others = [
        str(one) for one in (state, *sorted(state.rglob("*"))) if not one.is_symlink() and one.stat().st_mode & OTHERS
    ]
    if open_to_others:
        told = {"paths": open_to_others[:10], "count": len(open_to_others)}
        log.warning(f"other users may read or change what the server keeps: chmod -R go= {state}", extra=told)
