"""What every referral rule promises."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from indubio import decision
from indubio.decision import REFERRALS, Evidence, Labelled, Referral
from indubio.errors import ConfigError, DataError
from indubio.judging import ON_DEMAND, UNCERTAINTIES, Uncertainty, disagreement, quantify
from tests import skeletons

SHARED_FILES = {"__init__", "referral", "verdict"}
KINDS = {**REFERRALS, **skeletons.REFERRALS}
NEEDED = {  # settings without a default
    "threshold": {"threshold": 0.1},
    "at_most": {"count": 20},
    "cost": {"missed_anomaly": 30.0, "false_alarm": 10.0, "review": 3.0},
    "target_risk": {"alpha": 0.1},
}
EXAMPLES = 200


def uncertainty_of(examples: int, seed: int) -> Uncertainty:
    rng = np.random.default_rng(seed)
    p, nll = rng.uniform(size=(5, examples)) ** 2, rng.gamma(2.0, size=(5, examples))
    return replace(quantify(p, nll, 3.0, 100), disagreement=disagreement(nll))


def evidence_of(examples: int = EXAMPLES, seed: int = 0) -> Evidence:
    found = uncertainty_of(examples, seed)
    below = np.random.default_rng(seed).integers(0, 101, size=examples)
    return Evidence(uncertainty=found, prediction=found.probability >= 0.5, below=below, reference=100)


def labelled() -> Labelled:
    """A third of the verdicts are wrong, those in most doubt."""
    found = evidence_of(seed=1)
    return Labelled(evidence=found, wrong=found.uncertainty.total > np.quantile(found.uncertainty.total, 2 / 3))


def at(found: Evidence, places: np.ndarray) -> Evidence:
    uncertainty = {
        field.name: getattr(found.uncertainty, field.name)[places] for field in fields(type(found.uncertainty))
    }
    return replace(
        found, uncertainty=Uncertainty(**uncertainty), prediction=found.prediction[places], below=found.below[places]
    )


@pytest.fixture(params=KINDS)
def rule(request) -> Referral:
    return KINDS[request.param](**NEEDED.get(request.param, {}))


@pytest.fixture
def threshold(rule) -> float:
    return rule.fit(uncertainty_of(EXAMPLES, seed=2), labelled())


def test_the_list_of_referral_rules_names_every_file_of_the_folder():
    files = {path.stem for path in Path(decision.__file__).parent.glob("*.py")} - SHARED_FILES
    assert {rule.__module__.rpartition(".")[2] for rule in REFERRALS.values()} == files
    assert len(REFERRALS) == len(files)


def test_the_threshold_is_one_number_and_always_the_same(rule, threshold):
    assert type(threshold) is float
    assert not np.isnan(threshold)
    assert rule.fit(uncertainty_of(EXAMPLES, seed=2), labelled()) == threshold


def test_every_example_is_referred_or_not(rule, threshold):
    refers = rule.refers(evidence_of(), threshold)
    assert refers.shape == (EXAMPLES,)
    assert refers.dtype == bool


def test_what_is_referred_is_in_more_doubt_than_what_is_not(rule, threshold):
    found = evidence_of()
    doubt, refers = rule.doubt(found), rule.refers(found, threshold)
    assert not np.isnan(doubt).any()
    assert doubt[refers].min(initial=np.inf) > doubt[~refers].max(initial=-np.inf)


def test_a_rule_that_could_refer_refers_some_and_not_all(rule, threshold):
    share = rule.refers(evidence_of(), threshold).mean()
    assert share == 0 if isinstance(rule, decision.NoReferral) else 0 < share < 1


def test_the_order_of_the_examples_does_not_matter(rule, threshold):
    found, order = evidence_of(), np.random.default_rng(3).permutation(EXAMPLES)
    np.testing.assert_array_equal(rule.refers(at(found, order), threshold), rule.refers(found, threshold)[order])


def test_only_a_rule_that_says_so_looks_at_what_else_is_assessed(rule, threshold):
    found = evidence_of()
    alone = [rule.refers(at(found, np.array([place])), threshold)[0] for place in range(EXAMPLES)]
    assert np.array_equal(alone, rule.refers(found, threshold)) != rule.OVER_BATCH


def test_only_a_rule_that_says_so_needs_ranks(rule, threshold):
    found = evidence_of()
    if rule.NEEDS_RANKS:
        with pytest.raises(DataError, match="scores of the reference examples"):
            rule.refers(replace(found, below=None), threshold)
    else:
        np.testing.assert_array_equal(rule.refers(replace(found, below=None), threshold), rule.refers(found, threshold))


def test_only_a_rule_that_says_so_needs_labels(rule):
    if rule.NEEDS_LABELS:
        with pytest.raises(ConfigError, match="labelled examples"):
            rule.fit(uncertainty_of(EXAMPLES, seed=2))
    else:
        assert not np.isnan(rule.fit(uncertainty_of(EXAMPLES, seed=2)))


def test_no_examples_give_no_verdicts_to_refer(rule, threshold):
    assert rule.refers(at(evidence_of(), np.arange(0)), threshold).shape == (0,)


@pytest.mark.parametrize("by", [*UNCERTAINTIES, *ON_DEMAND])
def test_every_uncertainty_can_be_named(rule, by):
    assert rule.replaced(by=by).by == by


def test_the_anomaly_threshold_is_a_probability(rule):
    assert 0 <= rule.anomaly_threshold(0.5) <= 1
