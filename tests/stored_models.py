"""Small detectors to store, and ways to tamper with what was stored."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from indubio import AnchoredEnsemble, Dense, Detector, Training
from indubio.storage.model_manifest import data_name

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 1)) + 0.3 * RNG.normal(size=(40, 3))
TRAINED: dict[str, Any] = {
    "posterior": AnchoredEnsemble(members=2),
    "architecture": Dense(widths=(4,)),
    "training": Training(epochs=2),
}


def fitted(**settings) -> Detector:
    """The default, or with these settings."""
    return Detector(**settings).fit(ROWS)


def trained(**settings) -> Detector:
    """A small network, trained for a moment, for what only such a model has: an architecture, epochs, masks."""
    return fitted(**TRAINED | settings)


def assert_same(one: Detector, other: Detector, examples: Any) -> None:
    """Both say the same of the examples, to the bit."""
    first, second = one.assess(examples).to_dict(), other.assess(examples).to_dict()
    for name, values in first.items():
        np.testing.assert_array_equal(second[name], values, err_msg=name, strict=True)
    np.testing.assert_array_equal(one.nll(examples), other.nll(examples), strict=True)
    judged = [as_saved(detector).predict(examples) for detector in (one, other)]
    np.testing.assert_array_equal(*judged, strict=True)


def data_file(folder: Path, role: str) -> Path:
    (found,) = folder.glob(f"{role}-*.safetensors")
    return found


def reseal(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest and put its checksum right, as an attacker could."""
    manifest = folder / "manifest.json"
    plain = json.loads(manifest.read_text())
    change(plain)
    plain["checksum"] = "0" * 64
    blank = json.dumps(plain, indent=1)
    checksum = hashlib.sha256(blank.encode()).hexdigest()
    manifest.write_text(blank.replace("0" * 64, checksum, 1))


def put_data(folder: Path, role: str, content: bytes) -> None:
    """Replace a data file and put every checksum right."""
    data_file(folder, role).unlink()
    sha256 = hashlib.sha256(content).hexdigest()
    entry = {"name": data_name(role, sha256), "size": len(content), "sha256": sha256}
    (folder / entry["name"]).write_bytes(content)
    reseal(folder, lambda plain: plain["files"].update({role: entry}))


def as_saved(detector: Detector) -> Detector:
    """Without what is not saved: what was said of the training rows while they were held out."""
    return detector.of_chain(replace(detector.fitted_chain, held_out=None))
