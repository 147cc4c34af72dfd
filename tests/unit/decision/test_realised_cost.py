"""Costs through a fitted detector: what its verdicts really cost, where anomalies are rare."""

import numpy as np
import pytest

from indubio import Cost, Detector
from indubio.errors import DataError
from indubio.evaluation import cost_per_example

PRICES = {"missed_anomaly": 10.0, "false_alarm": 1.0, "review": 0.3}
SEEDS, COMING = 8, 6000


def arriving(random: np.random.Generator, count: int, prevalence: float) -> tuple[np.ndarray, np.ndarray]:
    """Examples as they come: of an anomaly about half of the values are two standard deviations off."""
    anomaly = random.uniform(size=count) < prevalence
    off = random.choice([-2.0, 0.0, 0.0, 2.0], size=(count, 5))
    return random.normal(size=(count, 5)) + off * anomaly[:, None], anomaly


def costs_of(seed: int, prevalence: float) -> dict[str, float]:
    random = np.random.default_rng(seed)
    detector = Detector(seed=seed).fit(random.normal(size=(300, 5)))
    rows, anomaly = arriving(random, COMING, prevalence)
    some = arriving(random, 400, prevalence)
    detectors = {
        "given": detector.refer_by(Cost(**PRICES, prevalence=prevalence)),
        "learned": detector.refer_by(Cost(**PRICES), *some),
        "not given": detector.refer_by(Cost(**PRICES)),
    }
    found = {}
    for name, model in detectors.items():
        told = model.assess(rows)
        found[name] = cost_per_example(anomaly, told.prediction, told.verdict == "REFER", **PRICES)
    always = {"all inliers": (0, 0), "all anomalies": (1, 0), "all reviewed": (0, 1)}
    for name, (called, referred) in always.items():
        same = np.full(COMING, called), np.full(COMING, referred)
        found[name] = cost_per_example(anomaly, *same, **PRICES)
    return found


@pytest.mark.parametrize("prevalence", [0.01, 0.1])
def test_costs_that_know_the_prevalence_are_below_those_that_do_not_and_below_any_one_verdict(prevalence):
    found = [costs_of(seed, prevalence) for seed in range(SEEDS)]
    for ours in ("given", "learned"):
        for other in ("not given", "all inliers", "all anomalies", "all reviewed"):
            less = np.array([costs[other] - costs[ours] for costs in found])
            noise = less.std(ddof=1) / np.sqrt(SEEDS)
            assert less.mean() > -2 * noise, (ours, other, less.mean(), noise)


def test_a_cost_is_added_up_by_hand():
    labels, called, referred = [1, 1, 0, 0, 1], [0, 1, 1, 0, 0], [0, 0, 0, 0, 1]
    assert cost_per_example(labels, called, referred, **PRICES) == pytest.approx((10 + 0 + 1 + 0 + 0.3) / 5)
    with pytest.raises(DataError, match="referred"):
        cost_per_example(labels, called, [0, 2, 0, 0, 1], **PRICES)
