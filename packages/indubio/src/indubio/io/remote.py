"""Files that are not on this machine's disks: s3://, gs://, abfs:// and whatever else fsspec knows.

A source or target is remote when it looks like a URL. Everything else is a path of this machine and never gets here.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any

from indubio.errors import DataError, MissingExtraError, OutputError

_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+(://|::)")
# An object appears when it was sent whole. Elsewhere a file is sent under another name first.
OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "memory"}


def is_remote(place: object) -> bool:
    """Whether this is a URL of another kind than file://."""
    return isinstance(place, str) and _URL.match(place) is not None and not place.startswith("file://")


def local_path(place: str | Path) -> Path:
    """The path of what is not remote; file:// may be in front of it."""
    return Path(str(place).removeprefix("file://"))


@dataclass(frozen=True)
class RemotePath:
    """A file or folder of a file system of fsspec; as far as it is needed, what `Path` is for this machine.

    Args:
        url: with the protocol, such as s3://bucket/runs/1.parquet.
    """

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of the address."""
        return PurePosixPath(self._place[1]).name

    @property
    def inner(self) -> str:
        """The path within its file system."""
        return self._place[1]

    @property
    def suffix(self) -> str:
        """The ending, with its dot."""
        return PurePosixPath(self._place[1]).suffix

    def below(self, name: str) -> "RemotePath":
        """A file in this folder; `name` may have folders of its own."""
        head, chain, rest = self.url.partition("::")
        return RemotePath(f"{head.rstrip('/')}/{name}{chain}{rest}")

    def is_file(self) -> bool:
        """Whether there is a file at this address."""
        fs, path = self._place
        return bool(fs.isfile(path))

    def found(self) -> "list[RemotePath]":
        """The files that are meant: those of a folder, those that match a pattern, or the one file."""
        fs, path = self._place
        try:
            if re.search(r"[*?\[]", path):
                names = [name for name in fs.glob(path) if not fs.isdir(name)]
            elif fs.isdir(path):
                names = [entry["name"] for entry in fs.ls(path, detail=True) if entry["type"] == "file"]
            else:
                names = [path] if fs.exists(path) else []
        except (OSError, ValueError) as error:
            raise DataError(f"{self.url}: cannot be listed ({error}).") from None
        if not names:
            raise DataError(f"{self.url}: no such file, folder or match.")
        return [self._sibling(fs, name) for name in names]

    def version(self) -> tuple[int, str]:
        """Size in bytes, and a text that changes when the file does."""
        fs, path = self._place
        try:
            return int(fs.size(path) or 0), str(fs.ukey(path))
        except (OSError, NotImplementedError) as error:
            raise DataError(f"{self.url}: cannot be looked at ({error}).") from None

    def sizes(self) -> dict[str, int]:
        """Sizes of all files below this folder, by their path in it."""
        fs, path = self._place
        try:
            found = fs.find(path, detail=True)
        except FileNotFoundError:
            return {}
        root = path.rstrip("/") + "/"
        return {name.removeprefix(root): int(entry["size"] or 0) for name, entry in found.items()}

    def opened(self) -> Any:
        """The file at this address, opened to read bytes."""
        fs, path = self._place
        try:
            return fs.open(path, "rb")
        except (OSError, ValueError) as error:
            raise DataError(f"{self.url}: cannot be read: {error}") from None

    def remove(self) -> None:
        """Remove the file, if it is there."""
        fs, path = self._place
        with suppress(FileNotFoundError):
            fs.rm_file(path)

    @contextmanager
    def whole(self) -> Iterator[IO[bytes]]:
        """A file to write that takes the place of this one when the block ends without an error, and never before."""
        with tempfile.TemporaryFile(prefix="indubio-") as file:
            yield file
            file.seek(0)
            try:
                self._send(file)
            except Exception as error:  # noqa: BLE001 - every file system has errors of its own
                raise OutputError(f"{self.url}: cannot be written ({error}).") from None

    def _send(self, file: IO[bytes]) -> None:
        fs, path = self._place
        store = not OBJECT_STORES.isdisjoint([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)
        sent = path if store else str(PurePosixPath(path).with_name(f".{PurePosixPath(path).name}.part"))
        fs.makedirs(fs._parent(path), exist_ok=True)
        try:
            with fs.open(sent, "wb") as out:
                while block := file.read(2**22):
                    out.write(block)
            if not store:
                fs.mv(sent, path)
        except BaseException:
            with suppress(Exception):
                fs.rm_file(sent)
            raise

    @property
    def _place(self) -> tuple[Any, str]:
        """The file system, and the path in it."""
        return _resolved(self.url)

    def _sibling(self, fs: Any, path: str) -> "RemotePath":
        head, chain, rest = self.url.partition("::")
        if chain:  # zip://*.csv::archive.zip: the first part is the path inside
            return RemotePath(f"{head.partition('://')[0]}://{path.lstrip('/')}{chain}{rest}")
        return RemotePath(fs.unstrip_protocol(path))


@lru_cache(maxsize=256)  # an archive that nobody holds is closed, with the files that are read from it
def _resolved(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError(f'{url} needs fsspec: pip install "indubio[dask]".') from None
    try:
        fs, path = url_to_fs(url)
    except ImportError as error:
        raise MissingExtraError(f"{url}: {error}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{url}: {error}") from None
    return fs, path
