"""What a report warns of, and what it says of the model: words and numbers, without a picture."""

import re
from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from indubio import AnchoredEnsemble, Budget, Detector, NoReferral, OwnNetwork, Training, UncertaintyThreshold
from indubio.data.windows import ShortGroup
from indubio.decision import Verdict
from indubio.errors import DataWarning
from indubio.report import (
    Subject,
    count,
    doubt_in_words,
    html_report,
    novelty_in_words,
    number,
    percent,
    plain,
    verdict_in_words,
)
from indubio.report.findings import drift, drift_in_words, findings
from indubio.report.label_findings import quality
from indubio.report.model_facts import column_rows, model_in_short, model_rows
from indubio.report.words import point
from tests.small_examples import GOOD, LABELS, ROWS, SIGNALS, TRAINING, table, windows


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(missing="refer").fit(table(TRAINING))


@pytest.fixture(scope="module")
def on_windows() -> Detector:
    return Detector().fit(windows(SIGNALS))


def warned(detector, X, *, found=None, labels=None) -> str:
    """Everything that is warned of, as one text."""
    subject = Subject.of(detector, X, found, labels)
    known = quality(subject)
    made = findings(subject, None if known is None else known.curves[subject.referral.by], drift(subject))
    return "\n".join(line for finding in made for line in (finding.title, finding.text, *finding.details))


# ----- warnings


def test_nothing_is_warned_of_when_all_is_well(detector, on_windows):
    assert warned(detector, table(GOOD)) == ""
    assert warned(detector, table(ROWS), labels=LABELS) == ""
    assert warned(on_windows, windows(SIGNALS)) == ""


def test_what_was_odd_about_the_training_data_is_warned_of_first():
    rows = TRAINING.copy()
    rows[:, 1] = 7
    with pytest.warns(DataWarning):
        odd = Detector().fit(table(rows))
    told = warned(odd, table(rows[:60]))
    assert told.startswith("The training data was odd")
    assert '"pressure" never changes. There is nothing to learn' in told
    page = html_report(odd, table(rows[:60]))
    assert "&#34;pressure&#34; never changes." in page
    assert "The training data was odd" in page


@pytest.mark.parametrize("helps", [False, True])
def test_referral_that_does_not_help_is_warned_of(detector, helps):
    wrong = np.zeros(80, dtype=bool)
    wrong[[0, 1, 70, 71]] = True
    total = np.where(wrong == helps, 0.2, 0.1) + 1e-4 * np.arange(80)
    found = replace(detector.assess(table(ROWS)), prediction=LABELS ^ wrong, total=total)
    assert ("Referral does not help here" in warned(detector, table(ROWS), found=found, labels=LABELS)) != helps


def test_a_gain_of_exactly_nothing_is_warned_of(detector):
    found = replace(detector.assess(table(ROWS)), total=np.full(80, 0.1))
    assert "(Gain +0.0)" in warned(detector, table(ROWS), found=found, labels=LABELS)


def test_too_few_anomalies_for_a_curve_are_no_reason_to_warn(detector):
    assert warned(detector, table(GOOD), labels=np.zeros(60)) == ""


def test_referral_that_is_off_is_not_warned_of():
    detector = Detector(referral=NoReferral()).fit(table(TRAINING))
    found = replace(detector.assess(table(ROWS)), total=np.full(80, 0.1))
    assert "Referral" not in warned(detector, table(ROWS), found=found, labels=LABELS)


def test_data_that_moved_away_from_the_training_data_is_warned_of(detector):
    text = warned(detector, table(GOOD + np.array([0, 30, 0, 0])))
    assert "drifted away from the training data" in text
    assert "pressure (higher, mean rank" in text
    assert "flow" not in text
    assert "P(any false alarm, ever) <= 0.01" in text


@pytest.mark.parametrize(("strange", "warned_of"), [(2, False), (3, True), (60, True)])
def test_many_examples_unlike_the_training_data_are_warned_of(detector, strange, warned_of):
    found = replace(detector.assess(table(GOOD)), novelty=np.where(np.arange(60) < strange, 1.5, 0.5))
    assert (f"{strange} of 60 examples are unlike anything" in warned(detector, table(GOOD), found=found)) == warned_of
    as_anomalies = np.ones(60)
    assert "unlike anything" not in warned(detector, table(GOOD), found=found, labels=as_anomalies)


def test_a_detector_that_knows_no_novelty_warns_of_none(detector):
    found = replace(detector.assess(table(GOOD)), novelty=np.full(60, np.nan))
    assert warned(detector, table(GOOD), found=found) == ""


def test_a_sensor_that_drifted_is_named(on_windows):
    moved = np.tile(SIGNALS, (2, 1, 1))
    moved[:, :, 1] += 1.0
    text = warned(on_windows, windows(moved))
    assert "\ntorque: mean" in text
    assert "\nforce" not in text


