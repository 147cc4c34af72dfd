"""A model as bytes, so that it can be sent to workers that do not see its folder."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from indubio.errors import ModelFileError
from indubio.judge import Judge
from indubio.storage import MANIFEST, read_manifest


@dataclass(frozen=True)
class SentModel:
    """The files of a model.

    Args:
        digest: sha256 that tells this model from every other.
        files: content by name.
    """

    digest: str
    files: Mapping[str, bytes]

    @classmethod
    def read(cls, model: Path) -> "SentModel":
        """Read the bytes of a model from its folder; they are checked when the model is loaded."""
        manifest = read_manifest(model)
        names = [MANIFEST, *(file.name for file in manifest.files.values())]
        try:
            return cls(manifest.checksum, {name: (model / name).read_bytes() for name in names})
        except OSError as error:
            raise ModelFileError(f"{error.filename} cannot be read: {error.strerror}.") from None

    def loaded(self) -> Judge:
        """The model, ready for use."""
        with tempfile.TemporaryDirectory(prefix="indubio-") as folder:
            for name, content in self.files.items():
                (Path(folder) / name).write_bytes(content)
            return Judge.load(folder)
