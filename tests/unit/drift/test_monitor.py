"""Drift: alarms that are rarely false, over all time, and come soon when something has changed."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio import Detector
from indubio.drift import DriftMonitor, DriftReference, DriftTest, betting, monitor
from indubio.errors import ConfigError, DataError, ShapeError
from indubio_lab.collections import odds
from tests.small_examples import SIGNALS, SMALL_NETWORK, quick, windows
from tests.small_examples import TRAINING as ROWS

FEATURES = ("a", "b", "c")


def monitor_of(reference: np.ndarray, *, scores: bool = True, **test) -> DriftMonitor:
    kept = DriftReference.fit(reference, FEATURES).with_scores(len(reference) if scores else 0)
    return DriftMonitor.fresh(kept, DriftTest(**test))


def p_values(rows: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Conformal p-values of a score that is the squared length."""
    known, new = np.sort((reference**2).sum(axis=1)), (rows**2).sum(axis=1)
    return (1 + len(known) - np.searchsorted(known, new)) / (len(known) + 1)


def normal(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 3))


@pytest.mark.parametrize("examples", [40, 400])
@pytest.mark.parametrize("anomalies", [0.0, 0.05])
def test_false_alarms_over_time_are_as_rare_as_promised(examples, anomalies):
    # 60 monitors over 600 examples each. With a true rate of alpha = 0.1, more than 12 alarms have a probability of
    # less than 1 %.
    alarms = 0
    for seed in range(60):
        new = normal(600, 1000 + seed)
        strange = np.random.default_rng(seed).random(600) < anomalies
        new[strange] += 20
        reference = normal(examples, seed)
        watched = monitor_of(reference, alpha=0.1, anomalies=anomalies).updated(new, p_values(new, reference))
        alarms += watched.drift().alarm
    assert alarms <= 12


def test_discrete_and_constant_features_raise_no_false_alarm():
    alarms = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        rows = np.stack([random.integers(0, 2, 900), np.full(900, 7.0), random.poisson(1.0, 900)], axis=1).astype(float)
        watched = monitor_of(rows[:300], scores=False, alpha=0.1).updated(rows[300:], np.ones(600))
        alarms += watched.drift().alarm
    assert alarms <= 7  # of 30; more have a probability below 1 % at the rate of 0.1


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda x: x + 1.0, "value"),
        (lambda x: x - 1.0, "value"),
        (lambda x: 2 * x, "scatter"),
        (lambda x: x / 3, "scatter"),
    ],
    ids=["higher", "lower", "wider", "narrower"],
)
@pytest.mark.parametrize("before", [0, 500])
def test_a_change_of_one_feature_is_found_and_named(change, kind, before):
    new = normal(before + 600, 1)
    new[before:, 1] = change(new[before:, 1])
    found = monitor_of(normal(1000, 0)).updated(new, p_values(new, normal(1000, 0))).drift()
    features = [one for one in found.changed if one.kind != "score"]
    assert {one.name for one in features} == {"b"}
    assert kind in {one.kind for one in features}
    assert all(one.since >= before for one in found.changed)


def test_a_change_that_only_the_score_sees_is_found():
    # Every feature keeps its distribution; that they move together is new.
    new, reference = np.repeat(normal(1500, 2)[:, :1], 3, axis=1), normal(1000, 0)
    known, scores = np.sort(reference.sum(axis=1) ** 2), new.sum(axis=1) ** 2
    p = (1 + len(known) - np.searchsorted(known, scores)) / (len(known) + 1)
    found = monitor_of(reference).updated(new, p).drift()
    assert [one.name for one in found.changed] == ["score"]
    assert "features only" not in found.promise


def test_without_reference_scores_the_promise_says_so():
    found = monitor_of(normal(50, 0), scores=False).updated(normal(5, 1), np.zeros(5)).drift()
    assert "features only" in found.promise
    assert not found.scores_tested


def test_batches_make_no_difference_and_the_state_survives_json():
    new = normal(700, 3) + 0.3
    start = monitor_of(normal(300, 0))
    whole = start.updated(new, p_values(new, normal(300, 0)))
    watched = start
    for part in np.array_split(new, [1, 50, 51, 400]):
        watched = DriftMonitor.resumed(start.reference, json.loads(json.dumps(watched.to_plain())))
        watched = watched.updated(part, p_values(part, normal(300, 0)))
    np.testing.assert_allclose(watched.wealth, whole.wealth, rtol=1e-9)
    assert watched.drift().to_plain() == whole.drift().to_plain()
    assert start.seen == 0


