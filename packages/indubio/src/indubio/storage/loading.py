"""From a model's folder to a detector: `load`; with what the manifest says: `read_model`."""

from os import PathLike
from pathlib import Path

from indubio.detector import Detector
from indubio.errors import ConfigError, IndubioError, ModelFileError
from indubio.networks import OwnNetwork
from indubio.storage.detector_state import OWN, PROBE, check_probe, put_together
from indubio.storage.model_folder import read_stored
from indubio.storage.model_manifest import MANIFEST, ModelManifest

# What numbers that no model has can lead to, beside the errors that are raised for them.
_REFUSALS = (IndubioError, ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


def load(path: str | PathLike[str], *, architecture: OwnNetwork | None = None, device: str | None = None) -> Detector:
    """A fitted detector that scores as the one that was saved, to the bit on the same machine.

    Nothing of the model is executed. Whatever is missing, damaged, unexpected or newer is refused with a
    `ModelFileError` that names the file.

    Args:
        path: the model's folder.
        architecture: the network, for a model that was saved with an `OwnNetwork`; not otherwise.
        device: "cpu", "cuda" or "mps"; None is the one the model was trained on.
    """
    return read_model(path, architecture=architecture, device=device)[1]


def read_model(
    path: str | PathLike[str], *, architecture: OwnNetwork | None = None, device: str | None = None
) -> tuple[ModelManifest, Detector]:
    """The manifest and the detector, of one reading of the folder; the arguments are those of `load`."""
    folder = Path(path)
    manifest, stored = read_stored(folder)
    own = stored.settings.get("architecture") == OWN
    if own and not isinstance(architecture, OwnNetwork):
        raise ConfigError(
            f"{folder} was saved with the user's own network, which is Python and not in the file. Pass it: "
            "load(path, architecture=OwnNetwork(encoder=..., decoder=...))."
        )
    if not own and architecture is not None:
        raise ConfigError("{folder} brings its own architecture. Leave `architecture` out.", folder=folder)
    try:
        detector = put_together(stored, architecture, device)
        if own:
            check_probe(detector.draws_, stored.arrays.get(PROBE))
    except ConfigError as error:
        raise ModelFileError(f"{folder / MANIFEST} has a setting that cannot be used here: {error}") from error
    except _REFUSALS as error:
        blame = "fit the network that was passed" if own else "describe a model that indubio could have saved"
        raise ModelFileError(f"{folder / MANIFEST} does not {blame}: {error}") from error
    return manifest, detector
