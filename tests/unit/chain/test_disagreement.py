"""The sixth uncertainty, from a detector to its columns, rules, files, reports and tables."""

import numpy as np
import pytest

from indubio import AnchoredEnsemble, Budget, CrossFit, Detector, Ecdf, Training, TrainScores, load, save
from indubio.chain import autoencoder_scorer
from indubio.errors import ConfigError
from indubio.evaluation import accuracy_rejection_curve
from indubio.export import OnnxModel, export_onnx
from indubio.judging import disagreement
from indubio.report import html_report
from tests.end_to_end.test_commands import run
from tests.engines import CORE
from tests.small_examples import LABELS, ROWS, TRAINING

RULE = Budget(share=0.1, by="disagreement")


def made(**settings) -> Detector:
    how = {"posterior": AnchoredEnsemble(members=4), "training": Training(epochs=10), "conversion": Ecdf()}
    return Detector(**how | {"calibration": TrainScores()} | settings)


@pytest.fixture(scope="module")
def detector() -> Detector:
    return made(referral=RULE).fit(TRAINING)


@pytest.fixture(scope="module")
def usual() -> Detector:
    return made().fit(TRAINING)


def test_a_detector_gives_it_for_any_rows(detector, usual):
    for one in (detector, usual):
        np.testing.assert_array_equal(one.disagreement(ROWS), disagreement(one.nll(ROWS)))
        np.testing.assert_array_equal(one.disagreement(ROWS, 0.01), disagreement(one.nll(ROWS), 0.01))


def test_it_is_a_column_where_the_rule_goes_by_it_and_only_there(detector, usual):
    found = detector.assess(ROWS)
    np.testing.assert_array_equal(found.disagreement, detector.disagreement(ROWS))
    assert found.to_arrow().column_names[-1] == "disagreement"
    other = usual.assess(ROWS)
    assert other.disagreement is None
    assert "disagreement" not in other.to_arrow().column_names


def test_what_is_in_more_disagreement_than_the_threshold_is_referred(detector):
    found = detector.assess(ROWS)
    counted = np.where(found.probability >= 0.5, 1, RULE.inlier_weight) * found.disagreement
    referred = counted > detector.referral_threshold_
    assert 0 < referred.sum() < len(ROWS)
    np.testing.assert_array_equal(found.verdict == "REFER", referred)
    # The budget is kept on the rows that it was fitted on.
    assert (detector.assess(TRAINING).verdict == "REFER").mean() <= RULE.share


@pytest.mark.skipif(CORE is None, reason="the core was not built, and torch promises no bits")
def test_blocks_of_rows_say_the_same(detector, monkeypatch):
    whole = detector.assess(ROWS)
    monkeypatch.setattr(autoencoder_scorer, "SCORES_AT_ONCE", 4 * 7)
    np.testing.assert_array_equal(detector.assess(ROWS).disagreement, whole.disagreement)


def test_a_fold_counts_too():
    detector = made(referral=RULE, calibration=CrossFit(folds=2)).fit(TRAINING)
    assert np.isfinite(detector.referral_threshold_)
    assert detector.fitted_chain.good.disagreement.shape == (len(TRAINING),)


def test_a_rule_by_it_can_be_fitted_later_on_good_rows_and_not_without(usual, detector):
    with pytest.raises(ConfigError, match="pass good examples to `refer_by`"):
        usual.refer_by(RULE)
    later = usual.refer_by(RULE, TRAINING)
    assert later.referral_threshold_ == RULE.fit(later.assess(TRAINING).to_dict())
    assert later.assess(ROWS).disagreement is not None
    assert later.refer_by(Budget()).assess(ROWS).disagreement is None


def test_a_saved_model_goes_on_with_it(detector, tmp_path):
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    ours, theirs = detector.assess(ROWS).to_dict(), loaded.assess(ROWS).to_dict()
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        np.testing.assert_array_equal(theirs[name], values)


def test_an_exported_model_goes_by_it(detector, tmp_path):
    export_onnx(detector, tmp_path / "model.onnx")
    ours, theirs = detector.assess(ROWS), OnnxModel(tmp_path / "model.onnx").assess(ROWS)
    np.testing.assert_allclose(theirs.disagreement, ours.disagreement, atol=1e-6)
    assert (theirs.verdict == ours.verdict).mean() > 0.95


def test_the_report_shows_it_where_the_rule_goes_by_it(detector, usual):
    assert "Histogram of the disagreement" in html_report(detector, ROWS, labels=LABELS)
    assert "Histogram of the disagreement" not in html_report(usual, ROWS, labels=LABELS)


def test_predictions_can_be_judged_by_it(detector, tmp_path):
    found = detector.assess(ROWS)
    curve = accuracy_rejection_curve(LABELS, found.prediction, found.disagreement)
    assert np.isfinite(curve.gain)
    frame = found.to_pandas().assign(label=LABELS.astype(int))
    frame.to_csv(tmp_path / "found.csv", index=False)
    told = run("evaluate", tmp_path / "found.csv", "--label", "label", "--json").stdout
    assert "disagreement" in told
