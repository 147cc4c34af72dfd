"""`save`: a fitted detector as a folder, in one step."""

import contextlib
import os
import secrets
import shutil
from os import PathLike
from pathlib import Path

from sklearn.utils.validation import check_is_fitted

from indubio.detector import Detector
from indubio.errors import ModelFileError, quoted
from indubio.storage.array_bytes import packed
from indubio.storage.card import card
from indubio.storage.detector_state import taken_apart
from indubio.storage.files import entries, flush_folder, locked, write
from indubio.storage.model_manifest import CARD, MANIFEST, DataFile, ModelManifest, is_expected, is_stray, parsed


def save(detector: Detector, path: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write a fitted detector to a folder of its own.

    Whatever happens on the way, also a crash, the folder has the old model or the new one, whole.

    Args:
        detector: fitted.
        path: the folder; its parent must exist.
        overwrite: replace the model that is there. Other folders are never touched.
    """
    if not isinstance(detector, Detector):
        raise ModelFileError(
            f"{type(detector).__name__} holds objects of other packages, which only pickle could store, and opening a "
            "pickle runs what is in it. Keep the training data and the settings: the same seed fits the same model."
        )
    check_is_fitted(detector)
    model = _Content(detector)
    folder = Path(os.path.realpath(path))  # through a link, the model it leads to is replaced
    try:
        if folder.exists() or not _publish_new(model, folder):
            _publish_over(model, folder, overwrite=overwrite)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelFileError(f"{folder} cannot be written: {reason}. A model that was there is unchanged.") from error


class _Content:
    """The files of a model, made before anything on the disk is touched."""

    def __init__(self, detector: Detector) -> None:
        stored = taken_apart(detector)
        packs = {"weights": packed(stored.weights), "arrays": packed(stored.arrays)}
        entry = {role: DataFile.of(role, content) for role, content in packs.items()}
        manifest = ModelManifest(settings=stored.settings, draws=stored.draws, fitted=stored.fitted, files=entry)
        self._data = {entry[role].name: content for role, content in packs.items()}
        self._manifest = manifest.rendered()
        self._card = card(detector, parsed(self._manifest, MANIFEST))

    def write(self, folder: Path) -> None:
        """Write everything that is not there yet, the manifest last: it is what makes the model the new one."""
        for name, content in self._data.items():
            write(folder, name, content)
        write(folder, CARD, self._card)
        flush_folder(folder)
        write(folder, MANIFEST, self._manifest)
        flush_folder(folder)

    def clean(self, folder: Path) -> None:
        """Remove what earlier saves left."""
        for name in entries(folder):
            if is_stray(name) and name not in self._data:
                (folder / name).unlink()


def _publish_new(model: _Content, folder: Path) -> bool:
    """Make the folder appear, whole; False if another one came first."""
    fresh = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    fresh.mkdir()
    try:
        model.write(fresh)
        fresh.rename(folder)
    except BaseException as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if isinstance(error, OSError) and folder.exists():
            return False
        raise
    flush_folder(folder.parent)
    return True


def _publish_over(model: _Content, folder: Path, *, overwrite: bool) -> None:
    """Replace the model in the folder, one save after the other."""
    if not folder.is_dir():
        raise ModelFileError(f"{folder} is a file. Choose another path.")
    strangers = [name for name in entries(folder) if not is_expected(name)]
    if strangers:
        raise ModelFileError(
            f"{folder} holds files that belong to no model: {quoted(sorted(strangers)[:5])}. Choose another path."
        )
    with locked(folder):
        if not overwrite and (folder / MANIFEST).exists():
            raise ModelFileError(
                "{folder} already holds a model. Pass `overwrite=True` to replace it, or another path.", folder=folder
            )
        model.write(folder)
        with contextlib.suppress(OSError, ModelFileError):  # what cannot be removed now is removed by the next save
            model.clean(folder)
