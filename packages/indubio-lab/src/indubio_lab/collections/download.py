"""A file of a collection: from a local folder, else the cache, else its public home, where every mirror is tried.

Transfers are `pooch`'s: into a temporary file beside the target, checked against the checksum, then renamed. So a
transfer that breaks off leaves nothing behind and starts again, and processes that fetch the same file at once
each rename a whole one.
"""

import hashlib
import logging
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import TracebackType

from indubio.errors import ConfigError, DownloadError
from indubio_lab.collections.collection import CollectionFile

DATA_FOLDER = "INDUBIO_DATA"
CACHE_FOLDER = "INDUBIO_CACHE"
ATTEMPTS = 2  # per address, and only after a transfer that broke off
TIMEOUT = 30  # seconds without an answer
CHUNK = 1 << 20  # bytes; pooch's 1024 makes a gigabyte slow


def fetch(file: CollectionFile, *, folder: str | Path | None = None, progress: bool | None = None) -> Path:
    """Where the file is on this machine, downloaded if need be.

    Args:
        file: what is wanted.
        folder: a data folder with the collections as subfolders; by default the one that INDUBIO_DATA names.
        progress: show a progress bar; by default only on a terminal.
    """
    found = find(file, folder)
    if found is not None:
        return found
    target = cache_folder() / file.path
    shown = sys.stderr.isatty() if progress is None else progress
    failures = []
    for address in (file.archive or file).addresses:
        try:
            reason = _fetch_from(address, file, target, shown)
        except OSError as error:  # of this machine: those of the network have become a reason
            raise DownloadError(
                f"{target} cannot be written ({error}). Set {CACHE_FOLDER} to a folder with room for it."
            ) from None
        if reason is None:
            return target
        failures.append(f"{address} ({reason})")
    raise DownloadError(_not_to_be_had(file, target, data_folder(folder), failures))


def find(file: CollectionFile, folder: str | Path | None = None) -> Path | None:
    """Where the file is on this machine, None if it is not: the local folder first, then the cache."""
    local = find_local(file.path, folder)
    if local is not None:
        return local
    cached = cache_folder() / file.path
    return cached if cached.is_file() and _is_intact(cached, file) else None


def find_local(path: str, folder: str | Path | None = None) -> Path | None:
    """The file in the local folder, None if it is not there or no folder is named."""
    root = data_folder(folder)
    return root / path if root is not None and (root / path).is_file() else None


def data_folder(folder: str | Path | None = None) -> Path | None:
    """The local folder: the argument, else INDUBIO_DATA, else None."""
    named, by = (folder, "`folder`") if folder is not None else (os.environ.get(DATA_FOLDER), DATA_FOLDER)
    if not named:
        return None
    if not Path(named).is_dir():
        raise ConfigError(f"{by} must be an existing folder, got {str(named)!r}.")
    return Path(named)


def cache_folder() -> Path:
    """Where downloads are kept: INDUBIO_CACHE, else the user's cache folder of the operating system."""
    import pooch

    return Path(os.environ.get(CACHE_FOLDER) or pooch.os_cache("indubio"))


def _fetch_from(address: str, file: CollectionFile, target: Path, shown: bool) -> str | None:
    """Get the file from one address; the reason if that fails."""
    if file.archive is None:
        return _retrieve(address, target, file.sha256, shown)
    archive = target.with_name(file.archive.name)
    # No checksum of the archives is known to us: what counts is the member, and the archive's own CRCs.
    reason = None if archive.is_file() else _retrieve(address, archive, None, shown)
    reason = reason or _unpack(archive, file, target)
    if reason is not None:
        archive.unlink(missing_ok=True)
    return reason


def _retrieve(address: str, target: Path, sha256: str | None, shown: bool) -> str | None:
    """Download to the target, unless it is there already; the reason if that fails."""
    import pooch
    from requests import exceptions

    reason = "the transfer broke off"
    for _ in range(ATTEMPTS):
        try:
            with _quiet(pooch.get_logger()), _Bar(target.name, shown) as bar:
                get = pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK, timeout=TIMEOUT)
                pooch.retrieve(address, sha256, fname=target.name, path=target.parent, downloader=get)
            return None
        except exceptions.ChunkedEncodingError:
            continue
        except exceptions.HTTPError as error:
            return str(error).partition(" for url")[0]
        except exceptions.Timeout:
            return f"no answer within {TIMEOUT} s"
        except exceptions.ConnectionError:
            return "no connection"
        except exceptions.RequestException as error:
            return str(error)
        except ValueError:
            return "does not match its checksum"
    return reason


def _unpack(archive: Path, file: CollectionFile, target: Path) -> str | None:
    """Put one member of the archive at the target; the reason if that fails."""
    try:
        with zipfile.ZipFile(archive) as content:
            # By its bare name, in whatever folder: a member's own path is never written to.
            members = [item for item in content.infolist() if PurePosixPath(item.filename).name == file.name]
            if len(members) != 1:
                return f"{len(members)} files named {file.name} in the archive, not 1"
            with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                unpacked = Path(folder) / file.name
                with content.open(members[0]) as packed, unpacked.open("wb") as out:
                    shutil.copyfileobj(packed, out, CHUNK)
                if not _is_intact(unpacked, file):
                    return f"{file.name} in the archive does not match its checksum"
                unpacked.replace(target)
    except (zipfile.BadZipFile, zlib.error, EOFError):
        return "not a whole zip archive"
    return None


def _is_intact(path: Path, file: CollectionFile) -> bool:
    if file.sha256 is None:
        return True
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256


def _not_to_be_had(file: CollectionFile, target: Path, local: Path | None, failures: list[str]) -> str:
    where = f"in {local}" if local is not None else f"in a local folder ({DATA_FOLDER} is not set)"
    tried = "; ".join(failures) or "no public address is known"
    by_hand = (
        f"the zip and put it at {target.with_name(file.archive.name)}" if file.archive else f"it and put it at {target}"
    )
    return (
        f"{file.path} is not {where} and could not be downloaded: {tried}. Get {by_hand}, "
        f"or put the file at {file.path} in a folder of yours that {DATA_FOLDER} names."
    )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Pooch announces every download and prints the hash of what has none: the bar and our errors say enough."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class _Bar:
    """Rich's progress bar behind the four names that pooch calls."""

    def __init__(self, name: str, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
        self._bar = Progress(*columns, console=Console(stderr=True), disable=not shown)
        self._task = self._bar.add_task(name, total=None)

    def __enter__(self) -> "_Bar":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    @property
    def total(self) -> int:
        """Bytes to come, 0 if the server does not say."""
        return int(self._bar.tasks[0].total or 0)

    @total.setter
    def total(self, size: int) -> None:
        self._bar.update(self._task, total=size or None)

    def update(self, size: int) -> None:
        """Show that so many more bytes have come."""
        self._bar.advance(self._task, size)

    def reset(self) -> None:
        """Begin again at no bytes."""
        self._bar.update(self._task, completed=0)

    def close(self) -> None:
        """Pooch is done; leaving the context ends the bar."""