def test_anomalies_that_the_labels_know_are_not_taken_for_a_change(detector):
    rows, known = np.concatenate([GOOD, GOOD + 50]), np.repeat([False, True], 60)
    assert "drifted away" in warned(detector, table(rows))
    assert "drifted away" not in warned(detector, table(rows), labels=known)
    assert "drifted away" not in warned(detector, table(GOOD + 50), labels=np.ones(60))
    told = drift_in_words(drift(Subject.of(detector, table(rows), None, known)))
    assert told.startswith(f"No drift was found in {np.count_nonzero(~known)} examples that the labels call normal (")


def test_drift_is_noticed_at_the_number_that_the_example_has_in_the_file(detector):
    rows, labels = np.concatenate([GOOD, GOOD + 50]), np.repeat([True, False], 60)
    alone = warned(detector, table(rows[60:]))
    both = warned(detector, table(rows), labels=labels)
    noticed = [[int(number) for number in re.findall(r"noticed at example (\d+)", text)] for text in (alone, both)]
    assert noticed[0]
    assert noticed[1] == [60 + number for number in noticed[0]]
    assert "labels call normal" in warned(detector, table(GOOD + 50), labels=np.zeros(60))


def test_drift_is_never_passed_over(detector):
    def told(rows, labels=None) -> str:
        return drift_in_words(drift(Subject.of(detector, table(rows), None, labels)))

    assert told(GOOD).startswith("No drift was found in 60 examples (P(any false alarm, ever) <= 0.01")
    assert told(GOOD + 50).startswith("The data has changed since the training")
    assert told(GOOD, np.ones(60)).startswith("Drift was not tested")


def test_missing_values_are_counted_by_column(detector):
    rows = GOOD.copy()
    rows[3, 1] = rows[4, 1] = rows[5, 2] = np.nan
    text = warned(detector, table(rows))
    assert "3 examples have a note on the data" in text
    assert "missing: pressure (2 examples)" in text
    assert "missing: flow (1 example)" in text


def test_repairs_of_a_recording_are_listed(on_windows):
    held = {"force [kN]": 12, "torque": 0}
    short = (ShortGroup(file="a.csv", group=7, samples=3),)
    text = warned(on_windows, windows(SIGNALS, held=held, short=short))
    assert "force [kN]: 12 samples repeating an older value" in text
    assert "1 group of 3 too short for a window" in text
    assert "torque" not in text


# ----- what referral buys


def test_errors_are_counted_before_and_after_referral():
    detector = Detector(referral=Budget(share=0.3)).fit(table(TRAINING))
    subject = Subject.of(detector, table(ROWS), None, LABELS)
    known, found = quality(subject), subject.found
    wrong, kept = found.prediction != LABELS, found.verdict != Verdict.REFER
    assert 0 < np.count_nonzero(~kept) < 80
    for errors, considered in ((known.before, np.ones(80, dtype=bool)), (known.after, kept)):
        assert errors.verdicts == considered.sum()
        assert errors.missed == (considered & wrong & LABELS).sum()
        assert errors.false_alarms == (considered & wrong & ~LABELS).sum()
        assert errors.share == (considered & wrong).sum() / considered.sum()


# ----- the model


def test_the_model_is_described(detector):
    rows = dict(model_rows(Subject.of(detector, table(GOOD), None, None)))
    assert rows["Posterior"].startswith(f"Prototypes (draws {detector.draws_.count}, ")
    assert rows["Network"].startswith("Attention (")
    assert rows["Network"].endswith(f"{detector.draws_.autoencoder.weight_count():,} weights per draw")
    assert rows["Trained on"] == "300 good examples of 4 features"
    assert rows["Conversion to probability"] == "Odds (false_alarms 0.1, steepness 1)"
    assert rows["Anomaly"] == "probability of 0.5 or more"
    assert "at most 5% of the reference examples" in rows["Referral"]
    assert rows["Seed"] == "0"


@pytest.mark.parametrize(
    ("settings", "row", "words"),
    [
        ({"referral": NoReferral()}, "Referral", "nothing is referred for uncertainty"),
        (
            {"referral": UncertaintyThreshold(threshold=0.1, by="epistemic")},
            "Referral",
            "epistemic uncertainty above 0.1 (a fixed threshold)",
        ),
        (
            {"posterior": AnchoredEnsemble(members=2), "training": Training(epochs=1)},
            "Posterior",
            "AnchoredEnsemble (prior_scale 1e-10, members 2)",
        ),
        (
            {"posterior": AnchoredEnsemble(members=2), "training": Training(epochs=1)}
            | {"architecture": OwnNetwork(encoder=lambda s: nn.Linear(s[0], 2), decoder=lambda s: nn.Linear(2, s[0]))},
            "Network",
            "OwnNetwork (encoder <lambda>, decoder <lambda>); 22 weights per draw",
        ),
    ],
)
def test_other_settings_are_described_too(settings, row, words):
    detector = Detector(**settings).fit(ROWS)
    assert dict(model_rows(Subject.of(detector, ROWS, None, None)))[row] == words


