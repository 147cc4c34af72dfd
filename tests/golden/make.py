"""Make the golden model of the current format version: `python -m tests.golden.make`, once per version.

It stays as it is from then on: later versions must load it, and find what was found when it was made. What is expected
comes from the detector in memory, not from the model on disk.
"""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from indubio import AnchoredEnsemble, Budget, Dense, Detector, Training, save
from indubio.calibration import CrossFit
from indubio.inputs import Roles
from indubio.storage import FORMAT

HERE = Path(__file__).parent


def parts(columns: dict[str, list]) -> object:
    return Roles(categorical=("machine",)).part(pa.table(columns))


def main() -> None:
    folder = HERE / f"v{FORMAT}"
    folder.mkdir()  # fails if it is there: a golden model is never made again
    random = np.random.default_rng(2024)
    pressure = random.normal(10, 1, 30)
    flow = 2 * pressure + random.normal(0, 0.5, 30)
    good = {"pressure": [*pressure[:-1], None], "flow": list(flow), "machine": ["A", "B", "B"] * 10}
    detector = Detector(
        posterior=AnchoredEnsemble(members=2),
        architecture=Dense(widths=(4,)),
        training=Training(epochs=20),
        missing="refer",
        calibration=CrossFit(folds=2),
        referral=Budget(share=0.1),
    ).fit(parts(good))
    examples = {
        "pressure": [10.0, 10.7, 11.8, None, 8.0, 30.0, *pressure[:6]],
        "flow": [20.0, 20.6, 24.5, 21.0, 16.5, -5.0, *flow[:6] + 0.4],
        "machine": ["A", "B", "B", "A", "C", "B", *["A", "B"] * 3],
    }
    found = detector.assess(parts(examples)).to_dict()
    thresholds = {
        str(share): detector.refer_by(Budget(share=share)).referral_threshold_ for share in (0.0, 0.05, 0.5, 0.1)
    }
    expected = {
        "examples": examples,
        "assessment": {name: values.tolist() for name, values in found.items()},
        "nll": detector.nll(parts(examples)).tolist(),
        "thresholds": thresholds,
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    save(detector, folder / "model")


if __name__ == "__main__":
    main()
