"""Verdicts per run."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

from indubio.chain import Assessment, RunGatherer, assess_runs
from indubio.decision import Verdict
from indubio.errors import ConfigError, DataError, ShapeError

GOOD, A, R = Verdict.INLIER.value, Verdict.ANOMALY.value, Verdict.REFER.value


def assessed(verdicts, p_value=None, nll=None, passed=None) -> Assessment:
    count = len(verdicts)
    scores = np.arange(float(count)) if nll is None else np.array(nll, dtype=float)
    zeros = dict.fromkeys(("epistemic", "aleatoric", "total", "exceed", "var_nll", "novelty"), np.zeros(count))
    return Assessment(
        verdict=np.array(verdicts),
        reason=np.full(count, "", dtype=object),
        prediction=np.array(verdicts) == A,
        probability=scores / (count or 1),
        nll=scores,
        p_value=np.full(count, np.nan) if p_value is None else np.array(p_value, dtype=float),
        notes=np.full(count, "", dtype=object),
        smallest_p=np.full(count, 0.01),
        promise="Promised.",
        passed=passed,
        **zeros,
    )


@pytest.mark.parametrize(
    ("verdicts", "share", "expected"),
    [
        ([GOOD, GOOD, GOOD, GOOD], 0.5, GOOD),
        ([A, A, GOOD, GOOD], 0.5, A),
        ([A, GOOD, GOOD, GOOD], 0.5, GOOD),
        ([A, R, GOOD, GOOD], 0.5, R),  # it hangs on the one that was referred
        ([R, R, R, GOOD], 0.5, R),
        ([A, A, R, R], 0.5, A),
        ([A, GOOD, GOOD, GOOD], 0.25, A),
        ([R, GOOD, GOOD, GOOD], 0.5, GOOD),
        ([A, A, GOOD], 0.5, A),  # two of three, rounded up
        ([A, GOOD, GOOD], 0.5, GOOD),
        ([A] * 9 + [GOOD], 1.0, GOOD),
        ([A] * 10, 1.0, A),
        ([A] + [GOOD] * 9, 0.1, A),
    ],
)
def test_a_run_is_what_the_share_of_its_windows_is(verdicts, share, expected):
    found = assess_runs(assessed(verdicts), ["run"] * len(verdicts), share=share)
    assert found.verdict.tolist() == [expected]
    assert (found.windows[0], found.anomalies[0], found.referred[0]) == (
        len(verdicts),
        verdicts.count(A),
        verdicts.count(R),
    )


def test_runs_are_apart_whatever_the_order_of_their_windows():
    found = assessed([A, GOOD, A, GOOD], nll=[8, 1, 6, 2])
    runs = assess_runs(found, ["b", "a", "b", "a"])
    assert runs.run.tolist() == ["b", "a"]
    assert runs.verdict.tolist() == [A, GOOD]
    assert runs.nll.tolist() == [8, 2]  # of two windows one is half of them: the larger counts
    mixed = assess_runs(assessed([A, A, GOOD, GOOD], nll=[8, 6, 1, 2]), ["b", "b", "a", "a"])
    assert mixed.nll.tolist() == runs.nll.tolist()


def test_score_and_p_value_are_those_of_the_window_that_decides():
    found = assessed([GOOD] * 4, p_value=[0.5, 0.01, 0.2, 0.03], nll=[1, 4, 2, 3])
    half = assess_runs(found, ["r"] * 4)
    assert half.nll.tolist() == [3]
    np.testing.assert_allclose(half.p_value, [2 * 0.03])
    quarter = assess_runs(found, ["r"] * 4, share=0.25)
    assert quarter.nll.tolist() == [4]
    np.testing.assert_allclose(quarter.p_value, [4 * 0.01])
    np.testing.assert_allclose(assess_runs(found, ["r"] * 4, share=1.0).p_value, [0.5])


def test_a_p_value_is_at_most_one_and_missing_ones_count_as_one():
    assert assess_runs(assessed([GOOD] * 2, p_value=[0.9, 0.8]), ["r"] * 2).p_value.tolist() == [1.0]
    np.testing.assert_allclose(assess_runs(assessed([GOOD] * 2, p_value=[0.1, np.nan]), ["r"] * 2).p_value, [0.2])
    assert np.isnan(assess_runs(assessed([GOOD] * 2), ["r"] * 2).p_value).all()


@pytest.mark.parametrize("dependence", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_good_runs_raise_no_more_false_alarms_than_promised_however_windows_depend(dependence, share):
    random = np.random.default_rng(0)
    runs, windows, level = 2000, 20, 0.1
    shared, own = random.normal(size=(runs, 1)), random.normal(size=(runs, windows))
    p = norm.sf(np.sqrt(dependence) * shared + np.sqrt(1 - dependence) * own).ravel()
    names = np.repeat(np.arange(runs), windows)
    found = assess_runs(assessed([GOOD] * len(p), p_value=p), names, share=share)
    # 2000 runs: three standard deviations of a rate of 0.1
    assert (found.p_value <= level).mean() <= level + 3 * np.sqrt(level * (1 - level) / runs)


def test_windows_of_a_recording_say_their_runs_and_times():
    passed = pa.table({"file": ["f", "f", "g"], "group": [None, None, None], "start": [0, 4, 0], "end": [3, 7, 3]})
    runs = assess_runs(assessed([GOOD, GOOD, A], passed=passed))
    assert runs.to_arrow().select(["run", "start", "end", "verdict", "windows"]).to_pylist() == [
        {"run": "f", "start": 0, "end": 7, "verdict": GOOD, "windows": 2},
        {"run": "g", "start": 0, "end": 3, "verdict": A, "windows": 1},
    ]
    grouped = passed.set_column(1, "group", pa.array([5, 6, 6]))
    assert assess_runs(assessed([GOOD, GOOD, A], passed=grouped)).run.tolist() == ["5", "6"]


def test_parts_of_a_stream_give_what_the_whole_gives():
    random = np.random.default_rng(0)
    verdicts, p = random.choice([GOOD, A, R], 50), random.random(50)
    names = [str(name) for name in random.integers(5, size=50)]
    whole = assess_runs(assessed(verdicts.tolist(), p_value=p, nll=p), names)
    gathered = RunGatherer()
    for start in range(0, 50, 7):
        part = slice(start, start + 7)
        gathered.add(assessed(verdicts[part].tolist(), p_value=p[part], nll=p[part]), names[part])
    for name in ("run", "verdict", "nll", "p_value", "windows", "anomalies", "referred"):
        np.testing.assert_array_equal(getattr(gathered.assessed(), name), getattr(whole, name))


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(DataError, match="pass `runs`"):
        assess_runs(assessed([GOOD]))
    with pytest.raises(ShapeError, match="one name per window"):
        assess_runs(assessed([GOOD]), ["a", "b"])
    with pytest.raises(ConfigError, match="`share`"):
        assess_runs(assessed([GOOD]), ["a"], share=0.0)
    with pytest.raises(DataError, match="no windows"):
        RunGatherer().assessed()
