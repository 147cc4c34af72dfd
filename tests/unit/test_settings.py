"""Settings check themselves, strictly, and say the rule and the value."""

from dataclasses import FrozenInstanceError

import pytest

from indubio import AnchoredEnsemble, BayesByBackprop, MCDropout, Training
from indubio.errors import ConfigError
from indubio.networks import RangeTest


@pytest.mark.parametrize("members", [0, -1, 2.0, "3", True, None])
def test_a_count_must_be_a_whole_number_of_at_least_one(members):
    with pytest.raises(ConfigError, match=r"`members` must be .*, got "):
        AnchoredEnsemble(members=members)


@pytest.mark.parametrize("rate", [0, -0.1, float("nan"), float("inf"), "fast"])
def test_a_learning_rate_must_be_positive_or_a_range_test(rate):
    with pytest.raises(ConfigError, match="`learning_rate` must be"):
        Training(learning_rate=rate)
    assert Training(learning_rate=1).learning_rate == 1
    assert Training(learning_rate=RangeTest())


def test_probabilities_have_bounds():
    with pytest.raises(ConfigError, match="`dropout`"):
        MCDropout(dropout=1.0)
    with pytest.raises(ConfigError, match="`mixture`"):
        BayesByBackprop(mixture=0.0)


def test_settings_do_not_change():
    with pytest.raises(FrozenInstanceError):
        AnchoredEnsemble().members = 3


def test_settings_take_names_only():
    with pytest.raises(TypeError):
        AnchoredEnsemble(3)


def test_a_replaced_setting_is_checked_too():
    assert AnchoredEnsemble().replaced(members=4) == AnchoredEnsemble(members=4)
    with pytest.raises(ConfigError, match="no setting 'member'"):
        AnchoredEnsemble().replaced(member=4)
    with pytest.raises(ConfigError, match="`members`"):
        AnchoredEnsemble().replaced(members=0)
