"""With the compiled core, nothing but the user's own modules and other devices needs torch."""

import subprocess
import sys

import pytest

from tests.engines import CORE

PROGRAM = '''
import sys


class WithoutTorch:
    """Finds no torch, as where it is not installed."""

    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, WithoutTorch())

import numpy as np
import pyarrow as pa

from indubio import Detector, ExampleStream, HoldOut, Training, load, save
from indubio.data import Table
from indubio.export import export_onnx
from indubio.networks import EarlyStopping
from indubio.posteriors import POSTERIORS


rows = np.random.default_rng(0).random((300, 4))
table = pa.table({name: rows[:, place] for place, name in enumerate("abcd")})
training = Training(epochs=2, early_stopping=EarlyStopping())
for posterior in POSTERIORS.values():
    detector = Detector(posterior=posterior(), training=training if posterior.TRAINED else None).fit(rows)
    expected = detector.assess(rows).nll
    save(detector, sys.argv[1] + posterior.__name__)
    np.testing.assert_array_equal(load(sys.argv[1] + posterior.__name__).assess(rows).nll, expected)
    export_onnx(detector, sys.argv[1] + posterior.__name__ + ".onnx")
detector.assess(rows, explain=True)
Detector().fit(np.random.default_rng(0).random((30, 20, 2))).assess(np.zeros((2, 20, 2)))
Detector(calibration=HoldOut()).fit(ExampleStream(table, buffer=100)).assess(Table(features=table))
detector.update(rows[:5], training_data=rows)
assert "torch" not in sys.modules
'''


@pytest.mark.skipif(CORE is None, reason="the core was not built: there is no compiler")
def test_without_torch_everything_fits_assesses_saves_streams_explains_and_exports(tmp_path):
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "model")], check=True)
