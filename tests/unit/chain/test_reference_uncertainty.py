"""Referral budgets are fitted on reference examples that most cross-fitted draws have seen."""

import numpy as np
import pytest

from indubio import Budget, CrossFit, Detector, Prototypes, RandomFeatures

SHARE, SEEDS = 0.05, range(6)


@pytest.fixture(scope="module", params=[Prototypes(), RandomFeatures()], ids=lambda one: type(one).__name__)
def fitted(request):
    """Detectors, each with new good examples; a rule by another uncertainty needs no other fit."""
    found = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        detector = Detector(posterior=request.param, calibration=CrossFit(), seed=seed)
        found.append((detector.fit(random.normal(size=(250, 5))), random.normal(size=(400, 5))))
    return found


@pytest.mark.parametrize("by", ["total", "epistemic", "aleatoric"])
def test_draws_that_remember_rows_keep_the_budget_for_new_good_examples(fitted, by):
    rule = Budget(share=SHARE, by=by)
    referred = [np.mean(detector.refer_by(rule).assess(new).verdict == "REFER") for detector, new in fitted]
    # Two standard errors of the mean of six thresholds, each a quantile of 250 rows, and of their 400 new rows.
    assert np.mean(referred) < SHARE + 2 * np.sqrt(SHARE * (1 - SHARE) * (1 / 250 + 1 / 400) / len(SEEDS))
