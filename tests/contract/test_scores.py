"""What every score promises that is not the NLL: with rows and windows, folds, files, streams and the command."""

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import indubio.judging.scores as scores
from indubio import (
    VAE,
    AnchoredEnsemble,
    Conv1d,
    CrossFit,
    Detector,
    Deterministic,
    ExampleStream,
    HoldOut,
    MCDropout,
    Prototypes,
    RandomFeatures,
    Training,
    TrainScores,
    load,
    save,
)
from indubio.calibration import Calibration
from indubio.errors import ConfigError, ModelFileError
from indubio.export import export_onnx
from indubio.fitting import Trimming
from indubio.judging import SCORES, DrawScore, ScoreName
from indubio.networks import GaussianLikelihood, LaplaceLikelihood, StudentLikelihood
from indubio.posteriors import Posterior
from tests.end_to_end.test_commands import run
from tests.engines import CORE, instruction_sets
from tests.stored_models import assert_same, reseal

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(90, 2)) @ RNG.normal(size=(2, 4)) + 0.1 * RNG.normal(size=(90, 4))
NEW = np.concatenate([ROWS[:40], 3 * ROWS[:10] + RNG.normal(size=(10, 4))])
WINDOWS = RNG.normal(size=(40, 24, 2)).cumsum(axis=1)
SIGNALS = Conv1d(channels=(3, 4), kernels=(4, 2), strides=(2, 2), linear=(10,))
PER_EXAMPLE = GaussianLikelihood(noise="per_example")
POSTERIORS: dict[str, Posterior] = {
    "ensemble": AnchoredEnsemble(members=4),
    "dropout": MCDropout(draws=6, dropout=0.2),
    "vae": VAE(draws=4),
}
CALIBRATIONS: dict[str, Calibration | None] = {
    "train": TrainScores(),
    "hold out": HoldOut(),
    "cross": CrossFit(folds=2),
    "left out": None,
}


def small(score: ScoreName, posterior: str = "ensemble", **settings) -> Detector:
    given = {
        "posterior": POSTERIORS[posterior],
        "likelihood": PER_EXAMPLE if score == "aleatoric" else None,
        "training": Training(epochs=3),
        "anomaly_score": score,
    }
    return Detector(**(given | settings))


@pytest.fixture(params=SCORES)
def score(request) -> ScoreName:
    return request.param


@pytest.fixture(scope="module", params=[(score, posterior) for score in SCORES for posterior in POSTERIORS], ids=str)
def fitted(request) -> Detector:
    return small(*request.param).fit(ROWS)


def test_every_score_is_in_the_list_and_every_file_has_one():
    files = {path.stem for path in Path(scores.__file__).parent.glob("*.py")} - {"__init__", "draw_score"}
    assert files == SCORES.keys() == set(get_args(ScoreName)) - {"nll"}
    assert all(issubclass(kind, DrawScore) for kind in SCORES.values())


def check_neighbours(detector: Detector, examples: np.ndarray) -> None:
    whole, apart, found = detector.nll(examples), detector.nll_per_feature(examples), detector.assess(examples)
    order = np.random.default_rng(2).permutation(len(examples))
    np.testing.assert_array_equal(detector.nll(examples[order]), whole[:, order])
    np.testing.assert_array_equal(detector.nll_per_feature(examples[order]), apart[:, order])
    np.testing.assert_array_equal(detector.assess(examples[order]).probability, found.probability[order])
    for cut in (1, 7):
        parts = [examples[start : start + cut] for start in range(0, len(examples), cut)]
        np.testing.assert_array_equal(np.concatenate([detector.nll(part) for part in parts], axis=1), whole)
        values = [detector.nll_per_feature(part) for part in parts]
        np.testing.assert_array_equal(np.concatenate(values, axis=1), apart)


@pytest.mark.skipif(CORE is None, reason="the core was not built: there is no compiler")
def test_a_score_does_not_know_its_neighbours_to_the_bit(fitted):
    check_neighbours(fitted, NEW)


@pytest.mark.skipif(CORE is None, reason="the core was not built: there is no compiler")
def test_a_score_of_windows_does_not_know_its_neighbours_to_the_bit(score):
    check_neighbours(small(score, architecture=SIGNALS).fit(WINDOWS), 1.5 * WINDOWS)


@pytest.mark.skipif(CORE is None, reason="the core was not built: there is no compiler")
def test_scores_have_the_same_bits_on_every_instruction_set(fitted):
    before, apart = CORE.instructions, fitted.nll_per_feature(NEW)
    whole = fitted.nll(NEW)
    try:
        for one in instruction_sets():
            CORE.use(one)
            np.testing.assert_array_equal(fitted.nll(NEW), whole)
            np.testing.assert_array_equal(fitted.nll_per_feature(NEW), apart)
    finally:
        CORE.use(before)


@pytest.mark.skipif(CORE is None, reason="the core was not built, and torch promises no bits")
def test_the_size_of_the_blocks_changes_nothing(fitted, monkeypatch):
    whole, apart = fitted.nll(NEW), fitted.nll_per_feature(NEW)
    monkeypatch.setattr("indubio.judging.scores.draw_score.VALUES_AT_ONCE", 50)
    np.testing.assert_allclose(fitted.nll(NEW), whole, rtol=1e-12)
    np.testing.assert_allclose(fitted.nll_per_feature(NEW), apart, rtol=1e-12)