def test_examples_that_are_left_out_are_counted_and_change_no_bet():
    good, reference = normal(700, 3) + 0.8, normal(300, 0)
    alone = monitor_of(reference).updated(good, p_values(good, reference)).drift()
    bad = np.arange(900) % 9 < 2  # 200 of them, among the good ones
    all_of_them, places = np.full((900, 3), 50.0), np.flatnonzero(~bad)
    all_of_them[places] = good
    watched = monitor_of(reference)
    for part in np.array_split(np.arange(900), [2, 60, 61, 500]):  # the first has none that is tested
        watched = DriftMonitor.resumed(watched.reference, json.loads(json.dumps(watched.to_plain())))
        rows = all_of_them[part]
        watched = watched.updated(rows, p_values(rows, reference), bad[part])
    found = watched.drift()
    assert [one.since for one in found.series] == [
        None if one.since is None else places[one.since] for one in alone.series
    ]
    assert [one.rank for one in found.series] == pytest.approx([one.rank for one in alone.series])
    assert (found.alarm, found.examples, found.left_out, found.tested) == (True, 900, 200, 700)
    first = min(one.since for one in found.changed)
    assert str(found).startswith(f"DRIFT since example {first} of 900, 200 labelled as anomalies left out: ")


def test_a_file_of_nothing_but_known_anomalies_is_not_tested_and_that_is_said():
    watched = monitor_of(normal(300, 0)).updated(normal(5, 1) + 9, np.zeros(5), np.ones(5, dtype=bool))
    assert str(watched.drift()) == "not tested: all 5 examples are labelled as anomalies"


def test_a_state_of_another_model_is_refused():
    state = monitor_of(normal(50, 0)).to_plain()
    with pytest.raises(ConfigError, match="of another model"):
        DriftMonitor.resumed(DriftReference.fit(normal(50, 0)[:, :2], ("a", "b")), state)
    with pytest.raises(ConfigError, match="no state of a drift monitor"):
        DriftMonitor.resumed(monitor_of(normal(50, 0)).reference, {"seen": 3})


def test_missing_values_are_passed_over():
    new = normal(400, 4)
    new[::2, 0] = np.nan
    new[:, 1] = np.nan
    found = monitor_of(normal(300, 0), scores=False).updated(new, np.zeros(400)).drift()
    assert not found.alarm
    assert [one.rank is None for one in found.series] == [False, True, False] * 2


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.integers(5, 3000))
def test_the_wealth_is_what_the_definition_says(ranks, count):
    # A plain loop over starts and stakes, against the recursion.
    rows = normal(count, 0)
    watched = monitor_of(rows, scores=False, alpha=0.05)
    level = 0.05 / 6
    used = watched.reference.counts.sum(axis=1)[0]
    slack = np.sqrt(np.log(4 / level) / (6 * used)) + 0.025
    bets = (1 + np.outer(np.array(ranks) - 0.5, monitor.STAKES)) / (1 + np.abs(monitor.STAKES) * slack)
    waiting = 1 / np.log2(np.arange(len(ranks) + 1) + 2)
    wealth = sum((waiting[k] - waiting[k + 1]) * np.prod(bets[k:], axis=0) for k in range(len(ranks)))
    after = watched._after(np.repeat(np.array(ranks)[:, None], 6, axis=1), np.arange(len(ranks)))
    np.testing.assert_allclose(after.wealth[0], wealth, rtol=1e-9)


def example_by_example(wealth, off, stakes, unit, weights):
    """The bets as they are defined, one example after the other."""
    mixed = []
    for now, weight in zip(off, weights, strict=True):
        bet = np.where(np.isnan(now), 1.0, (1 + stakes * now) / unit)
        wealth = np.minimum((wealth + weight) * bet, betting.MOST_WEALTH)
        mixed.append(wealth.mean(axis=0))
    return np.array(mixed), wealth


@pytest.mark.parametrize("drifted", [0.0, 0.5], ids=["as it was", "until nothing more can be won"])
@pytest.mark.parametrize("examples", [1, 63, 64, 257, 2500])
def test_a_block_of_bets_is_the_bets_one_by_one_to_the_bit(examples, drifted):
    random = np.random.default_rng(examples)
    off = random.random((examples, 5)) * (1 - drifted) + drifted - 0.5
    off[random.random(off.shape) < 0.1] = np.nan
    off[:, 3] = np.nan
    stakes = np.tile(monitor.STAKES[:, None], 5)
    unit = 1 + np.abs(stakes) * random.random(5) / 10
    before = random.random(stakes.shape).T.copy().T  # as a monitor holds it
    given = (before, off, stakes, unit, random.random(examples) / examples)
    for found, expected in zip(betting.wealth_over_time(*given), example_by_example(*given), strict=True):
        np.testing.assert_array_equal(found, expected)
    if drifted and examples == 2500:
        assert betting.wealth_over_time(*given)[1].max() == betting.MOST_WEALTH


