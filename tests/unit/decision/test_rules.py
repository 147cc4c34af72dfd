"""Verdicts and the rules by which they are referred to a person."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio.decision import (
    REFER_ALL,
    AtMost,
    Budget,
    Cost,
    Evidence,
    Exceed,
    NoReferral,
    Reason,
    RejEx,
    UncertaintyThreshold,
    Verdict,
    judged,
    predictions,
)
from indubio.errors import ConfigError, DataError, ShapeError
from indubio.judging import UNCERTAINTIES, Uncertainty, quantify

# Few different values, so that most lists are full of ties.
TIED_VALUES = st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.2, 0.25]), min_size=1, max_size=60)
SHARES = st.one_of(st.floats(0, 1), st.sampled_from([0.05, 0.07, 0.1, 0.29, 0.3, 0.57, 1 / 3]))


def evidence(probability, epistemic=None, aleatoric=None, **known) -> Evidence:
    probability = np.asarray(probability, dtype=float)
    none = np.zeros_like(probability)
    epistemic = none if epistemic is None else np.asarray(epistemic, dtype=float)
    aleatoric = none if aleatoric is None else np.asarray(aleatoric, dtype=float)
    uncertainty = Uncertainty(
        probability=probability,
        epistemic=epistemic,
        aleatoric=aleatoric,
        total=epistemic + aleatoric,
        exceed=none,
        var_nll=none,
    )
    prediction = known.pop("prediction", probability >= 0.5)
    return Evidence(uncertainty=uncertainty, prediction=prediction, **{"below": None, "reference": 1} | known)


def verdicts_of(rule, found: Evidence, threshold: float | None = None):
    threshold = rule.fit(found.uncertainty) if threshold is None else threshold
    return judged(found.prediction, rule.refers(found, threshold), found.uncertainty, **nothing(len(found)))[0]


def nothing(examples: int, **flags) -> dict[str, np.ndarray]:
    """What could be wrong with the examples, but for what is given."""
    none = np.zeros(examples, dtype=bool)
    return dict.fromkeys(("bad", "outside", "novel", "unfamiliar"), none) | flags


def alike(share, **given) -> Budget:
    """A budget that reviews inliers as readily as alarms."""
    return Budget(share=share, inlier_weight=1.0, **given)


@given(TIED_VALUES, SHARES)
def test_a_budget_is_never_exceeded_where_the_examples_can_tell(values, share):
    total = np.array(values)
    threshold = alike(share).fit({"total": total})
    found = verdicts_of(alike(share), evidence(np.zeros_like(total), total), threshold)
    above = np.count_nonzero(found == Verdict.REFER)
    assert above == 0 or (above + 1) / (len(total) + 1) <= share


@given(TIED_VALUES, SHARES)
def test_a_budget_is_used_as_far_as_ties_allow(values, share):
    total = np.array(values)
    threshold = alike(share).fit({"total": total})
    assert threshold in total
    for lower in total[total < threshold]:
        assert (np.count_nonzero(total > lower) + 1) / (len(total) + 1) > share


@given(st.integers(1, 200), st.integers(0, 200))
def test_a_budget_of_k_in_n_refers_one_fewer_of_the_n_and_a_new_example_makes_it_k(examples, referred):
    # k / (n + 1) is rounded: the budget must neither lose nor gain an example by it.
    referred = min(referred, examples)
    total = np.random.default_rng(examples).permutation(examples) / examples
    threshold = alike(referred / (examples + 1)).fit({"total": total})
    assert np.count_nonzero(total > threshold) == max(referred - 1, 0)


def test_a_budget_is_the_chance_of_a_new_example():
    random, referred = np.random.default_rng(0), []
    for _ in range(4000):
        total = random.uniform(size=40)
        referred.append(total[-1] > alike(0.1).fit({"total": total[:-1]}))
    assert abs(np.mean(referred) - 0.1) < 3 * np.sqrt(0.09 / 4000)


def test_examples_that_all_tie_are_not_referred():
    assert alike(0.5).fit({"total": np.full(10, 0.1)}) == 0.1


def test_an_infinite_uncertainty_is_referred_first():
    values = np.array([np.inf, 1.0, 2.0, 3.0])
    threshold = alike(0.4, by="var_nll").fit({"var_nll": values})
    assert threshold == 3.0


@pytest.mark.parametrize("by", UNCERTAINTIES)
def test_a_rule_goes_by_the_uncertainty_it_names(by):
    rng = np.random.default_rng(0)
    found = quantify(rng.uniform(size=(5, 100)), rng.gamma(2.0, size=(5, 100)), 3.0, 10)
    threshold = alike(0.1, by=by).fit(found)
    assert threshold in getattr(found, by)
    assert np.mean(getattr(found, by) > threshold) <= 0.1


def test_a_threshold_known_beforehand_is_kept():
    assert UncertaintyThreshold(by="total", threshold=0.2).fit({"total": np.array([0.1])}) == 0.2


def test_without_referral_nothing_is_referred_not_even_infinite_uncertainty():
    threshold = NoReferral().fit({})
    found = verdicts_of(NoReferral(), evidence([0.2, 0.9], [np.inf, np.inf]), threshold)
    np.testing.assert_array_equal(found, ["INLIER", "ANOMALY"])


def test_a_probability_that_equals_the_threshold_is_an_anomaly():
    probability = np.array([np.nextafter(0.5, 0), 0.5, np.nextafter(0.5, 1)])
    np.testing.assert_array_equal(predictions(probability), [False, True, True])
    np.testing.assert_array_equal(predictions(np.array([0.79, 0.8]), 0.8), [False, True])


def test_an_uncertainty_that_equals_the_threshold_is_not_referred():
    found = verdicts_of(UncertaintyThreshold(threshold=0.2), evidence(np.zeros(3), [0.1, 0.2, 0.2 + 1e-12]))
    np.testing.assert_array_equal(found, ["INLIER", "INLIER", "REFER"])


def test_a_threshold_below_every_uncertainty_refers_those_without_any_too():
    found = verdicts_of(UncertaintyThreshold(threshold=REFER_ALL), evidence(np.zeros(2), [0.0, 0.25]))
    np.testing.assert_array_equal(found, ["REFER", "REFER"])


def test_referral_wins_over_both_verdicts_and_every_example_has_one():
    rule = UncertaintyThreshold(threshold=0.2)
    found = verdicts_of(rule, evidence([0.1, 0.4, 0.6, 0.9], [0.1, 0.3, 0.3, 0.1]))
    assert list(found) == [Verdict.INLIER, Verdict.REFER, Verdict.REFER, Verdict.ANOMALY]


@given(st.integers(0, 300), st.floats(0, 1), st.floats(0, 0.25))
def test_the_verdicts_add_up_to_the_examples(examples, anomaly_threshold, referral_threshold):
    rng = np.random.default_rng(examples)
    probability, uncertainty = rng.uniform(size=examples), rng.uniform(high=0.25, size=examples)
    found = verdicts_of(
        UncertaintyThreshold(threshold=referral_threshold),
        evidence(probability, uncertainty, prediction=predictions(probability, anomaly_threshold)),
    )
    counts = {verdict: sum(found == verdict) for verdict in Verdict}
    referred = sum(uncertainty > referral_threshold)
    assert counts[Verdict.REFER] == referred
    assert counts[Verdict.ANOMALY] == sum(
        p >= anomaly_threshold and u <= referral_threshold for p, u in zip(probability, uncertainty, strict=True)
    )
    assert sum(counts.values()) == examples


def test_a_missing_value_is_refused_and_not_taken_for_certainty():
    known, missing = np.array([0.1, 0.2]), np.array([0.1, np.nan])
    with pytest.raises(DataError, match="`total` must not be NaN, but is for 1 of 2"):
        verdicts_of(UncertaintyThreshold(threshold=0.1), evidence(known, missing))
    with pytest.raises(DataError, match="`probability` must not be NaN"):
        predictions(missing)
    with pytest.raises(DataError, match="`total` must not be NaN"):
        Budget().fit({"total": missing})


def test_values_that_are_not_one_per_example_are_refused():
    with pytest.raises(ShapeError, match="one value per example"):
        predictions(np.zeros((2, 3)))


def test_a_budget_without_examples_is_refused():
    with pytest.raises(DataError, match="at least one example"):
        Budget().fit({"total": np.empty(0), "probability": np.empty(0)})


def test_an_uncertainty_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match=r"\['total'\], got 'epistemic'"):
        Budget(by="epistemic").fit({"total": np.zeros(3)})
    with pytest.raises(ConfigError, match="by"):
        Budget(by="doubt")


@pytest.mark.parametrize("share", [-0.1, 1.1, np.nan, "5%"])
def test_a_budget_that_is_not_a_share_is_refused(share):
    with pytest.raises(ConfigError, match="share"):
        Budget(share=share)


@pytest.mark.parametrize("threshold", [-0.1, np.nan, np.inf])
def test_thresholds_that_are_not_usable_are_refused(threshold):
    with pytest.raises(ConfigError, match="threshold"):
        UncertaintyThreshold(threshold=threshold)
    with pytest.raises(ConfigError, match="threshold"):
        predictions(np.zeros(2), threshold)


def test_a_referral_threshold_that_is_missing_is_refused():
    with pytest.raises(ConfigError, match="referral threshold"):
        verdicts_of(Budget(), evidence(np.zeros(2)), np.nan)


# ----- reasons


def test_the_larger_part_of_the_uncertainty_names_the_doubt():
    found = evidence([0.5, 0.5, 0.5], epistemic=[0.2, 0.05, 0.2], aleatoric=[0.05, 0.2, 0.05])
    uncertain = np.array([True, True, False])
    verdict, given = judged(found.prediction, uncertain, found.uncertainty, **nothing(3))
    assert list(given) == [Reason.EPISTEMIC, Reason.ALEATORIC, ""]
    assert list(verdict) == [Verdict.REFER, Verdict.REFER, Verdict.ANOMALY]


def test_bad_input_comes_before_a_value_out_of_range_and_that_before_doubt():
    found = evidence(np.full(4, 0.5), epistemic=np.full(4, 0.2))
    uncertain, outside, bad = (np.array(flags, dtype=bool) for flags in ([1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 0]))
    verdict, given = judged(found.prediction, uncertain, found.uncertainty, **nothing(4, bad=bad, outside=outside))
    assert list(given) == ["uncertain-epistemic", "out_of_range", "bad_input", "out_of_range"]
    assert (verdict == Verdict.REFER).all()


def test_what_is_unfamiliar_explains_a_doubt_and_is_referred_where_novelty_is():
    found = evidence(np.full(5, 0.5), epistemic=np.full(5, 0.2))
    uncertain, unfamiliar, novel = (
        np.array(flags, dtype=bool) for flags in ([1, 1, 0, 0, 1], [0, 1, 1, 1, 1], [0, 0, 0, 1, 0])
    )
    flags = nothing(5, unfamiliar=unfamiliar, novel=novel, outside=np.array([False] * 4 + [True]))
    verdict, given = judged(found.prediction, uncertain, found.uncertainty, **flags)
    assert list(given) == ["uncertain-epistemic", "unfamiliar", "", "unfamiliar", "out_of_range"]
    assert list(verdict) == ["REFER", "REFER", "ANOMALY", "REFER", "REFER"]


# ----- alarms first


def test_alarms_are_reviewed_before_inliers_of_the_same_doubt():
    found = evidence([0.49, 0.51, 0.2, 0.8], aleatoric=[0.2499, 0.2499, 0.16, 0.16])
    assert list(Budget(inlier_weight=0.5).doubt(found)) == [0.12495, 0.2499, 0.08, 0.16]
    assert list(AtMost(count=2).refers(found, 0.0)) == [False, True, False, True]
    assert list(AtMost(count=2, inlier_weight=1.0).refers(found, 0.0)) == [True, True, False, False]


def test_a_budget_with_alarms_first_is_never_exceeded():
    random = np.random.default_rng(0)
    for share, weight in ((0.05, 0.5), (0.1, 0.0), (0.3, 0.9)):
        p = random.uniform(size=1000) ** 3
        found = evidence(p, aleatoric=p * (1 - p))
        rule = Budget(share=share, inlier_weight=weight)
        assert 0.9 * share <= np.mean(rule.refers(found, rule.fit(found.uncertainty))) <= share


def test_what_a_rule_refers_is_told_in_words():
    assert alike(0.05).in_words(0.2) == "total uncertainty above 0.2"
    assert Budget().in_words(0.1) == "total uncertainty of an alarm above 0.1, of others above 0.2"
    assert Budget().in_words(0.2) == "total uncertainty of an alarm above 0.2"
    assert Cost(missed_anomaly=1, false_alarm=1, review=1).in_words(1.0) is None


# ----- at most so many


@given(TIED_VALUES, st.integers(0, 10))
def test_no_batch_refers_more_than_it_may_and_ties_stand_together(values, count):
    total = np.array(values)
    referred = AtMost(count=count, inlier_weight=1.0).refers(evidence(np.zeros_like(total), total), 0.0)
    assert referred.sum() <= count
    if referred.any():
        assert total[referred].min() > total[~referred].max(initial=0.0)


def test_every_day_has_its_own_count():
    day = np.repeat(np.array(["2024-05-01", "2024-05-02"], dtype="datetime64[D]"), 3)
    total = np.array([0.1, 0.2, 0.15, 0.01, 0.03, 0.02])
    referred = AtMost(count=1, per="day").refers(evidence(np.zeros(6), total, day=day), 0.0)
    assert list(np.flatnonzero(referred)) == [1, 4]


def test_a_quiet_day_refers_nothing_that_is_certain():
    rule = AtMost(count=5, least=0.1, inlier_weight=1.0)
    found = evidence(np.zeros(3), [0.0, 0.1, 0.2])
    assert list(rule.refers(found, rule.fit(found.uncertainty))) == [False, False, True]


def test_counting_by_day_needs_days():
    with pytest.raises(DataError, match="`time` column"):
        AtMost(count=1, per="day").refers(evidence(np.zeros(2)), 0.0)


# ----- cost


@given(st.floats(0.1, 100), st.floats(0.1, 100), st.floats(0.01, 50), st.none() | st.floats(0.001, 0.999))
def test_costs_choose_the_cheapest_of_three_verdicts(missed, alarm, review, prevalence):
    rule = Cost(missed_anomaly=missed, false_alarm=alarm, review=review, prevalence=prevalence)
    p = np.linspace(0.003, 0.997, 101)
    found = evidence(p, prediction=p >= rule.anomaly_threshold(0.5))
    odds = p / (1 - p) * (1 if prevalence is None else prevalence / (1 - prevalence))  # Bayes
    q = odds / (1 + odds)
    costs = np.stack([q * missed, (1 - q) * alarm, np.full_like(q, review)])
    names = np.array([Verdict.INLIER, Verdict.ANOMALY, Verdict.REFER])
    chosen = np.array([costs[list(names).index(verdict), i] for i, verdict in enumerate(verdicts_of(rule, found))])
    np.testing.assert_allclose(chosen, costs.min(axis=0), rtol=1e-9)


def test_a_prevalence_is_put_in_where_none_was_given():
    costs = {"missed_anomaly": 10.0, "false_alarm": 1.0, "review": 0.3}
    assert Cost(**costs).at_prevalence(0.2) == Cost(**costs, prevalence=0.2)
    assert Cost(**costs, prevalence=0.1).at_prevalence(0.2) == Cost(**costs, prevalence=0.1)
    assert Budget().at_prevalence(0.2) == Budget()
    with pytest.raises(ConfigError, match="`prevalence` must be"):
        Cost(**costs, prevalence=1.0)


# ----- rules of the literature


def test_exceed_is_confident_far_from_its_boundary_and_in_doubt_at_it():
    n = 1000
    below = np.array([0, 500, 900, 990, 1000])
    found = evidence([0, 0, 0, 1, 1], below=below, reference=n)
    rule = Exceed(contamination=0.1, confidence=0.9)
    assert list(rule.refers(found, rule.fit(found.uncertainty))) == [False, False, True, False, False]


def test_exceed_agrees_with_counting_resampled_training_sets():
    # P(anomaly): how often an example that exceeds each score with probability q is above n (1 - gamma) of n scores.
    n, gamma, below = 200, 0.1, 176
    q = (1 + below) / (2 + n)
    counted = np.random.default_rng(0).binomial(n, q, size=200_000) > n - int(n * gamma)
    found = evidence([0.9], below=np.array([below]), reference=n)
    assert 1 - Exceed(contamination=gamma).doubt(found)[0] == pytest.approx(counted.mean(), abs=0.005)


def test_rejex_refers_what_is_less_stable_than_its_constant_and_more_with_more_tolerance():
    below = np.arange(0, 1001)
    found = evidence(np.zeros(1001), below=below, reference=1000)
    shares = []
    for tolerance in (4.0, 8.0, 32.0):
        rule = RejEx(contamination=0.1, tolerance=tolerance)
        doubt = rule.doubt(found)
        np.testing.assert_array_equal(rule.refers(found, rule.fit(found.uncertainty)), doubt >= np.exp(-tolerance))
        shares.append(float(np.mean(doubt >= np.exp(-tolerance))))
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[2] < 0.5


def test_the_rules_of_the_literature_need_the_reference_scores():
    found = evidence([0.5])
    for rule in (Exceed(), RejEx()):
        with pytest.raises(DataError, match="give `below`"):
            rule.refers(replace(found, below=None), 0.1)
