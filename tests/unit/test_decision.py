"""Verdicts and the rules by which they are referred to a person."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio import decision
from indubio.decision import (
    REFERRALS,
    Budget,
    NoReferral,
    Referral,
    UncertaintyThreshold,
    Verdict,
    predictions,
    verdicts,
)
from indubio.errors import ConfigError, DataError, ShapeError
from indubio.uncertainty import UNCERTAINTIES, quantify

# Few different values, so that most lists are full of ties.
TIED_VALUES = st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.2, 0.25]), min_size=1, max_size=60)
SHARES = st.one_of(st.floats(0, 1), st.sampled_from([0.05, 0.07, 0.1, 0.29, 0.3, 0.57, 1 / 3]))


def test_the_list_of_referral_rules_names_every_rule_of_the_module():
    rules = {
        rule
        for _, rule in inspect.getmembers(decision, inspect.isclass)
        if issubclass(rule, Referral) and rule is not Referral
    }
    assert set(REFERRALS.values()) == rules


@given(TIED_VALUES, SHARES)
def test_a_budget_is_never_exceeded_on_the_examples_it_was_fitted_on(values, share):
    total = np.array(values)
    threshold = Budget(share=share).fit({"total": total})
    found = verdicts(np.zeros_like(total), total, referral_threshold=threshold)
    assert np.mean(found == Verdict.REFER) <= share


@given(TIED_VALUES, SHARES)
def test_a_budget_is_used_as_far_as_ties_allow(values, share):
    total = np.array(values)
    threshold = Budget(share=share).fit({"total": total})
    assert threshold in total
    for lower in total[total < threshold]:
        assert np.mean(total > lower) > share


@given(st.integers(1, 200), st.integers(0, 200))
def test_a_budget_of_k_in_n_refers_k_of_n_different_examples(examples, referred):
    # k / n is rounded: the budget must neither lose nor gain an example by it.
    referred = min(referred, examples - 1)
    total = np.random.default_rng(examples).permutation(examples) / examples
    threshold = Budget(share=referred / examples).fit({"total": total})
    assert np.count_nonzero(total > threshold) == referred


def test_examples_that_all_tie_are_not_referred():
    assert Budget(share=0.5).fit({"total": np.full(10, 0.1)}) == 0.1


def test_an_infinite_uncertainty_is_referred_first():
    values = np.array([np.inf, 1.0, 2.0, 3.0])
    threshold = Budget(share=0.25, by="var_nll").fit({"var_nll": values})
    assert threshold == 3.0


@pytest.mark.parametrize("by", UNCERTAINTIES)
def test_a_rule_goes_by_the_uncertainty_it_names(by):
    rng = np.random.default_rng(0)
    found = quantify(rng.uniform(size=(5, 100)), rng.gamma(2.0, size=(5, 100)), 3.0, 10)
    threshold = Budget(share=0.1, by=by).fit(found)
    assert threshold in getattr(found, by)
    assert np.mean(getattr(found, by) > threshold) <= 0.1


def test_a_threshold_known_beforehand_is_kept():
    assert UncertaintyThreshold(by="total", threshold=0.2).fit({"total": np.array([0.1])}) == 0.2


def test_without_referral_nothing_is_referred_not_even_infinite_uncertainty():
    threshold = NoReferral().fit({})
    found = verdicts(np.array([0.2, 0.9]), np.array([np.inf, np.inf]), referral_threshold=threshold)
    np.testing.assert_array_equal(found, ["INLIER", "ANOMALY"])


def test_a_probability_that_equals_the_threshold_is_an_anomaly():
    probability = np.array([np.nextafter(0.5, 0), 0.5, np.nextafter(0.5, 1)])
    np.testing.assert_array_equal(predictions(probability), [False, True, True])
    np.testing.assert_array_equal(predictions(np.array([0.79, 0.8]), 0.8), [False, True])


def test_an_uncertainty_that_equals_the_threshold_is_not_referred():
    found = verdicts(np.zeros(3), np.array([0.1, 0.2, 0.2 + 1e-12]), referral_threshold=0.2)
    np.testing.assert_array_equal(found, ["INLIER", "INLIER", "REFER"])


def test_referral_wins_over_both_verdicts_and_every_example_has_one():
    probability = np.array([0.1, 0.4, 0.6, 0.9])
    uncertainty = np.array([0.1, 0.3, 0.3, 0.1])
    found = verdicts(probability, uncertainty, anomaly_threshold=0.5, referral_threshold=0.2)
    assert list(found) == [Verdict.INLIER, Verdict.REFER, Verdict.REFER, Verdict.ANOMALY]


@given(st.integers(0, 300), st.floats(0, 1), st.floats(0, 0.25))
def test_the_verdicts_add_up_to_the_examples(examples, anomaly_threshold, referral_threshold):
    rng = np.random.default_rng(examples)
    probability, uncertainty = rng.uniform(size=examples), rng.uniform(high=0.25, size=examples)
    found = verdicts(
        probability,
        uncertainty,
        anomaly_threshold=anomaly_threshold,
        referral_threshold=referral_threshold,
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
    with pytest.raises(DataError, match="`uncertainty` must not be NaN, but is for 1 of 2"):
        verdicts(known, missing, referral_threshold=0.1)
    with pytest.raises(DataError, match="`probability` must not be NaN"):
        predictions(missing)
    with pytest.raises(DataError, match="`total` must not be NaN"):
        Budget().fit({"total": missing})


def test_values_of_different_examples_are_refused():
    with pytest.raises(ShapeError, match="same examples"):
        verdicts(np.zeros(3), np.zeros(2), referral_threshold=0.1)
    with pytest.raises(ShapeError, match="one value per example"):
        predictions(np.zeros((2, 3)))


def test_a_budget_without_examples_is_refused():
    with pytest.raises(DataError, match="at least one example"):
        Budget().fit({"total": np.empty(0)})


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
    with pytest.raises(ConfigError, match="referral_threshold"):
        verdicts(np.zeros(2), np.zeros(2), referral_threshold=np.nan)