def test_ranks_are_the_middles_of_the_bins_that_a_search_finds():
    reference = DriftReference.fit(normal(500, 0).round(1), FEATURES).with_scores(500)
    new = np.concatenate([normal(3000, 1).round(1), [[np.nan, np.inf, -np.inf], [1e308, -1e308, 0.0]]])
    p = np.random.default_rng(2).random(len(new))
    series = np.concatenate([new, np.abs(new - reference.centre)], axis=1)
    for column, edges, counts, found in zip(
        series.T, reference.edges, reference.counts, reference.ranks(new, p).T, strict=False
    ):
        middle = (np.cumsum(counts) - counts / 2) / counts.sum()
        expected = np.where(np.isnan(column), np.nan, middle[np.searchsorted(edges, column, side="right")])
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(reference.ranks(new, p)[:, -1], 1 - p)


def test_the_weights_of_all_starts_add_up_to_one():
    waiting = monitor._waiting(np.arange(10**6))
    assert waiting[0] == 1
    assert (np.diff(waiting) < 0).all()


def test_broken_references_are_refused():
    kept = DriftReference.fit(normal(50, 0), FEATURES)
    with pytest.raises(ShapeError, match="needs 6 series"):
        DriftReference(**vars(kept) | {"edges": kept.edges[:2]})
    with pytest.raises(DataError, match="must ascend"):
        DriftReference(**vars(kept) | {"edges": kept.edges[:, ::-1]})
    with pytest.raises(ShapeError, match="rows of 3, got the shape"):
        kept.ranks(normal(5, 0)[:, :2], np.zeros(5))


def test_a_detector_watches_rows_and_windows():
    on_rows = Detector().fit(ROWS)
    assert not on_rows.monitored(ROWS, on_rows.assess(ROWS).p_value).drift().alarm
    moved = ROWS + np.array([0, 0, 5, 0])
    found = on_rows.monitored(moved, on_rows.assess(moved).p_value).drift()
    assert {one.name for one in found.changed} == {"x2", "score"}
    on_windows = quick(architecture=SMALL_NETWORK).fit(windows(SIGNALS))  # the default would see spectra
    shaking = np.tile(SIGNALS, (3, 1, 1))
    shaking[:, :, 0] *= 2
    found = on_windows.monitored(windows(shaking), on_windows.assess(windows(shaking)).p_value).drift()
    assert ("force [kN]", "within") in {(one.name, one.kind) for one in found.changed}


def test_real_data_of_the_same_process_raises_no_alarm_and_a_shifted_feature_does(data_folder):
    data = odds("thyroid", folder=data_folder)
    reference = DriftReference.fit(data.train, data.names)
    same = DriftMonitor.fresh(reference).updated(data.test_inliers, np.zeros(len(data.test_inliers)))
    assert not same.drift().alarm
    moved = data.test_inliers.copy()
    moved[:, 2] += moved[:, 2].std()
    found = DriftMonitor.fresh(reference).updated(moved, np.zeros(len(moved))).drift()
    assert {one.name for one in found.changed} == {data.names[2]}


def in_turns(count: int, stations: int, seed: int) -> np.ndarray:
    """Rows of stations that come one after the other, the first 2 standard deviations off."""
    rows = normal(count, seed)
    rows[::stations] += 2
    return rows


@pytest.mark.parametrize("stations", [2, 5, 10])
def test_ranks_of_stations_that_come_in_turns_average_one_half(stations):
    rows = in_turns(2000, stations, 0)
    detector = Detector().fit(rows)
    ranks = detector.drift_reference_.ranks(rows, np.full(len(rows), 0.5))[:, : 2 * rows.shape[1]]
    # The mean of 1,600 uniform ranks has a standard deviation of 0.0072.
    assert np.abs(ranks.mean(axis=0) - 0.5).max() < 4 * 0.0072


@pytest.mark.slow  # 300 detectors: a minute
@pytest.mark.parametrize("stations", [5, 10])
def test_stations_that_come_in_turns_raise_no_more_false_alarms_than_promised(stations):
    repetitions, alpha = 300, 0.05
    alarms = 0
    for seed in range(repetitions):
        rows = in_turns(1000, stations, seed)
        detector = Detector(seed=seed).fit(rows[:500])
        p = detector.assess(rows[500:]).p_value
        alarms += detector.monitored(rows[500:], p, test=DriftTest(alpha=alpha)).drift().alarm
    assert alarms / repetitions <= alpha + 2 * np.sqrt(alpha * (1 - alpha) / repetitions)
