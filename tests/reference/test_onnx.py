"""The exported graph against the detector it came from, by ONNX Runtime."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from torch import nn

from indubio import (
    AnchoredEnsemble,
    Budget,
    Coalition,
    Conv1d,
    Conv2d,
    Dense,
    Detector,
    MCDropout,
    OwnNetwork,
    Training,
)
from indubio.data import read_table
from indubio.errors import ConfigError, DataError, ModelFileError, ShapeError
from indubio.export import OnnxModel, export_onnx
from indubio.judging import CDF_CONVERSIONS, CONVERSIONS, Odds
from indubio.networks import (
    BernoulliLikelihood,
    BetaLikelihood,
    ContinuousBernoulliLikelihood,
    GaussianLikelihood,
    LaplaceLikelihood,
    StudentLikelihood,
    TruncatedGaussianLikelihood,
)
from indubio.posteriors import POSTERIORS, TrainedPosterior
from indubio.prepare import MinMax
from tests.small_examples import skip_if_refused

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(120, 5)) @ RNG.normal(size=(5, 5))
IMAGES = RNG.normal(size=(40, 7, 8, 2)).cumsum(axis=1).cumsum(axis=2)
WINDOWS = RNG.normal(size=(40, 23, 2)).cumsum(axis=1)
DRAWS = {
    "deterministic": {},
    "anchored_ensemble": {"members": 3},
    "sghmc": {"draws": 3, "burn_in": 2, "thinning": 2},
    "cyclical_sgmcmc": {"draws": 3, "cycles": 2, "burn_in": 2, "thinning": 2},
    "swag": {"draws": 3, "members": 2, "collected": 3, "every": 1},
    "parallel_tempering": {"draws": 3, "chains": 2, "burn_in": 4, "thinning": 3},
}
NETWORKS = {
    "dense": (Dense(), TABLE),
    # A norm over a code of two values is a step from -1 to 1, and magnifies the last bit: here it has four.
    "dense, gelu": (Dense(activation="gelu", layer_norm=True, bias=True, skips=False, latent=4), TABLE),
    "dense, elu": (Dense(activation="elu", bias=True), TABLE),
    "dense, selu": (Dense(activation="selu", layer_norm=True, latent=4), TABLE),
    "dense, tanh, no sigmoid": (Dense(activation="tanh", last_activation="none"), TABLE),
    "conv1d": (Conv1d(linear=(10,)), WINDOWS),
    "conv1d, selu, activated heads": (Conv1d(linear=(10,), activation="selu", code_heads="activated"), WINDOWS),
    "conv1d with norm": (Conv1d(linear=(10,), layer_norm=True, bias=True), WINDOWS),
    "conv2d": (Conv2d(channels=(3, 4), latent=5, skips=True), IMAGES),
    "conv2d with norm": (Conv2d(channels=(3, 4), latent=5, layer_norm=True, bias=True, skips=False), IMAGES),
    "coalition": (Coalition(network=Conv1d(linear=(10,), layer_norm=True, bias=True)), WINDOWS),
    "dense on windows": (Dense(widths=(8,), activation="relu"), WINDOWS),
}

# of posteriors in closed form
OF_ITS_OWN = {"its own": (None, TABLE), "its own, of windows": (None, WINDOWS), "its own, of images": (None, IMAGES)}


def exported(detector: Detector, tmp_path) -> OnnxModel:
    export_onnx(detector, tmp_path / "model.onnx")
    return OnnxModel(tmp_path / "model.onnx")


def assert_same(detector: Detector, model: OnnxModel, rows, *, step: float = 1e-5) -> None:
    ours, theirs = detector.assess(rows), model.assess(rows)
    # A score with learned noise passes through 0, where relative errors mean nothing.
    np.testing.assert_allclose(theirs.nll, ours.nll, rtol=1e-5, atol=2e-6)
    for name in ("probability", "epistemic", "aleatoric", "total"):
        np.testing.assert_allclose(getattr(theirs, name), getattr(ours, name), atol=step)
    np.testing.assert_allclose(theirs.novelty, ours.novelty, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(theirs.notes, ours.notes)
    # A verdict may only differ where the value lies at its threshold to within the step.
    near = np.abs(ours.probability - detector.anomaly_threshold) <= step
    near |= np.abs(ours.total - detector.referral_threshold_) <= step
    np.testing.assert_array_equal(theirs.verdict[~near], ours.verdict[~near])


CLOSED = [name for name, kind in POSTERIORS.items() if not issubclass(kind, TrainedPosterior)]
EACH = [
    *((name, network) for name in POSTERIORS if name not in CLOSED for network in NETWORKS),
    *((name, network) for name in CLOSED for network in OF_ITS_OWN),
]


@pytest.mark.parametrize(("posterior", "network"), EACH)
def test_every_posterior_and_network_scores_as_the_detector_does(posterior, network, tmp_path):
    architecture, rows = (NETWORKS | OF_ITS_OWN)[network]
    made = POSTERIORS[posterior](**DRAWS.get(posterior, {"draws": 4}))
    skip_if_refused(made, architecture)
    training = None if posterior in CLOSED else Training(epochs=3)
    detector = Detector(posterior=made, architecture=architecture, training=training).fit(rows)
    model = exported(detector, tmp_path)
    # One step of the empirical distribution of few scores, doubled by the scaling: a row that is compared with itself.
    few = rows is not TABLE or posterior in CLOSED
    assert_same(detector, model, np.concatenate([rows, 1.5 * rows]), step=0.05 if few else 1e-5)


CDFS = [
    kind(scaled=scaled, level=level)
    for kind in CDF_CONVERSIONS.values()
    for scaled in (False, True)
    for level in ("cdf_of_mean", "mean_of_cdf")
]


@pytest.mark.parametrize("conversion", [*CDFS, Odds(), Odds(steepness=2.0)], ids=str)
def test_every_conversion_gives_the_same_probabilities(conversion, tmp_path):
    detector = Detector(
        conversion=conversion,
        posterior=AnchoredEnsemble(members=3),
        training=Training(epochs=5),
    ).fit(TABLE)
    assert_same(detector, exported(detector, tmp_path), np.concatenate([TABLE, 1.3 * TABLE, 100 + TABLE]))


@pytest.mark.filterwarnings("ignore:before you rely")  # of a single row
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_degenerate_scores_give_the_same_steps(conversion, tmp_path):
    one_row = TABLE[:1]
    detector = Detector(
        conversion=CONVERSIONS[conversion](), posterior=AnchoredEnsemble(members=2), training=Training(epochs=2)
    ).fit(one_row)
    assert_same(detector, exported(detector, tmp_path), np.concatenate([one_row, one_row + 3]))


@pytest.mark.parametrize(
    "likelihood",
    [
        GaussianLikelihood(noise="per_feature"),
        GaussianLikelihood(noise="per_example"),
        LaplaceLikelihood(),
        LaplaceLikelihood(noise="per_example"),
        BernoulliLikelihood(),
        StudentLikelihood(),
        StudentLikelihood(noise="per_feature", freedom=3.0),
        ContinuousBernoulliLikelihood(),
        TruncatedGaussianLikelihood(),
        TruncatedGaussianLikelihood(noise="fixed", scale=0.05),
        TruncatedGaussianLikelihood(noise="per_example"),
        BetaLikelihood(),
        BetaLikelihood(noise="fixed", scale=0.02),
        BetaLikelihood(noise="per_example", edge=0.01),
    ],
    ids=str,
)
def test_every_likelihood_gives_the_same_scores(likelihood, tmp_path):
    detector = Detector(
        likelihood=likelihood,
        posterior=MCDropout(draws=4),
        training=Training(epochs=5),
        scaling=MinMax(clip=True),
    ).fit(TABLE)
    ours, theirs = detector.assess(TABLE), exported(detector, tmp_path).assess(TABLE)
    # A score with learned noise passes through 0, where relative errors mean nothing.
    np.testing.assert_allclose(theirs.nll, ours.nll, rtol=1e-5, atol=1e-6)


def test_the_thresholds_can_change_after_the_export(tmp_path):
    detector = Detector(posterior=AnchoredEnsemble(members=3), training=Training(epochs=5)).fit(TABLE)
    model = exported(detector, tmp_path)
    model.anomaly_threshold, model.referral_threshold = 0.9, np.inf
    found = model.assess(TABLE)
    np.testing.assert_array_equal(found.verdict == "ANOMALY", found.probability >= 0.9)
    assert not (found.verdict == "REFER").any()


def test_the_graph_alone_says_anomaly_and_refer(tmp_path):
    detector = Detector(
        posterior=AnchoredEnsemble(members=3),
        training=Training(epochs=5),
        referral=Budget(share=0.2, by="epistemic", inlier_weight=0.4),
    ).fit(TABLE)
    export_onnx(detector, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    inputs = {"rows": TABLE, "anomaly_threshold": np.array(0.5), "referral_threshold": np.array(0.01)}
    anomaly, refer = session.run(["anomaly", "refer"], inputs)
    found = detector.assess(TABLE)
    np.testing.assert_array_equal(anomaly, found.prediction)
    np.testing.assert_array_equal(refer, np.where(found.probability < 0.5, 0.4, 1.0) * found.epistemic > 0.01)
    assert refer.any()


def test_tables_with_categories_and_missing_values_go_the_same_way(tmp_path):
    frame = pd.DataFrame(TABLE, columns=list("abcde")).assign(
        machine=RNG.choice(["A", "B"], 120), serial=[f"P{i}" for i in range(120)]
    )
    detector = Detector(missing="refer", posterior=AnchoredEnsemble(members=2), training=Training(epochs=3)).fit(
        read_table(frame, ids=["serial"], categorical=["machine"])
    )
    new = frame.copy()
    new.loc[3, "c"] = np.nan
    new.loc[5, "machine"] = "Z"
    table = read_table(new[new.columns[::-1]], ids=["serial"], categorical=["machine"])
    model = exported(detector, tmp_path)
    assert_same(detector, model, table)
    found = model.assess(table)
    assert list(found.reason[[3, 5]]) == ["bad_input", "bad_input"]
    assert found.to_pandas()["serial"][7] == "P7"


def test_own_networks_cannot_be_exported_and_say_so(tmp_path):
    own = OwnNetwork(encoder=lambda shape: nn.Linear(5, 2), decoder=lambda shape: nn.Linear(2, 5))
    detector = Detector(architecture=own, posterior=AnchoredEnsemble(members=2), training=Training(epochs=1)).fit(TABLE)
    with pytest.raises(ConfigError, match="only built-in networks"):
        export_onnx(detector, tmp_path / "model.onnx")


def test_bad_rows_and_bad_files_are_refused(tmp_path):
    detector = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=1)).fit(TABLE)
    model = exported(detector, tmp_path)
    with pytest.raises(ShapeError, match=r"shape \(5,\), got \(4,\)"):
        model.assess(TABLE[:, :4])
    with pytest.raises(DataError, match="row 0, column"):
        model.assess(np.full((1, 5), np.nan))
    with pytest.raises(DataError, match="must be numbers"):
        model.assess([["a"] * 5])
    with pytest.raises(ModelFileError, match="no such file"):
        OnnxModel(tmp_path / "other.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    with pytest.raises(ModelFileError, match="no ONNX model that indubio exported"):
        OnnxModel(tmp_path / "broken.onnx")
