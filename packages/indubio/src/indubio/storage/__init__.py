"""A detector on disk: a directory that is read without executing anything.

    model/
      manifest.json                      format version, settings, schema, all that is small; size and sha256 of
                                         the two files below
      weights-<16 digits>.safetensors    what the draws are made of: weights, dropout masks, code noise
      arrays-<16 digits>.safetensors     the other arrays: ranges, medians, the fitted conversion, uncertainties of
                                         reference examples
      README.md                          the model card, for people

The digits are the beginning of the file's sha256, so a save never touches the files of the model that is there: it
writes its own beside them and then replaces the manifest, in one step. Whatever moment a save is killed at, the old or
the new model loads. Savers wait for each other (`.lock`); a reader that meets a save reads again.

`load` refuses everything it does not expect, and says which file and why. It passes over, unread, `README.md` (people
may edit it: no checksum covers it), `.lock`, what a killed save left (`.*.tmp`, and data files under other digits,
which the next save removes) and what operating systems leave in folders. A new model appears in one step too; a save
that is killed before that leaves a folder `.NAME.*.partial` beside it, which may be deleted.

The checksums show damage and careless changes. They are no signature: who can write to the folder can make a model that
scores wrongly, but not one that runs code.

The uncertainties of the reference examples are kept, of many some (`kept_uncertainty`), so that the referral rule can
still be changed without growing the model with its training data.
"""

from indubio.storage.detector_state import taken_apart
from indubio.storage.loading import load, read_model
from indubio.storage.model_folder import read_manifest, read_stored
from indubio.storage.model_manifest import CARD, FORMAT, MANIFEST, ModelManifest
from indubio.storage.saving import save

__all__ = [
    "CARD",
    "FORMAT",
    "MANIFEST",
    "ModelManifest",
    "load",
    "read_manifest",
    "read_model",
    "read_stored",
    "save",
    "taken_apart",
]