def test_columns_are_listed_with_their_training_ranges(detector, on_windows):
    rows, unlisted = column_rows(Subject.of(detector, table(GOOD), None, None))
    column = detector.schema_.columns[1]
    assert rows[1] == ("pressure", f"{column.smallest:.4g} to {column.largest:.4g}")
    assert unlisted == 0
    subject = Subject.of(on_windows, windows(SIGNALS), None, None)
    assert [name for name, _ in column_rows(subject)[0]] == ["force [kN]", "torque"]
    assert "40 good examples of 30 time steps and 2 sensors" in model_in_short(subject)


def test_many_columns_are_counted_and_not_all_listed():
    rows = np.random.default_rng(0).normal(size=(30, 200))
    subject = Subject.of(Detector().fit(rows), rows, None, None)
    listed, unlisted = column_rows(subject)
    assert (len(listed), unlisted) == (60, 140)


def test_reconstructions_are_given_in_the_units_of_the_data(detector):
    subject = Subject.of(detector, table(GOOD), None, None)
    places = np.array([4, 2])
    np.testing.assert_array_equal(subject.raw(places), GOOD[[4, 2]])
    smallest, largest = TRAINING.min(axis=0), TRAINING.max(axis=0)
    scaled = (subject.reconstruction(places) - smallest) / (largest - smallest)
    np.testing.assert_allclose(scaled, detector.reconstruction(table(GOOD[[4, 2]])), rtol=1e-5)


# ----- words


def test_numbers_have_four_digits_and_no_needless_exponent():
    values = (0, 0.5, 12.3456, 1234.5, 123456.7, 1e-5, 2.5e7, -0.01234567, 100.0, 0.99996, float("nan"))
    assert [number(value) for value in values] == [
        *("0", "0.5", "12.35", "1,234", "123,457", "1.00e-05", "2.50e+07", "-0.01235", "100", "1", "missing"),
    ]


def test_percentages_have_the_digits_that_matter():
    shares = (0, 0.0004, 0.042, 0.05, 0.1234, 0.996, 0.9999, 1, float("nan"))
    assert [percent(share) for share in shares] == [
        *("0%", "below 0.1%", "4.2%", "5%", "12%", "99.6%", "above 99.9%", "100%", "-"),
    ]


def test_counts_points_and_passed_values_in_words():
    assert [count(1, "example"), count(1200, "example"), count(7)] == ["1 example", "1,200 examples", "7"]
    assert [point(0.8768), point(float("nan"))] == ["87.7", "-"]
    assert [plain(797.95), plain("A-1"), plain(17), plain(None)] == ["797.95", "A-1", "17", "-"]


@pytest.mark.parametrize(
    ("epistemic", "aleatoric", "words"),
    [
        (0.001, 0.002, "hardly any doubt"),
        (0.0, 0.08, "some doubt (32 of 100), mostly aleatoric: it lies on the border"),
        (0.12, 0.01, "considerable doubt (52 of 100), mostly epistemic: more examples like this would settle it"),
        (0.12, 0.12, "strong doubt (96 of 100), partly epistemic: more examples like this"),
    ],
)
def test_doubt_is_put_in_words(detector, epistemic, aleatoric, words):
    given = {"epistemic": epistemic, "aleatoric": aleatoric, "total": epistemic + aleatoric}
    found = replace(detector.assess(table(GOOD[:1])), **{name: np.array([value]) for name, value in given.items()})
    assert doubt_in_words(found, 0).startswith(words)


@pytest.mark.parametrize(
    ("verdict", "reason", "anomalous", "words"),
    [
        ("INLIER", "", False, "accepted as normal"),
        ("ANOMALY", "", True, "accepted as an anomaly"),
        ("REFER", "uncertain-aleatoric", True, "between good and bad; left alone, it would be an anomaly"),
        (
            "REFER",
            "uncertain-epistemic",
            True,
            "more examples like this would settle it; left alone, it would be an anomaly",
        ),
        ("REFER", "unfamiliar", True, "seen in training (novelty 3.21); left alone, it would be an anomaly"),
        ("REFER", "out_of_range", True, "far outside the training range; the score alone says an anomaly"),
        ("REFER", "bad_input", False, "because its data are bad; the score alone says normal"),
    ],
)
def test_a_verdict_is_put_in_words(detector, verdict, reason, anomalous, words):
    found = replace(
        detector.assess(table(GOOD[:1])),
        verdict=np.array([verdict]),
        reason=np.array([reason]),
        prediction=np.array([anomalous]),
        novelty=np.array([3.2125]),
    )
    assert verdict_in_words(found, 0).endswith(words)


@pytest.mark.parametrize(
    ("novelty", "words"), [(0.4, ""), (1.0, ""), (1.25, "(novelty 1.25)"), (4321.0, "(novelty 4,320)"), (np.nan, "")]
)
def test_novelty_is_put_in_words_where_it_is_above_1(detector, novelty, words):
    found = replace(detector.assess(table(GOOD[:1])), novelty=np.array([novelty]))
    told = novelty_in_words(found, 0)
    assert told.endswith(words)
    assert bool(told) == bool(words)
