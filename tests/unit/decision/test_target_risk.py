"""The target-risk rule keeps its promise in simulation, and accepts as much as it can."""

import numpy as np
import pytest

from indubio.decision import Evidence, Labelled, TargetRisk
from indubio.errors import ConfigError, DataError
from indubio.judging import Uncertainty

REFERENCE = np.random.default_rng(0).beta(1, 3, size=500) / 4


def error_rate(uncertainty: np.ndarray) -> np.ndarray:
    """The chance that a verdict of this uncertainty is wrong: none at 0, a coin toss at 1/4."""
    return 2 * uncertainty


def drawn(random: np.random.Generator, count: int) -> Labelled:
    total = random.beta(1, 2, size=count) / 4
    none = np.zeros(count)
    uncertainty = Uncertainty(probability=none, epistemic=none, aleatoric=total, total=total, exceed=none, var_nll=none)
    found = Evidence(uncertainty=uncertainty, prediction=none.astype(bool), below=None, reference=500)
    return Labelled(evidence=found, wrong=random.uniform(size=count) < error_rate(total))


def risk_below(threshold: float) -> float:
    total = np.random.default_rng(1).beta(1, 2, size=200_000) / 4
    return float(error_rate(total[total <= threshold]).mean())


@pytest.mark.parametrize(("alpha", "count"), [(0.1, 300), (0.05, 1000)])
def test_in_a_thousand_simulations_the_error_rate_exceeds_alpha_no_more_often_than_delta(alpha, count):
    rule, random = TargetRisk(alpha=alpha, delta=0.1), np.random.default_rng(2)
    candidates = rule.candidates(REFERENCE, count)
    risks = {float(threshold): risk_below(threshold) for threshold in candidates}
    chosen = []
    for _ in range(1000):
        try:
            chosen.append(rule.fit({"total": REFERENCE}, drawn(random, count)))
        except DataError:
            continue  # nothing is accepted, so nothing accepted is wrong
    exceeded = sum(risks[threshold] > alpha for threshold in chosen) / 1000
    # Three standard errors of 1000 repetitions above delta; and the rule is no empty promise.
    assert exceeded <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 1000)
    assert len(chosen) > 600
    best = max(threshold for threshold, risk in risks.items() if risk <= alpha)
    assert np.median(chosen) >= 0.5 * best


def test_verdicts_that_are_never_wrong_are_all_accepted():
    labelled = drawn(np.random.default_rng(0), 200)
    right = Labelled(evidence=labelled.evidence, wrong=np.zeros(200, dtype=bool))
    assert TargetRisk(alpha=0.05).fit({"total": REFERENCE}, right) == np.inf


def test_verdicts_that_are_too_often_wrong_are_refused_with_the_count():
    labelled = drawn(np.random.default_rng(0), 200)
    wrong = Labelled(evidence=labelled.evidence, wrong=np.ones(200, dtype=bool))
    with pytest.raises(DataError, match="no verdict can be accepted"):
        TargetRisk(alpha=0.05).fit({"total": REFERENCE}, wrong)


def test_too_few_labelled_examples_are_refused_with_the_number_needed():
    with pytest.raises(DataError, match="needs at least 45 labelled examples, got 44"):
        TargetRisk(alpha=0.05, delta=0.1).fit({"total": REFERENCE}, drawn(np.random.default_rng(0), 44))


def test_without_labels_it_says_how_to_give_them():
    with pytest.raises(ConfigError, match="refer_by"):
        TargetRisk(alpha=0.05).fit({"total": REFERENCE})
