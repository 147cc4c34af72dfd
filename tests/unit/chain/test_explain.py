"""What made the score: contributions of features, sensors and time steps."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from indubio import AtMost, Detector, Deterministic, NoReferral
from indubio.chain import autoencoder_scorer
from indubio.chain.explain import Parts
from indubio.data import Table, examples_of
from indubio.errors import ConfigError, DataError
from indubio.networks import GaussianLikelihood
from tests.engines import ENGINES, run_on
from tests.small_examples import NAMES, SIGNALS, SMALL_NETWORK, quick, table, windows
from tests.small_examples import TRAINING as ROWS


@pytest.fixture(scope="module")
def on_rows() -> Detector:
    return Detector().fit(pd.DataFrame(ROWS, columns=NAMES))


@pytest.fixture(scope="module")
def on_windows() -> Detector:
    """Of a network that sees every sample: the default sees spectra, which have no steps of time."""
    return quick(architecture=SMALL_NETWORK).fit(windows(SIGNALS))


def test_the_contributions_of_features_add_up_to_the_difference_from_the_typical_row(on_rows):
    frame = pd.DataFrame(ROWS[:9], columns=NAMES)
    found, nll = on_rows.contributions(frame), on_rows.assess(frame).nll
    typical = on_rows.nll(pd.DataFrame(ROWS, columns=NAMES)).mean()
    assert found.typical == pytest.approx(typical, rel=1e-5)
    np.testing.assert_allclose(found.values.value.sum(axis=1), nll - typical, rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(found.score, nll, rtol=1e-5)
    assert found.features is found.values
    assert found.steps is None


def test_the_contributions_of_sensors_and_of_steps_add_up_too(on_windows):
    found = on_windows.contributions(windows(SIGNALS[:9]))
    nll = on_windows.assess(windows(SIGNALS[:9])).nll
    assert found.values.value.shape == (9, 30, 2)
    for parts in (found.values, found.features, found.steps):
        np.testing.assert_allclose(parts.value.reshape(9, -1).sum(axis=1), nll - found.typical, rtol=1e-3, atol=1e-7)
        np.testing.assert_allclose(np.abs(parts.share).reshape(9, -1).sum(axis=1), 1, rtol=1e-12)


def test_the_training_examples_contribute_nothing_on_average(on_rows, on_windows):
    for detector, data in ((on_rows, pd.DataFrame(ROWS, columns=NAMES)), (on_windows, windows(SIGNALS))):
        found = detector.contributions(data)
        np.testing.assert_allclose(found.values.value.mean(axis=0), 0, atol=1e-4 * abs(found.typical))


def test_the_spread_of_a_sum_is_taken_over_the_draws_of_the_sum(on_windows):
    found = on_windows.contributions(windows(SIGNALS[:5]))
    usual = on_windows.nll_per_feature(windows(SIGNALS)).astype(np.float64).mean(axis=1, keepdims=True)
    each = (on_windows.nll_per_feature(windows(SIGNALS[:5])) - usual) / 60
    np.testing.assert_allclose(found.values.spread, each.std(axis=0), rtol=1e-3, atol=1e-8)
    np.testing.assert_allclose(found.features.spread, each.sum(axis=2).std(axis=0), rtol=1e-3, atol=1e-8)
    np.testing.assert_allclose(found.steps.spread, each.sum(axis=3).std(axis=0), rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("feature", range(4))
def test_a_fault_in_one_feature_ranks_it_first(on_rows, feature):
    faulty = ROWS[:5].copy()
    faulty[:, feature] += 20
    found = on_rows.contributions(pd.DataFrame(faulty, columns=NAMES)).top(2)
    assert found.names.shape == found.shares.shape == (5, 2)
    assert (found.names[:, 0] == NAMES[feature]).all()
    assert (found.shares[:, 0] > 0.5).all()


def test_a_fault_in_one_sensor_ranks_it_and_its_time_first(on_windows):
    faulty = SIGNALS[:3].copy()
    faulty[:, 10:13, 1] += 5
    found = on_windows.contributions(windows(faulty))
    assert (found.top(1).names[:, 0] == "torque").all()
    assert (np.sort(np.argsort(-found.steps.value, axis=1)[:, :3], axis=1) == [10, 11, 12]).all()


def test_a_single_draw_has_no_spread():
    detector = Detector(posterior=Deterministic()).fit(ROWS)
    assert (detector.contributions(ROWS[:5]).values.spread == 0).all()


def test_features_without_names_are_numbered():
    detector = Detector().fit(ROWS)
    assert detector.contributions(ROWS[:2]).names == ("x0", "x1", "x2", "x3")


def test_the_columns_of_a_category_contribute_as_the_column_they_came_from():
    features = pa.table({"size": ROWS[:, 0], "colour": ["red", "blue"] * 150, "flow": ROWS[:, 2]})
    data = Table(features=features, categorical={"colour": None})
    found = Detector().fit(data).contributions(data)
    assert found.names == ("size", "colour", "flow")
    assert found.value_names == ("size", "colour=blue", "colour=red", "flow")
    single = found.values.value
    grouped = np.stack([single[:, 0], single[:, 1] + single[:, 2], single[:, 3]], axis=1)
    np.testing.assert_allclose(found.features.value, grouped, rtol=1e-12)


class Counting:
    """A scorer that notes how many rows each pass through the network has."""

    def __init__(self, scorer) -> None:
        self._scorer, self.passes = scorer, []

    def __getattr__(self, name):
        def counted(rows):
            self.passes.append(len(rows))
            return getattr(self._scorer, name)(rows)

        return counted


def score_by(engine: str, detector: Detector, patch) -> None:
    """Score on this engine."""
    run_on(engine, patch)
    patch.delitem(vars(detector.draws_), "_scorer", raising=False)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_assessment_and_its_reasons_come_from_one_pass(on_rows, on_windows, engine, monkeypatch):
    for detector, data in (
        (on_rows, pd.DataFrame(np.concatenate([ROWS[:40], ROWS[:9] + 5]), columns=NAMES)),
        (on_windows, windows(np.concatenate([SIGNALS[:20], SIGNALS[:9] + 3]))),
    ):
        score_by(engine, detector, monkeypatch)
        plain = detector.assess(data)
        with monkeypatch.context() as patch:
            counting = Counting(detector.draws_._scorer)
            patch.setitem(vars(detector.draws_), "_scorer", counting)
            found = detector.assess(data, explain=True)
        assert sum(counting.passes) == len(data)
        np.testing.assert_array_equal(found.verdict, plain.verdict)
        np.testing.assert_allclose(found.nll, plain.nll, rtol=1e-4)
        np.testing.assert_array_equal(found.why.places, np.flatnonzero(plain.verdict != "INLIER"))
        again = detector.contributions(detector.chain_.preparation.examples(data).select(found.why.places))
        np.testing.assert_allclose(found.why.features.value, again.features.value, rtol=1e-3, atol=1e-7)


def test_the_size_of_the_blocks_that_are_watched_changes_nothing(on_rows, monkeypatch):
    score_by("torch", on_rows, monkeypatch)
    data = pd.DataFrame(np.concatenate([ROWS[:30], ROWS[:5] + 5]), columns=NAMES)
    whole = on_rows.assess(data, explain=True).why
    monkeypatch.setattr(autoencoder_scorer, "VALUES_WATCHED", 1)
    monkeypatch.setattr(autoencoder_scorer, "FEWEST_WATCHED", 3)
    parts = on_rows.assess(data, explain=True).why
    np.testing.assert_array_equal(parts.places, whole.places)
    np.testing.assert_allclose(parts.features.value, whole.features.value, rtol=1e-4, atol=1e-8)


def test_where_nothing_needs_a_look_there_is_nothing_to_explain():
    calm = Detector(anomaly_threshold=1.0, referral=NoReferral()).fit(ROWS)
    found = calm.assess(ROWS[np.argsort(calm.assess(ROWS).nll)[:3]], explain=True)
    assert (len(found.why), found.why.names) == (0, ("x0", "x1", "x2", "x3"))
    table = found.to_arrow(top=2, contributions=True)
    assert table["top_features"].to_pylist() == [""] * 3
    assert table[f"contribution: {found.why.names[0]}"].to_pylist() == [None] * 3


def test_a_rule_over_all_examples_has_reasons_of_those_that_it_flags():
    detector = Detector(referral=AtMost(count=3)).fit(ROWS)
    rows = np.concatenate([ROWS[:30], ROWS[:5] + 5])
    found = detector.assess(rows, explain=True)
    assert np.count_nonzero(found.verdict == "REFER") == 3
    np.testing.assert_array_equal(found.why.places, np.flatnonzero(found.verdict != "INLIER"))
    again = detector.contributions(rows[found.why.places])
    np.testing.assert_array_equal(found.why.features.value, again.features.value)


def test_some_examples_of_an_assessment_keep_their_reasons(on_rows):
    rows = pd.DataFrame(np.concatenate([ROWS[:30], ROWS[:5] + 5]), columns=NAMES)
    found = on_rows.assess(rows, explain=True)
    some = found[[34, 0, 33]]
    chosen = {34: 0, 0: 1, 33: 2}
    kept = [place for place in chosen if place in found.why.places.tolist()]
    assert some.why.places.tolist() == [chosen[place] for place in kept]
    for row, place in enumerate(kept):
        there = found.why.places.tolist().index(place)
        np.testing.assert_array_equal(some.why.features.value[row], found.why.features.value[there])


def test_reasons_that_nobody_asked_for_are_not_in_the_table(on_rows):
    with pytest.raises(ConfigError, match="explain=True"):
        on_rows.assess(pd.DataFrame(ROWS, columns=NAMES)).to_arrow(top=1)


def test_one_example_as_plain_data_is_json_and_adds_up(on_rows, on_windows):
    faulty = ROWS[:2].copy()
    faulty[1, 2] += 20
    plain = on_rows.contributions(pd.DataFrame(faulty, columns=NAMES)).to_plain(1)
    assert plain == json.loads(json.dumps(plain))
    assert plain["features"][0]["name"] == "flow"
    added = sum(part["contribution"] for part in plain["features"])
    assert plain["typical"] + added == pytest.approx(plain["score"])
    windowed = on_windows.contributions(windows(SIGNALS[:1])).to_plain(k=1)
    assert len(windowed["features"]) == 1
    assert len(windowed["steps"]["contribution"]) == 30


def test_the_size_of_a_block_changes_nothing(on_windows, monkeypatch):
    whole = on_windows.contributions(windows(SIGNALS[:7]))
    monkeypatch.setattr(autoencoder_scorer, "VALUES_WATCHED", 2 * 4 * 60)  # two windows at a time
    monkeypatch.setattr(autoencoder_scorer, "FEWEST_WATCHED", 1)
    parts = on_windows.contributions(windows(SIGNALS[:7]))
    np.testing.assert_allclose(parts.values.value, whole.values.value, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(parts.steps.spread, whole.steps.spread, rtol=1e-3, atol=1e-9)
    np.testing.assert_array_equal(parts.places, np.arange(7))


def test_shares_of_learned_noise_keep_their_signs():
    detector = Detector(likelihood=GaussianLikelihood(noise="per_feature")).fit(ROWS)
    found = detector.contributions(ROWS[:20])
    assert found.typical < 0
    assert (found.values.value < 0).any()
    assert (np.sign(found.values.share) == np.sign(found.values.value)).all()
    np.testing.assert_allclose(np.abs(found.values.share).sum(axis=1), 1)


def test_a_score_of_zero_has_no_shares():
    assert (Parts(value=np.zeros((2, 3)), spread=np.zeros((2, 3))).share == 0).all()


def test_top_gives_all_when_there_are_fewer_and_refuses_none(on_rows):
    found = on_rows.contributions(pd.DataFrame(ROWS[:2], columns=NAMES))
    assert found.top(99).names.shape == (2, 4)
    with pytest.raises(ConfigError, match="`k` must be at least 1, got 0"):
        found.top(0)


def test_no_examples_are_refused_as_the_detector_refuses_them(on_rows):
    with pytest.raises(DataError):
        on_rows.contributions(pd.DataFrame(ROWS[:0], columns=NAMES))


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: rows,
        lambda rows: rows.tolist(),
        lambda rows: pd.DataFrame(rows, index=[f"row {i}" for i in range(len(rows))]),
        lambda rows: pl.DataFrame(rows, schema=list(NAMES)),
    ],
    ids=["array", "list", "pandas", "polars"],
)
def test_examples_are_chosen_by_place_and_in_order_from_every_form(form):
    np.testing.assert_array_equal(examples_of(form(ROWS)).select([5, 2, 70]).values, ROWS[[5, 2, 70]])


def test_examples_of_a_table_keep_their_ids_and_labels():
    data = table(ROWS[:4], ids={"id": list("abcd")}, labels=np.array([False, True, False, True]))
    chosen = data.select([3, 0])
    assert chosen.features.column("flow").to_pylist() == ROWS[[3, 0], 2].tolist()
    assert chosen.passed.column("id").to_pylist() == ["d", "a"]
    assert chosen.labels.tolist() == [True, False]