def test_contributions_add_up_to_the_score(fitted):
    why, found = fitted.contributions(NEW), fitted.assess(NEW)
    np.testing.assert_allclose(why.score, found.nll, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(fitted.nll_per_feature(NEW).mean(axis=2), fitted.nll(NEW), rtol=1e-5, atol=1e-7)


def test_contributions_of_windows_add_up_to_the_score(score):
    detector = small(score, architecture=SIGNALS).fit(WINDOWS)
    why = detector.contributions(2 * WINDOWS)
    np.testing.assert_allclose(why.score, detector.assess(2 * WINDOWS).nll, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(why.typical + why.steps.value.sum(axis=1), why.score, rtol=1e-6)


def test_an_assessment_with_reasons_is_the_one_without(fitted):
    explained, found = fitted.assess(NEW, explain=True), fitted.assess(NEW)
    np.testing.assert_array_equal(explained.probability, found.probability)
    np.testing.assert_array_equal(explained.why.places, np.flatnonzero(found.verdict != "INLIER"))


def test_a_loaded_detector_says_the_same_to_the_bit(fitted, tmp_path):
    save(fitted, tmp_path / "model")
    again = load(tmp_path / "model")
    assert_same(fitted, again, NEW)
    assert again.anomaly_score == fitted.anomaly_score
    np.testing.assert_array_equal(again.contributions(NEW).values.value, fitted.contributions(NEW).values.value)


def test_a_model_is_saved_with_the_score_it_was_fitted_by(score, tmp_path):
    detector = small(score).fit(ROWS)
    save(detector.set_params(anomaly_score=None), tmp_path / "model")
    assert_same(detector, load(tmp_path / "model"), NEW)
    assert load(tmp_path / "model").anomaly_score == score


def test_a_model_by_the_nll_says_nothing_of_scores(tmp_path):
    save(small("nll").fit(ROWS), tmp_path / "model")
    plain = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert "anomaly_score" not in plain["settings"]
    assert "score_parts_" not in plain["fitted"]


@pytest.mark.parametrize("parts", [[4], [2, 1], [2, 3], [3, 1], [], [4, 0]])
def test_folds_that_the_draws_do_not_have_are_refused(parts, tmp_path):
    save(small("waic", calibration=CrossFit(folds=2)).fit(ROWS), tmp_path / "model")
    reseal(tmp_path / "model", lambda plain: plain["fitted"].update(score_parts_=parts))
    with pytest.raises(ModelFileError):
        load(tmp_path / "model")


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_every_calibration_compares_with_scores_of_the_same_kind(score, calibration):
    detector = small(score, calibration=CALIBRATIONS[calibration]).fit(ROWS)
    folds = 2 if calibration in ("cross", "left out") else 1
    together = SCORES[score].TOGETHER
    if together:
        assert detector.nll(NEW).shape == (folds, len(NEW))
    else:
        assert detector.nll(NEW).shape == (4, len(NEW))
    found = detector.assess(NEW)
    assert np.isfinite(found.p_value).all() == (calibration != "train")
    assert ((found.probability >= 0) & (found.probability <= 1)).all()
    if together and folds == 1:
        assert (found.var_nll == 0).all()


@pytest.mark.parametrize("score", ["epistemic", "waic"])
def test_a_fold_is_scored_by_its_own_draws_alone(score):
    detector = small(score, calibration=CrossFit(folds=2)).fit(ROWS)
    draws, values = detector.draws_, detector.fitted_chain.preparation.prepared(NEW).values
    apart = [SCORES[score](draws=draws.some(own), parts=(2,)).nll(values)[0] for own in (slice(2), slice(2, 4))]
    np.testing.assert_allclose(detector.nll(NEW), apart, rtol=1e-6)


def test_with_one_score_doubt_comes_from_the_reference_examples():
    found = small("epistemic", calibration=HoldOut()).fit(ROWS).assess(NEW)
    assert (found.var_nll == 0).all()
    assert (found.epistemic > 0).any()


def test_held_out_good_rows_are_called_anomalies_at_the_promised_rate(score):
    random = np.random.default_rng(5)
    many = random.normal(size=(1200, 2)) @ random.normal(size=(2, 4)) + 0.1 * random.normal(size=(1200, 4))
    detector = small(score, calibration=HoldOut()).fit(many[:800])
    # 400 new rows, 200 reference rows: the share within 5% has a standard deviation of about 1.9 points.
    assert np.mean(detector.assess(many[800:]).p_value <= 0.05) < 0.11


def test_groups_are_judged_by_their_own_scores(score, tmp_path):
    groups = np.repeat(["a", "b"], 45)
    detector = small(score, smallest_group=5, calibration=CrossFit(folds=2)).fit(ROWS, groups=groups)
    found = detector.assess(NEW, groups=np.repeat(["a", "b"], 25))
    save(detector, tmp_path / "model")
    again = load(tmp_path / "model").assess(NEW, groups=np.repeat(["a", "b"], 25))
    np.testing.assert_array_equal(found.probability, again.probability)


def test_trimming_drops_reference_rows_by_this_score(score):
    detector = small(score, trimming=Trimming(share=0.1, reference="drop"), calibration=CrossFit(folds=2)).fit(ROWS)
    assert detector.n_reference_ < 90


def test_a_stream_scores_and_calibrates_by_it(score, tmp_path):
    random = np.random.default_rng(1)
    values = random.normal(size=(1500, 4)).cumsum(axis=1)
    table = pa.table(dict(zip("abcd", values.T, strict=True)))
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=200)
    detector = small(score).fit(ExampleStream(tmp_path / "rows.parquet", buffer=300))
    assert detector.nll(table.slice(0, 5).to_pandas()).shape == (1 if SCORES[score].TOGETHER else 4, 5)
    found = detector.assess(table.to_pandas())
    assert np.isclose(found.nll, detector.largest_reference_nll_, rtol=1e-5).any()


@pytest.mark.parametrize("posterior", [Prototypes(draws=4), RandomFeatures(draws=4, units=30)], ids=["p", "r"])
@pytest.mark.parametrize("score", ["epistemic", "waic"])
def test_posteriors_that_are_computed_have_scores_too(score, posterior):
    found = Detector(posterior=posterior, anomaly_score=score).fit(ROWS).assess(np.concatenate([ROWS, 50 + ROWS]))
    assert found.nll[90:].mean() > found.nll[:90].mean()


def test_examples_are_added_to_kept_sums_with_the_same_score():
    posterior = RandomFeatures(draws=4, units=20, keep_sums=True)
    detector = Detector(posterior=posterior, anomaly_score="waic", calibration=CrossFit(folds=2)).fit(ROWS[:70])
    updated = detector.update(ROWS[70:])
    assert updated.nll(NEW).shape == (2, len(NEW))
    assert updated.n_training_ == 90


def test_an_update_trains_and_scores_alike(score):
    detector = small(score).fit(ROWS[:70])
    updated = detector.update(ROWS[70:], training_data=ROWS[:70])
    assert updated.nll(NEW).shape == detector.nll(NEW).shape


# ----- refused


@pytest.mark.parametrize("score", ["epistemic", "waic"])
def test_a_single_draw_has_no_variance_and_says_the_way_out(score):
    with pytest.raises(ConfigError, match=r"`anomaly_score` .* needs at least 2 .* got 1\. .*AnchoredEnsemble"):
        Detector(posterior=Deterministic(), anomaly_score=score).fit(ROWS)


@pytest.mark.parametrize("score", ["epistemic", "waic"])
def test_folds_of_a_single_draw_are_refused_before_training(score):
    detector = small(score, calibration=CrossFit(folds=4), training=Training(epochs=10**9))
    with pytest.raises(ConfigError, match="in every fold, got 1"):
        detector.fit(ROWS)


@pytest.mark.parametrize("likelihood", [GaussianLikelihood(), LaplaceLikelihood(noise="per_feature"), None], ids=str)
def test_noise_that_is_the_same_for_all_is_no_score_and_says_the_way_out(likelihood):
    with pytest.raises(ConfigError, match='noise="per_example"'):
        Detector(posterior=AnchoredEnsemble(members=2), likelihood=likelihood, anomaly_score="aleatoric").fit(ROWS)


def test_a_deterministic_network_can_predict_noise():
    likelihood = StudentLikelihood(noise="per_example")
    assert small("aleatoric", posterior="ensemble").set_params(posterior=Deterministic(), likelihood=likelihood).fit(
        ROWS
    ).nll(NEW).shape == (1, len(NEW))


def test_a_score_that_there_is_not_is_refused():
    with pytest.raises(ConfigError, match="anomaly_score"):
        Detector(anomaly_score="variance").fit(ROWS)


def test_a_score_other_than_the_nll_is_not_exported_and_says_so(score, tmp_path):
    with pytest.raises(ConfigError, match=f"{score}.* cannot be exported"):
        export_onnx(small(score).fit(ROWS), tmp_path / "model.onnx")


# ----- the command


def test_the_command_fits_by_a_score(tmp_path):
    table = "a,b,c,d\n" + "\n".join(",".join(map(str, row)) for row in ROWS)
    (tmp_path / "good.csv").write_text(table)
    flags = ("--set", "posterior=anchored_ensemble", "--set", "posterior.members=4", "--set", "training.epochs=2")
    run("fit", tmp_path / "good.csv", "-o", tmp_path / "model", *flags, "--set", "anomaly_score=epistemic")
    assert load(tmp_path / "model").anomaly_score == "epistemic"
    run("assess", tmp_path / "good.csv", "--model", tmp_path / "model", "--out", tmp_path / "found.csv")
    flags = (*flags, "--set", "anomaly_score=aleatoric")
    failed = run("fit", tmp_path / "good.csv", "-o", tmp_path / "no", *flags, code=1)
    assert "per_example" in failed.stderr
