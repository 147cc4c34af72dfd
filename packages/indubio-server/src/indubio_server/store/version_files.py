"""The files of model versions: in the database under their sha256, so that whoever shares it can use every version.

A folder of a model becomes one piece of bytes (a zip without compression) and, on the machine that needs it, a folder
again. What a version is goes by its sha256 alone; where a folder lies is nobody's business.
"""

import io
import tempfile
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, insert, select

from indubio.errors import ModelFileError
from indubio_server.store.private_files import make_private, private_folder
from indubio_server.store.row_seals import raw_rows
from indubio_server.store.tables import model_versions, version_files

FAULTS = (ModelFileError, OSError, ValueError, TypeError)
DIGITS = 32  # of the sha256 that name a folder


def packed(folder: Path) -> bytes:
    """The files of a model's folder as bytes: the same for the same files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path in sorted(folder.iterdir()):
            if path.is_file() and not path.name.startswith("."):
                archive.writestr(zipfile.ZipInfo(path.name), path.read_bytes())
    return out.getvalue()


def keep_files(connection: Connection, sha256: str, content: bytes) -> list[str]:
    """Write the files of a version, where they are not there; the keys of what was written."""
    if connection.execute(select(version_files.c.sha256).where(version_files.c.sha256 == sha256)).first() is not None:
        return []
    connection.execute(insert(version_files), {"sha256": sha256, "content": content})
    return [sha256]


def folder_in(archive: Path, sha256: str) -> Path:
    """Where the files of a version lie in a folder of them, if they are there."""
    return (archive / sha256[:DIGITS]).resolve()


def unpack(connection: Connection, archive: Path, sha256: str) -> Path:
    """The folder with the files of a version; they are fetched where they are not there."""
    there = folder_in(archive, sha256)
    if not there.exists():
        row = connection.execute(select(version_files.c.content).where(version_files.c.sha256 == sha256)).one_or_none()
        if row is None:
            raise ModelFileError(f"the database does not have the files of the version with the sha256 {sha256}.")
        private_folder(archive)
        partial = there.with_name(f"{there.name}.{uuid.uuid4().hex}.partial")
        _write(row.content, partial)
        make_private(partial)
        try:
            partial.rename(there)
        except OSError:  # another process was faster
            if not there.exists():
                raise
    return there


def file_findings(connection: Connection, archive: Path | None) -> Iterator[str]:
    """Read the files of every version, in the database and in a folder; a sentence for each that is not as it was."""
    for row in raw_rows(connection, model_versions):
        sha256 = str(row["sha256"])
        for fault in (_stored_fault(connection, sha256), _folder_fault(archive, sha256)):
            if fault is not None:
                yield f"the files of version {row['version']} of {row['name']!r}: {fault}"


def _stored_fault(connection: Connection, sha256: str) -> str | None:
    with tempfile.TemporaryDirectory(prefix="indubio-version-") as empty:
        try:
            unpack(connection, Path(empty), sha256)
        except FAULTS as error:
            return str(error)
        return _folder_fault(Path(empty), sha256)


def _folder_fault(archive: Path | None, sha256: str) -> str | None:
    from indubio.storage import read_stored

    if archive is None or not (folder := folder_in(archive, sha256)).exists():
        return None
    try:
        checksum = read_stored(folder)[0].checksum
    except FAULTS as error:
        return str(error)
    return None if checksum == sha256 else f"{folder} holds another model now."


def _write(content: bytes, folder: Path) -> None:
    """Write what `packed` made; nothing that leads out of the folder, or is larger than its bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = {one.filename: archive.read(one) for one in archive.infolist() if not one.compress_type}
            whole = len(files) == len(archive.infolist()) and all(Path(name).name == name for name in files)
    except (zipfile.BadZipFile, TypeError, ValueError) as error:
        raise ModelFileError(f"the database does not hold files of a version as they are kept: {error}.") from None
    if not whole:
        raise ModelFileError("the database holds files of a version that are compressed or lead out of their folder.")
    folder.mkdir()
    for name, file in files.items():
        (folder / name).write_bytes(file)
