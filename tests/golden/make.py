"""Make the golden models of the format: `python -m tests.golden.make`, once per format.

Once the format is released they stay as they are: later versions must load them, and find what was found when they were
made. What is expected comes from the detector in memory, not from the model on disk.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from indubio import AnchoredEnsemble, Budget, Dense, Detector, Training, save
from indubio.calibration import CrossFit
from indubio.data import Roles
from indubio.storage import FORMAT

HERE = Path(__file__).parent
FOLDER = HERE / f"v{FORMAT}"
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "ensemble": {
        "posterior": AnchoredEnsemble(members=2),
        "architecture": Dense(widths=(4,)),
        "training": Training(epochs=20),
        "calibration": CrossFit(folds=2),
    },
}


def parts(columns: dict[str, list]) -> object:
    return Roles(categorical=("machine",)).part(pa.table(columns))


def make(name: str, settings: dict[str, Any]) -> None:
    (FOLDER / name).mkdir(parents=True)  # fails if it is there: a golden model is never made again
    random = np.random.default_rng(2024)
    pressure = random.normal(10, 1, 30)
    flow = 2 * pressure + random.normal(0, 0.5, 30)
    good = {"pressure": [*pressure[:-1], None], "flow": list(flow), "machine": ["A", "B", "B"] * 10}
    detector = Detector(missing="refer", referral=Budget(share=0.1), **settings).fit(parts(good))
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
        "assessment": {column: values.tolist() for column, values in found.items()},
        "nll": detector.nll(parts(examples)).tolist(),
        "thresholds": thresholds,
    }
    (FOLDER / name / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    save(detector, FOLDER / name / "model")


def main() -> None:
    for name, settings in SETTINGS.items():
        make(name, settings)


if __name__ == "__main__":
    main()
