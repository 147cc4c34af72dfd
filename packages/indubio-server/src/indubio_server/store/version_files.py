"""The files of model versions: are they still those that the trail has the sha256 of?"""

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection

from indubio.errors import ModelFileError
from indubio_server.store.row_seals import raw_rows
from indubio_server.store.tables import model_versions


def file_findings(connection: Connection) -> Iterator[str]:
    """Read the files of every version; a sentence for each that is gone or was changed."""
    for row in raw_rows(connection, model_versions):
        fault = _fault(str(row["path"]), row["sha256"])
        if fault is not None:
            yield f"the files of version {row['version']} of {row['name']!r}: {fault}"


def _fault(path: str, sha256: object) -> str | None:
    from indubio.storage.model_folder import read_stored

    try:
        folder = Path(path)
        checksum = read_stored(folder)[0].checksum
    except (ModelFileError, OSError, ValueError) as error:
        return str(error)
    return None if checksum == sha256 else f"{folder} holds another model now."
