"""Probabilities and verdicts by group: a noisy machine is compared with itself, in every way to calibrate."""

import dataclasses
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import IsolationForest

from indubio import AnchoredEnsemble, Budget, Cost, Detector, Training, load, save
from indubio.calibration import CALIBRATIONS, CrossFit, HoldOut
from indubio.configuration import detector_from_plain, detector_to_plain
from indubio.data import read_table
from indubio.decision import Exceed
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError, DataError, ModelFileError, ShapeError
from indubio.export import export_onnx
from indubio.judge import Judge
from indubio.judging import CONVERSIONS, GroupConversions, agreeing

SMALLEST = 20


def parts(calm: int, noisy: int, few: int = 0, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Good parts of three machines: the second scatters three times as much, and of the third there are few."""
    random = np.random.default_rng(seed)
    count = calm + noisy + few
    scatter = np.repeat([1.0, 3.0, 1.0], [calm, noisy, few])[:, None]
    rows = scatter * random.normal(size=(count, 4))
    order = random.permutation(count)
    return rows[order], np.repeat(["calm", "noisy", "few"], [calm, noisy, few])[order]


TRAINED, NEW = parts(300, 300, 9, seed=0), parts(2000, 2000, seed=1)


def false_calls(detector: Detector) -> dict[str, float]:
    found = detector.assess(NEW[0], groups=NEW[1])
    return {name: float(found.prediction[NEW[1] == name].mean()) for name in ("calm", "noisy")}


def mean_false_calls(**settings) -> dict[str, float]:
    """Over several seeds: a rate that rests on the 75 rows of a machine that are held out is known to a third."""
    fitted = [Detector(**settings, seed=seed).fit(TRAINED[0], groups=TRAINED[1]) for seed in range(5)]
    called = [false_calls(detector) for detector in fitted]
    return {name: float(np.mean([rates[name] for rates in called])) for name in called[0]}


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(smallest_group=SMALLEST).fit(TRAINED[0], groups=TRAINED[1])


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_a_noisy_machine_is_not_called_anomalous_more_often_than_the_others(calibration):
    settings = {"calibration": CALIBRATIONS[calibration]()}
    if calibration == "train":  # the default remembers its training rows: to be compared with them means nothing
        settings |= {"posterior": AnchoredEnsemble(members=4), "training": Training(epochs=20)}
    pooled, own = mean_false_calls(**settings), mean_false_calls(smallest_group=SMALLEST, **settings)
    assert pooled["noisy"] > 4 * pooled["calm"]
    assert 0.6 < own["noisy"] / own["calm"] < 1.7


def judging_by(detector: Detector, by_group: GroupConversions) -> Detector:
    chain = detector.chain_
    return detector.of_chain(
        dataclasses.replace(chain, calibrated=dataclasses.replace(chain.calibrated, by_group=by_group))
    )


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_a_group_has_the_probabilities_of_a_detector_that_knows_no_other(conversion):
    settings = {"calibration": HoldOut(rows="last"), "conversion": CONVERSIONS[conversion]()}
    detector = Detector(smallest_group=SMALLEST, **settings).fit(TRAINED[0], groups=TRAINED[1])
    held = np.flatnonzero(TRAINED[1] == "noisy")[-75:]  # a quarter of the group
    alone = CONVERSIONS[conversion]().fit(detector.nll(TRAINED[0][held]))
    noisy = NEW[0][NEW[1] == "noisy"][:100]
    found = detector.assess(noisy, groups=["noisy"] * 100)
    p = agreeing(alone.probability(detector.nll(noisy)), found.p_value, smallest=1 / 76, rate=0.1)
    np.testing.assert_allclose(found.probability, p.mean(axis=0), atol=1e-9)


def test_small_and_unknown_groups_are_judged_by_all_and_every_example_says_so(detector):
    pooled = judging_by(detector, dataclasses.replace(detector.group_conversions_, names=(), conversions=()))
    rows = NEW[0][:3]
    found = detector.assess(rows, groups=["few", "other", "calm"])
    assert "judged by all groups: fewer than 20 calibration examples a draw for group few" in found.notes[0]
    assert "for group other" in found.notes[1]
    assert found.notes[2] == ""
    np.testing.assert_array_equal(pooled.assess(rows, groups=["few"] * 3).probability[:2], found.probability[:2])


def test_the_budget_is_kept_over_all_groups(detector):
    referred = detector.assess(*NEW[:1], groups=NEW[1]).verdict == "REFER"
    assert 0.02 < referred.mean() < 0.09
    assert 0.02 < referred[NEW[1] == "noisy"].mean() < 0.12


def test_exceed_looks_at_the_examples_of_the_group(detector):
    largest, count = detector.reference_.by_group["calm"]
    assert count == 300
    calm = NEW[0][NEW[1] == "calm"]
    found = detector.assess(calm, groups=["calm"] * len(calm))
    above = detector.reference_.part_means(detector.nll(calm)).mean(axis=0) > largest * 1.01
    p = found.probability
    np.testing.assert_allclose(found.exceed[above], 1 - p[above] ** count, atol=1e-9)


@pytest.mark.parametrize("calibration", [CrossFit(), CrossFit(folds=3), HoldOut(), HoldOut(rows="last")])
def test_every_group_is_divided_as_the_whole_is(calibration):
    plan = calibration.plan(609, 10, 0, TRAINED[1])
    shares = []
    for fold in plan.folds:
        assert not np.intersect1d(fold.trained, fold.calibrated).size
        shares.append(dict(Counter(TRAINED[1][fold.calibrated].tolist())))
    assert all(share == shares[0] for share in shares)
    assert shares[0]["calm"] == shares[0]["noisy"]


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_one_group_is_no_group(calibration):
    way = CALIBRATIONS[calibration]()
    ours, theirs = way.plan(101, 4, 3, np.repeat("one", 101)), way.plan(101, 4, 3)
    for one, other in zip(ours.folds, theirs.folds, strict=True):
        np.testing.assert_array_equal(one.trained, other.trained)
        np.testing.assert_array_equal(one.calibrated, other.calibrated)


def test_a_row_is_judged_the_same_in_any_company(detector):
    rows, groups = NEW[0][:50], NEW[1][:50]
    together = detector.assess(rows, groups=groups)
    alone = [detector.assess(rows[i : i + 1], groups=groups[i : i + 1]).probability[0] for i in range(50)]
    np.testing.assert_array_equal(alone, together.probability)
    in_one_pass = detector.assess(rows, groups=groups, explain=True)
    np.testing.assert_array_equal(in_one_pass.probability, together.probability)


def test_a_saved_model_judges_by_group_to_the_bit_and_is_served(detector, tmp_path):
    save(detector, tmp_path / "model")
    assert "2 groups (calm, noisy)" in (tmp_path / "model" / "README.md").read_text()
    loaded = load(tmp_path / "model")
    rows, groups = NEW[0][:200], NEW[1][:200]
    ours = detector.assess(rows, groups=groups)
    for other in (loaded, Judge.load(tmp_path / "model").detector):
        theirs = other.assess(rows, groups=groups)
        np.testing.assert_array_equal(theirs.probability, ours.probability)
        np.testing.assert_array_equal(theirs.exceed, ours.exceed)
        assert list(theirs.notes) == list(ours.notes)
    assert detector_from_plain(detector_to_plain(detector)).smallest_group == SMALLEST


def test_a_model_file_that_lost_its_groups_is_refused(detector, tmp_path):
    kept = detector.group_conversions_
    other = GroupConversions(names=("who",), conversions=kept.conversions[:1], smallest=SMALLEST)
    save(judging_by(detector, other), tmp_path / "model")
    with pytest.raises(ModelFileError, match="of groups that calibrate"):
        load(tmp_path / "model")


def test_it_cannot_be_exported_and_says_the_way_out(detector, tmp_path):
    with pytest.raises(ConfigError, match="Fit without `smallest_group`"):
        export_onnx(detector, tmp_path / "model.onnx")


def test_any_detector_judges_by_group():
    settings = {"members": 4, "calibration": CrossFit(folds=4)}
    own = EnsembleDetector(IsolationForest(), smallest_group=SMALLEST, **settings)
    pooled = EnsembleDetector(IsolationForest(), **settings)
    ours = false_calls(own.fit(TRAINED[0], groups=TRAINED[1]))
    theirs = false_calls(pooled.fit(TRAINED[0], groups=TRAINED[1]))
    assert theirs["noisy"] > 4 * theirs["calm"]
    assert 0.6 < ours["noisy"] / ours["calm"] < 1.7


def test_tables_carry_their_groups_through_rules_labels_and_scikit_learn(detector):
    frame = pd.DataFrame(NEW[0][:300], columns=list("abcd")).assign(machine=NEW[1][:300])
    table = read_table(frame, group="machine")
    detector = Detector(smallest_group=SMALLEST).fit(table)
    detector = detector.refer_by(Budget(share=0.2), table)
    assert (detector.assess(table).verdict == "REFER").mean() <= 0.2
    others = read_table(pd.DataFrame(NEW[0][300:], columns=list("abcd")).assign(machine=NEW[1][300:]), group="machine")
    np.testing.assert_array_equal(-detector.score_samples(others), detector.assess(others).probability)
    learned = detector.learn(table, np.arange(300) % 2, recent=table)
    assert learned.correction_.reviewed == 300
    assert detector.update(table.select(np.arange(300) < 5), training_data=table).group_conversions_.names


def test_groups_are_asked_for(detector):
    with pytest.raises(ConfigError, match="`smallest_group` is for examples with groups"):
        Detector(smallest_group=SMALLEST).fit(TRAINED[0])
    with pytest.raises(DataError, match="each example needs its group"):
        detector.assess(NEW[0])
    with pytest.raises(ShapeError, match="one name per example"):
        detector.assess(NEW[0][:5], groups=NEW[1][:4])
    with pytest.raises(ConfigError, match="`smallest_group` must be at least 2"):
        Detector(smallest_group=1).fit(TRAINED[0], groups=TRAINED[1])
    with pytest.raises(ConfigError, match="Exceed ranks an example among all groups"):
        detector.refer_by(Exceed())
    detector.refer_by(Cost(missed_anomaly=5.0, false_alarm=1.0, review=0.2))
