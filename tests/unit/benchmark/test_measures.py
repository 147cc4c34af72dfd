"""What is measured, on assessments small enough to count by hand."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from indubio import AnchoredEnsemble, Detector, Training, save
from indubio.chain import Assessment
from indubio.detector import EnsembleDetector
from indubio_lab.benchmark import MEASURES
from indubio_lab.benchmark.measures import balanced_log_loss, model_bytes, of_assessment, of_scores

LABELS = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=bool)
PREDICTED = np.array([0, 0, 0, 1, 1, 1, 0, 0], dtype=bool)
REFERRED = np.array([0, 0, 0, 1, 0, 0, 1, 0], dtype=bool)


def assessment(**changed) -> Assessment:
    count = len(LABELS)
    fields = {
        "verdict": np.where(REFERRED, "REFER", np.where(PREDICTED, "ANOMALY", "INLIER")).astype(object),
        "reason": np.full(count, "", dtype=object),
        "prediction": PREDICTED,
        "probability": np.array([0.0, 0.1, 0.2, 0.6, 0.9, 0.8, 0.4, 0.01]),
        "total": np.array([0.0, 0.09, 0.16, 0.24, 0.09, 0.16, 0.24, 0.01]),
        "nll": np.array([1.0, 2.0, 3.0, 6.0, 9.0, 8.0, 4.0, 2.5]),
        "p_value": np.array([0.9, 0.8, 0.05, 0.04, 0.01, 0.01, 0.3, 0.7]),
        "notes": np.full(count, "", dtype=object),
        "smallest_p": np.full(count, 0.01),
        "promise": "",
    }
    zeros = {name: np.zeros(count) for name in ("epistemic", "aleatoric", "exceed", "var_nll", "novelty")}
    return Assessment(**(zeros | fields | changed))


def test_counts_by_hand():
    found = of_assessment(LABELS, assessment(), assessment().total, 0.1)
    assert found["gss"] == pytest.approx(np.sqrt(0.5 * 0.75))
    assert found["false_alarms_p"] == 2 / 4
    assert found["false_alarms"] == 1 / 4
    assert found["referred"] == 2 / 8
    assert found["error"] == 3 / 8
    assert found["error_accepted"] == 1 / 6
    assert found["errors_referred"] == 2 / 3
    assert found["errors_in_5"] == 0  # of eight rows 5 % are none
    assert found["errors_in_10"] == pytest.approx(1 / 3)  # one row: one of two that tie, both wrong
    assert found["rate"] == 0.1
    assert found["certain_wrong"] == 1 / 4
    assert found["extreme"] == 1
    assert found["gss_gain"] == pytest.approx(found["gss_w"] - found["gss_base"])
    assert found["auroc"] == pytest.approx(roc_auc_score(LABELS, assessment().nll))


def test_without_p_values_nothing_is_said_of_their_alarms():
    assert np.isnan(of_assessment(LABELS, assessment(p_value=np.full(8, np.nan)), assessment().total)["false_alarms_p"])


def test_probabilities_within_0_and_1_are_not_extreme():
    inside = assessment(probability=np.full(8, 0.3))
    assert of_assessment(LABELS, inside, inside.total)["extreme"] == 0


def test_the_log_loss_is_scikit_learns_with_balanced_weights():
    random = np.random.default_rng(0)
    labels, probability = random.random(200) < 0.1, random.random(200)
    weights = np.where(labels, 1 / labels.sum(), 1 / (~labels).sum())
    assert balanced_log_loss(labels, probability) == pytest.approx(log_loss(labels, probability, sample_weight=weights))
    probability[:5] = [0, 1, 0, 1, 1]
    assert balanced_log_loss(labels, probability) == pytest.approx(log_loss(labels, probability, sample_weight=weights))


def test_scores_are_judged_by_their_order_even_where_they_are_infinite():
    scores = np.array([1.0, 2, 3, 4, 5, 6, np.inf, 0])
    found = of_scores(LABELS, scores)
    finite = np.array([1.0, 2, 3, 4, 5, 6, 7, 0])
    assert found == {
        "auroc": pytest.approx(roc_auc_score(LABELS, finite)),
        "aupr": pytest.approx(average_precision_score(LABELS, finite)),
    }


def test_the_size_of_a_model_is_that_of_its_files(tmp_path):
    rows = np.random.default_rng(0).normal(size=(40, 2))
    detector = Detector(posterior=AnchoredEnsemble(members=2), training=Training(epochs=1)).fit(rows)
    save(detector, tmp_path / "model")
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert model_bytes(detector) == sum(path.stat().st_size for path in files)
    assert np.isnan(model_bytes(EnsembleDetector(None)))


def test_every_measure_of_an_assessment_is_one_of_the_list():
    assert of_assessment(LABELS, assessment(), assessment().total, 0.1).keys() <= set(MEASURES)
