"""With an engine of its own, nothing that is not the user's own modules needs torch."""

import subprocess
import sys

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
from indubio.engine import engine
from indubio.explain import explained
from indubio.export import export_onnx
from indubio.posteriors import POSTERIORS, EarlyStopping


class Constant:
    """An engine whose networks take every row for the mean of their weights, and never learn."""

    by_network = True

    def __init__(self, autoencoder):
        pass

    def trainer(self, objective, values, anchors, streams, *, batch, threads):
        self._values = values
        return self

    def sampler(self, chain, values, stream, *, batch):
        self._values = values
        return Chain(values)

    def scorer(self, count, values, masks, noise):
        self._count, self._values = count, values
        return self

    def steps(self, rows, order, rates):
        return np.zeros(len(order))

    def held_out_loss(self, rows):
        return np.zeros(len(self._values))

    def values(self):
        return self._values

    def put(self, values):
        self._values = values

    def reconstruction(self, rows):
        mean = np.broadcast_to(self._values.mean(axis=1), self._count).reshape(-1, *[1] * rows.ndim)
        return np.broadcast_to(mean, (self._count, *rows.shape))

    def nll_apart(self, rows):
        apart = (rows - self.reconstruction(rows)) ** 2 / 2
        return apart.mean(axis=tuple(range(2, apart.ndim))), apart

    def nll(self, rows):
        return self.nll_apart(rows)[0]


class Chain(Constant):
    def __init__(self, values):
        self._values = values

    def steps(self, rows, order):
        return 0.0


engine.compiled_engine = Constant
rows = np.random.default_rng(0).random((300, 4))
table = pa.table({name: rows[:, place] for place, name in enumerate("abcd")})
training = Training(epochs=2, early_stopping=EarlyStopping())
for posterior in POSTERIORS.values():
    detector = Detector(posterior=posterior(), training=training).fit(rows)
    expected = detector.assess(rows).nll
    save(detector, sys.argv[1] + posterior.__name__)
    np.testing.assert_array_equal(load(sys.argv[1] + posterior.__name__).assess(rows).nll, expected)
    export_onnx(detector, sys.argv[1] + posterior.__name__ + ".onnx")
explained(detector, rows)
Detector().fit(np.random.default_rng(0).random((30, 20, 2))).assess(np.zeros((2, 20, 2)))
Detector(calibration=HoldOut()).fit(ExampleStream(table, buffer=100)).assess(Table(features=table))
detector.update(rows[:5], training_data=rows)
assert "torch" not in sys.modules
'''


def test_another_engine_fits_assesses_saves_streams_explains_and_exports(tmp_path):
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "model")], check=True)
