"""The folder that results go to: on this machine, or wherever fsspec reaches."""

import re
from dataclasses import dataclass
from pathlib import Path

from indubio.errors import OutputError
from indubio.io import RemotePath, is_remote, local_path, whole_file

_PART = re.compile(r"\..+\.[0-9a-f]{12}\.\w+\.\w+\.part")  # what a worker that was killed was writing


@dataclass(frozen=True)
class OutFolder:
    """A folder of results.

    Args:
        url: path, or URL.
    """

    url: str

    def target(self, name: str) -> str:
        """Where a file goes; on this machine its folder is made."""
        if is_remote(self.url):
            return RemotePath(self.url).below(name).url
        path = self._path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{path.parent}: cannot be made ({error.strerror}).") from None
        return str(path)

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the folder in one step, whole or not at all."""
        with whole_file(self.target(name)) as file:
            file.write(content)

    def read(self, name: str) -> bytes | None:
        """The content of a file of the folder; None where there is no such file."""
        if is_remote(self.url):
            path = RemotePath(self.url).below(name)
            if not path.is_file():
                return None
            with path.opened() as file:
                return bytes(file.read())
        try:
            return (self._path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def size(self, name: str) -> int:
        """Size of a file of the folder, in bytes."""
        if is_remote(self.url):
            return RemotePath(self.url).below(name).version()[0]
        return (self._path / name).stat().st_size

    def sizes(self) -> dict[str, int]:
        """Sizes of all files in the folder and below it, by name."""
        if is_remote(self.url):
            return RemotePath(self.url).sizes()
        found = (path for path in self._path.rglob("*") if path.is_file())
        return {path.relative_to(self._path).as_posix(): path.stat().st_size for path in found}

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if is_remote(self.url):
            RemotePath(self.url).below(name).remove()
        else:
            (self._path / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove what killed workers left; a file that is not whole has another name than results have."""
        if not is_remote(self.url):
            for path in self._path.rglob(".*.part"):
                if _PART.fullmatch(path.name):
                    path.unlink(missing_ok=True)

    @property
    def _path(self) -> Path:
        return local_path(self.url)
