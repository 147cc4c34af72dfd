"""A model as bytes, so that it can be sent to workers that do not see its folder."""

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from indubio.batch.part_results import Assessor, is_onnx
from indubio.errors import ModelFileError
from indubio.export import OnnxModel


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
        """From a folder, or an ONNX file; checked when it is loaded."""
        if is_onnx(model):
            try:
                content = model.read_bytes()
            except OSError as error:
                raise ModelFileError(f"{model}: cannot be read ({error.strerror}).") from None
            return cls(hashlib.sha256(content).hexdigest(), {model.name: content})
        from indubio.storage import read_manifest
        from indubio.storage.model_manifest import MANIFEST

        manifest = read_manifest(model)
        names = [MANIFEST, *(file.name for file in manifest.files.values())]
        try:
            return cls(manifest.checksum, {name: (model / name).read_bytes() for name in names})
        except OSError as error:
            raise ModelFileError(f"{error.filename} cannot be read: {error.strerror}.") from None

    def loaded(self) -> Assessor:
        """The model, to be used on one core."""
        for name, content in self.files.items():
            if is_onnx(Path(name)):
                return Assessor(OnnxModel(content, threads=1))
        with tempfile.TemporaryDirectory(prefix="indubio-") as folder:
            for name, content in self.files.items():
                (Path(folder) / name).write_bytes(content)
            return Assessor.load(Path(folder))
