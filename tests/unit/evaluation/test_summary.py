import json
import subprocess
import sys

import numpy as np
import pytest

from indubio import evaluation
from indubio.errors import ConfigError
from indubio.evaluation import accuracy_rejection_curve, area_under_risk_coverage, auroc, evaluate


@pytest.fixture
def arrays():
    random = np.random.default_rng(0)
    labels = random.random(200) < 0.2
    scores = random.normal(size=200) + 2 * labels
    return {"labels": labels, "predictions": scores > 1, "uncertainty": -np.abs(scores - 1), "scores": scores}


def test_the_summary_holds_what_the_single_functions_give(arrays):
    found = evaluate(**arrays)
    labels, predictions, uncertainty, scores = arrays.values()
    gss = accuracy_rejection_curve(labels, predictions, uncertainty)
    ranking = accuracy_rejection_curve(labels, None, uncertainty, metric="auroc", scores=scores)
    row = found.to_dict()
    assert row["examples"] == 200
    assert row["anomalies"] == labels.sum()
    assert row["auroc"] == row["auroc_base"] == pytest.approx(auroc(labels, scores))
    assert (row["gss_w"], row["gss_base"], row["gss_gain"]) == (gss.weighted_average, gss.base, gss.gain)
    assert (row["auroc_w"], row["auroc_gain"]) == (ranking.weighted_average, ranking.gain)
    assert [row["gss_at_10"], row["gss_at_20"], row["gss_at_40"]] == gss.at([0.1, 0.2, 0.4]).tolist()
    assert row["aurc"] == area_under_risk_coverage(labels, predictions, uncertainty)
    assert row["gss"] == row["gss_base"]


def test_without_scores_there_is_no_auroc(arrays):
    del arrays["scores"]
    found = evaluate(**arrays)
    assert found.auroc is None
    assert list(found.to_dict()) == [
        *("examples", "anomalies", "gss", "f1", "mcc", "balanced_accuracy", "gss_w", "gss_base", "gss_gain"),
        *("gss_at_10", "gss_at_20", "gss_at_40", "aurc", "error_detection_auroc"),
    ]


def test_a_row_is_made_of_plain_numbers(arrays):
    row = evaluate(**arrays).to_dict()
    assert {type(value) for value in row.values()} == {int, float}
    assert json.loads(json.dumps(row)) == row


def test_the_rates_to_read_off_can_be_chosen(arrays):
    found = evaluate(**arrays, rejection_rates=[0.0, 0.025])
    assert found.gss_at == {0: found.gss.base, 0.025: found.gss.at(0.025)}
    assert found.to_dict().keys() >= {"gss_at_0", "gss_at_2.5"}
    with pytest.raises(ConfigError, match="`rejection_rates`"):
        evaluate(**arrays, rejection_rates=[20.0])


def test_too_few_anomalies_for_a_curve_still_have_metrics():
    labels = np.array([1, 1, 0, 0, 0])
    row = evaluate(labels, labels, np.arange(5.0)).to_dict()
    assert row["gss"] == 1
    assert np.isnan([row["gss_w"], row["gss_base"], row["gss_gain"], row["gss_at_10"]]).all()


def test_all_exported_names_exist():
    assert sorted(evaluation.__all__) == sorted(set(evaluation.__all__))
    assert all(hasattr(evaluation, name) for name in evaluation.__all__)


def test_the_evaluation_imports_no_heavy_library():
    code = "import sys, indubio.evaluation; print({'torch', 'sklearn', 'scipy', 'pandas'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "set()"
