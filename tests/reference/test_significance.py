"""Ranks and tests over many sets, against scipy and against Demsar's paper."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from indubio.errors import ConfigError, ShapeError
from indubio.evaluation import average_ranks, critical_difference, holm, signed_rank_p

# Demsar 2006, table 5: critical values q of the two-tailed Nemenyi test at 0.05 for 2 to 10 classifiers.
DEMSAR_Q = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]


@pytest.mark.parametrize(("detectors", "q"), list(enumerate(DEMSAR_Q, start=2)))
def test_the_critical_difference_is_that_of_demsars_table(detectors, q):
    sets = 14
    expected = q * np.sqrt(detectors * (detectors + 1) / (6 * sets))
    assert critical_difference(detectors, sets) == pytest.approx(expected, abs=2e-3)


def test_the_critical_difference_shrinks_with_the_sets_and_grows_with_the_level():
    assert critical_difference(5, 40) < critical_difference(5, 10)
    assert critical_difference(5, 10, level=0.1) < critical_difference(5, 10, level=0.05)


def test_average_ranks_are_those_behind_friedmans_test():
    values = np.random.default_rng(0).normal(size=(20, 5))
    ranks = average_ranks(values, high_is_good=False)
    sets, detectors = values.shape
    chi = 12 * sets / (detectors * (detectors + 1)) * ((ranks**2).sum() - detectors * (detectors + 1) ** 2 / 4)
    assert chi == pytest.approx(stats.friedmanchisquare(*values.T).statistic)


def test_the_highest_has_rank_one_unless_low_is_good():
    assert average_ranks([[0.9, 0.1]]).tolist() == [1, 2]
    assert average_ranks([[0.9, 0.1]], high_is_good=False).tolist() == [2, 1]
    assert average_ranks([[0.5, 0.5, 0.1]]).tolist() == [1.5, 1.5, 3]


def test_a_missing_value_is_refused():
    with pytest.raises(ConfigError, match="leave out sets that lack one"):
        average_ranks([[0.1, np.nan]])
    with pytest.raises(ShapeError, match="sets, detectors"):
        average_ranks([0.1, 0.2])


def test_the_signed_rank_test_is_scipys_and_no_difference_has_p_one():
    differences = np.random.default_rng(1).normal(0.3, 1, size=30)
    assert signed_rank_p(differences.tolist()) == stats.wilcoxon(differences).pvalue
    assert signed_rank_p([0.0, 0.0]) == 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_the_definition_by_a_loop(p_values):
    """Of every p the largest p times its number of hypotheses still open, over all that are not larger."""
    count, corrected = len(p_values), holm(p_values)
    order = sorted(range(count), key=lambda place: p_values[place])
    for rank, place in enumerate(order):
        steps = [min(1.0, p_values[order[before]] * (count - before)) for before in range(rank + 1)]
        assert corrected[place] == pytest.approx(max(steps))
