"""From a folder to what its files hold: the exact files, sizes and checksums that the manifest names."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from indubio.errors import ModelFileError, quoted
from indubio.storage.array_bytes import unpacked
from indubio.storage.files import entries, read
from indubio.storage.model_manifest import LARGEST_MANIFEST, MANIFEST, DataFile, ModelManifest, is_expected, parsed

ATTEMPTS = 10  # times that a reader may meet a save in one go


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What a model's files hold, which is not yet understood.

    Args:
        settings: of the detector, as plain data.
        draws: how many, and what each is made of.
        fitted: the fitted attributes; arrays are only named there.
        weights: the arrays of the draws.
        arrays: all others.
    """

    settings: dict[str, Any]
    draws: dict[str, Any]
    fitted: dict[str, Any]
    weights: dict[str, np.ndarray]
    arrays: dict[str, np.ndarray]


def read_manifest(path: str | PathLike[str]) -> ModelManifest:
    """The manifest of a model, checked against its own checksum; the data files are not read."""
    folder = Path(path)
    with _readable(folder):
        return _manifest(folder)


def read_stored(folder: Path) -> tuple[ModelManifest, Stored]:
    """The manifest and all that a model's files hold, checked against the checksums."""
    with _readable(folder):
        for _ in range(ATTEMPTS):
            manifest = _manifest(folder)
            try:
                return manifest, _read(folder, manifest)
            except (ModelFileError, FileNotFoundError):
                # A save may have put a new model in place since: then these were the old one's files.
                if _manifest(folder).checksum == manifest.checksum:
                    raise
        raise ModelFileError(f"{folder} is being written all the time. Load it when the saves are done.")


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        if not folder.is_dir():
            raise ModelFileError(f"there is no model in {folder}: it is no folder.")
        yield
    except FileNotFoundError as error:
        raise ModelFileError(f"{error.filename} is missing. Get a fresh copy of the model.") from None
    except OSError as error:
        raise ModelFileError(f"{error.filename or folder} cannot be read: {error.strerror}.") from None


def _manifest(folder: Path) -> ModelManifest:
    names = entries(folder)
    if MANIFEST not in names:
        raise ModelFileError(f"there is no model in {folder}: {MANIFEST} is missing.")
    strangers = [name for name in names if not is_expected(name)]
    if strangers:
        raise ModelFileError(
            f"{folder} holds files that belong to no model: {quoted(sorted(strangers)[:5])}. "
            "Remove them if you know them; otherwise get a fresh copy of the model."
        )
    return parsed(read(folder / MANIFEST, LARGEST_MANIFEST), str(folder / MANIFEST))


def _read(folder: Path, manifest: ModelManifest) -> Stored:
    return Stored(
        settings=manifest.settings,
        draws=manifest.draws,
        fitted=manifest.fitted,
        weights=_arrays(folder, manifest.files["weights"]),
        arrays=_arrays(folder, manifest.files["arrays"]),
    )


def _arrays(folder: Path, file: DataFile) -> dict[str, np.ndarray]:
    path = folder / file.name
    content = read(path, file.size)
    if len(content) != file.size or hashlib.sha256(content).hexdigest() != file.sha256:
        raise ModelFileError(
            f"{path} does not match its checksum: the file is damaged or was changed. Get a fresh copy of the model."
        )
    return unpacked(content, str(path))
