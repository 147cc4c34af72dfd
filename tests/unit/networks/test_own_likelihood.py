"""A likelihood of one's own: the skeleton's formula is what is scored, and what cannot be done with it is said."""

from dataclasses import dataclass

import numpy as np
import pytest

from indubio import AnchoredEnsemble, Detector, Deterministic, Training
from indubio.errors import ConfigError
from indubio.export import export_onnx
from indubio.networks import Autoencoder, Dense, Likelihood, engine_for
from tests.skeletons.likelihood import LogCoshLikelihood

ROWS = np.random.default_rng(0).random((40, 3), dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class Formless(Likelihood):
    """Settings alone."""


def test_its_formula_is_the_score_and_torch_computes_it():
    autoencoder = Autoencoder(Dense().build((3,)), LogCoshLikelihood())
    assert engine_for(autoencoder).name.startswith("torch")
    draws = Deterministic().fit(autoencoder, ROWS, training=Training(epochs=2), seed=0)
    expected = np.log(np.cosh(ROWS - draws.reconstruction(ROWS).astype(np.float64)))
    np.testing.assert_allclose(draws.nll_per_feature(ROWS), expected, atol=1e-6)


def test_one_without_a_formula_is_refused_with_the_way_out():
    autoencoder = Autoencoder(Dense().build((3,)), Formless())
    with pytest.raises(
        TypeError, match=r"Formless has no formula on torch: register one with .*nll_of_values.register"
    ):
        Deterministic().fit(autoencoder, ROWS, training=Training(epochs=1), seed=0)


def test_it_cannot_be_exported(tmp_path):
    detector = Detector(
        likelihood=LogCoshLikelihood(), posterior=AnchoredEnsemble(members=2), training=Training(epochs=1)
    )
    with pytest.raises(ConfigError, match="LogCoshLikelihood cannot be exported"):
        export_onnx(detector.fit(ROWS), tmp_path / "model.onnx")
