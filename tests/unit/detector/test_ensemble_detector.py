"""EnsembleDetector: what it refits, what it takes for a score, and what is refused."""

import numpy as np
import pytest
from pyod.models.knn import KNN
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from indubio import ExampleStream, NoReferral, UncertaintyThreshold, Verdict, save
from indubio.detector import EnsembleDetector, distance_to_centre
from indubio.errors import ConfigError, DataError, DataWarning, ModelFileError, ShapeError
from indubio.export import export_onnx
from indubio.judging import CDF_CONVERSIONS, Ecdf, Gaussian, Odds
from indubio.prepare import MinMax
from indubio.report import Subject, html_report
from indubio.report.model_facts import model_rows
from tests.small_examples import LABELS, NAMES, ROWS, SIGNALS, TRAINING, table


class Remembers(BaseEstimator):
    """Keeps what it was fitted on; the score is the distance from the mean."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        self.rows_ = X
        return self

    def score_samples(self, X):
        return -np.abs(X - self.rows_.mean(axis=0)).sum(axis=1)


def distance(rows: np.ndarray) -> np.ndarray:
    return np.abs(rows - TRAINING.mean(axis=0)).sum(axis=1)


def plain(base, **settings) -> EnsembleDetector:
    return EnsembleDetector(base, members=1, bootstrap=False, **settings)


# ----- what members are fitted on


def places(detector: EnsembleDetector) -> list[np.ndarray]:
    place = {row.tobytes(): index for index, row in enumerate(TRAINING)}
    return [np.array([place[row.tobytes()] for row in member.rows_]) for member in detector.members_]


def test_a_bootstrap_sample_has_as_many_rows_some_of_them_twice():
    samples = places(EnsembleDetector(Remembers(), members=20).fit(TRAINING))
    distinct = [len(np.unique(sample)) / 300 for sample in samples]
    assert all(len(sample) == 300 for sample in samples)
    assert np.mean(distinct) == pytest.approx(1 - 1 / np.e, abs=0.02)


def test_a_subsample_has_a_share_of_the_rows_none_of_them_twice():
    samples = places(EnsembleDetector(Remembers(), bootstrap="subsample", share=0.25).fit(TRAINING))
    assert all(len(np.unique(sample)) == len(sample) == 75 for sample in samples)
    assert not np.array_equal(samples[0], samples[1])


def test_without_resampling_every_member_has_all_rows():
    samples = places(EnsembleDetector(Remembers(), members=2, bootstrap=False).fit(TRAINING))
    np.testing.assert_array_equal(samples, [np.arange(300)] * 2)


def test_every_member_has_its_own_seed_also_inside_a_pipeline():
    members = EnsembleDetector(make_pipeline(StandardScaler(), Remembers(random_state=7))).fit(TRAINING).members_
    assert len({member[-1].random_state for member in members}) == 10


def test_more_members_leave_the_first_ones_as_they_are():
    few, many = (EnsembleDetector(Remembers(), members=members).fit(TRAINING) for members in (2, 4))
    np.testing.assert_array_equal(many.nll(ROWS)[:2], few.nll(ROWS))


# ----- the detector itself


def test_one_member_on_all_rows_is_the_detector_itself():
    forest = IsolationForest(n_estimators=20, random_state=7)
    np.testing.assert_array_equal(plain(forest).fit(TRAINING).nll(ROWS), [-forest.fit(TRAINING).score_samples(ROWS)])


def test_its_probability_is_pyods_own_from_the_scores_that_pyod_keeps_of_the_training_rows():
    found = plain(KNN(), conversion=Gaussian()).fit(TRAINING).assess(ROWS)
    unified = KNN().fit(TRAINING).predict_proba(ROWS, method="unify")
    np.testing.assert_allclose(found.probability, unified[:, 1], atol=1e-12)


@pytest.mark.filterwarnings("ignore:before you rely")  # half of all rows have p >= 1/2, unscaled
def test_a_neighbour_detector_is_calibrated_on_scores_without_the_row_itself():
    factor = LocalOutlierFactor(novelty=True).fit(TRAINING)
    kept = plain(make_pipeline(LocalOutlierFactor(novelty=True)), conversion=Ecdf(scaled=False)).fit(TRAINING)
    expected = np.mean(-factor.negative_outlier_factor_[:, None] <= -factor.score_samples(ROWS), axis=0)
    np.testing.assert_allclose(kept.assess(ROWS).probability, expected, atol=1.01 / 300)  # some nearly tie


# ----- scores of any kind


@pytest.mark.parametrize(
    "conversion",
    [*(kind(scaled=scaled) for kind in CDF_CONVERSIONS.values() for scaled in (True, False)), Odds()],
    ids=str,
)
@pytest.mark.parametrize(("factor", "shift"), [(1, -2.5), (-1, 0), (1, 1e4), (1e-6, 0), (1e6, -1e9)])
@pytest.mark.filterwarnings("ignore:before you rely")  # some conversions call a third of the rows anomalies
def test_only_the_order_and_the_spread_of_scores_matter(conversion, factor, shift):
    sign = np.sign(factor)

    def moved(rows):
        return abs(factor) * (sign * distance(rows)) + shift

    def expected(rows):
        return sign * distance(rows) + 100

    settings = {"conversion": conversion}
    one, other = (plain(score, **settings).fit(TRAINING).assess(ROWS).to_dict() for score in (moved, expected))
    for name in ("probability", "total", "exceed"):
        np.testing.assert_allclose(one[name], other[name], atol=1e-9)
    np.testing.assert_array_equal(one["verdict"], other["verdict"])


def test_a_conversion_that_calls_half_of_its_own_rows_anomalies_is_warned_of():
    with pytest.warns(DataWarning, match="of its 300 reference examples anomalies"):
        detector = plain(distance, conversion=Ecdf(scaled=False)).fit(TRAINING)
    assert [finding.kind for finding in detector.findings_] == ["own anomalies"]
    assert plain(distance).fit(TRAINING).findings_ == ()


@pytest.mark.filterwarnings("ignore:before you rely")  # half of all rows have p >= 1/2, unscaled
def test_scores_that_differ_by_rounding_alone_tie_wherever_zero_is():
    rng = np.random.default_rng(0)
    scores = distance(TRAINING) - np.median(distance(TRAINING))  # they pass through 0

    def noisy(rows):
        return scores[: len(rows)] + 1e-9 * rng.standard_normal(len(rows))

    detector = plain(noisy, conversion=Ecdf(scaled=False), one_by_one=False).fit(TRAINING)
    more = detector.assess(TRAINING).probability - np.mean(scores[:, None] <= scores, axis=0)
    assert more.min() > -1e-9  # every score reaches itself
    assert np.mean(more > 1e-9) < 0.02  # and hardly any reaches its neighbour


@pytest.mark.parametrize("constant", [0.0, 3.0, -2.0])
def test_scores_that_are_all_equal_are_normal_and_higher_ones_anomalous(constant):
    def flat(rows):
        return constant + 5.0 * (rows[:, 0] > 50)

    detector = plain(flat).fit(TRAINING)
    assert not detector.assess(TRAINING).prediction.any()
    assert detector.assess(TRAINING + 100).prediction.all()


def test_a_function_may_be_an_ensemble_itself():
    detector = plain(lambda rows: np.stack([distance(rows), rows[:, 0], 2 * distance(rows)])).fit(TRAINING)
    assert detector.nll(ROWS).shape == (3, len(ROWS))
    found = detector.assess(ROWS)
    assert found.epistemic.max() > 0
    np.testing.assert_allclose(found.var_nll, detector.nll(ROWS).var(axis=0))


def test_the_distance_to_the_nearest_centre_is_the_score_of_a_clustering():
    clusters = KMeans(3, random_state=0, n_init=1).fit(TRAINING)
    nearest = [min(np.linalg.norm(row - centre) for centre in clusters.cluster_centers_) for row in ROWS]
    np.testing.assert_allclose(distance_to_centre(clusters, ROWS), nearest)


class Foreign:
    """Of no package at all: it fits, and that is it."""

    def fit(self, rows):
        self.middle = rows.mean(axis=0)


def test_a_model_of_no_package_needs_no_more_than_fit_and_a_function_that_scores():
    model = Foreign()
    detector = EnsembleDetector(model, members=3, scored_by=lambda fitted, rows: ((rows - fitted.middle) ** 2).sum(1))
    assert detector.fit(TRAINING).assess(ROWS).prediction[LABELS].all()
    assert not hasattr(model, "middle")


# ----- what comes in


def test_tables_with_names_ids_and_missing_values_are_taken():
    rows = ROWS.copy()
    rows[2, 1] = np.nan
    detector = EnsembleDetector(IsolationForest(n_estimators=10), members=2, missing="refer").fit(table(TRAINING))
    found = detector.assess(table(rows, ids={"serial": [f"p{i}" for i in range(len(rows))]}))
    assert (found.verdict[2], found.reason[2], found.notes[2]) == (Verdict.REFER, "bad_input", "missing: pressure")
    assert found.to_pandas()["serial"][0] == "p0"
    assert tuple(detector.feature_names_in_) == NAMES


def test_windows_reach_the_base_as_rows():
    detector = EnsembleDetector(Remembers(), members=2).fit(SIGNALS)
    assert detector.members_[0].rows_.shape == (40, 60)
    assert detector.assess(SIGNALS + 5).prediction.all()


def test_values_are_scaled_when_asked():
    rows = EnsembleDetector(Remembers(), bootstrap=False, members=1, scaling=MinMax()).fit(TRAINING).members_[0].rows_
    np.testing.assert_array_equal([rows.min(), rows.max()], [0, 1])


def test_many_rows_are_scored_in_blocks_with_the_same_result(monkeypatch):
    detector = EnsembleDetector(Remembers(), members=2).fit(TRAINING)
    whole = detector.nll(ROWS)
    monkeypatch.setattr("indubio.detector.member_scorer.SCORES_AT_ONCE", 14)
    np.testing.assert_array_equal(detector.nll(ROWS), whole)


# ----- settings


def test_settings_inside_the_base_and_inside_the_settings_can_be_changed():
    detector = EnsembleDetector(IsolationForest(), conversion=Ecdf())
    detector.set_params(base__n_estimators=5, conversion__scaled=False, referral__share=0.2)
    assert detector.get_params()["base__n_estimators"] == 5
    assert (detector.conversion.scaled, detector.referral.share) == (False, 0.2)
    assert clone(detector).base.n_estimators == 5


def test_the_rule_can_change_without_fitting_again():
    detector = EnsembleDetector(Remembers(), members=5).fit(TRAINING).refer_by(UncertaintyThreshold(threshold=0.0))
    assert (detector.assess(ROWS).verdict == Verdict.REFER).any()
    assert not (detector.refer_by(NoReferral()).assess(ROWS).verdict == Verdict.REFER).any()


@pytest.mark.parametrize(
    ("base", "settings", "message"),
    [
        (LocalOutlierFactor(), {}, r"LocalOutlierFactor\(novelty=True\)"),
        (make_pipeline(StandardScaler(), LocalOutlierFactor()), {}, r"LocalOutlierFactor\(novelty=True\)"),
        (IsolationForest, {}, r"not a class: make it IsolationForest\(\)"),
        (KMeans(), {}, "KMeans has no score that is known"),
        (StandardScaler(), {}, "`scored_by`, a function of the fitted model"),
        (object(), {"members": 1, "bootstrap": False}, "object has no score that is known"),
        (distance, {}, "set `members=1` and `bootstrap=False`"),
        (Remembers(), {"members": 0}, "`members` must be at least 1"),
        (Remembers(), {"bootstrap": "twice"}, "`bootstrap` must be"),
        (Remembers(), {"share": 1.5}, "`share` must be less than 1"),
        (Remembers(), {"scored_by": "distance"}, "`scored_by` must be a function"),
        (Remembers(), {"missing": "mean"}, "`missing` must be one of"),
    ],
)
def test_bad_settings_are_refused_with_the_way_out(base, settings, message):
    with pytest.raises(ConfigError, match=message):
        EnsembleDetector(base, **settings).fit(TRAINING)


@pytest.mark.parametrize(
    ("score", "error", "message"),
    [
        (lambda rows: rows, ShapeError, r"shape \(\d+,\) or \(draws, \d+\), got \(\d+, 4\)"),
        (lambda rows: np.full(len(rows), np.nan), DataError, "NaN or minus infinity"),
        (lambda rows: ["high"] * len(rows), DataError, "refused the rows: could not convert"),
    ],
)
def test_scores_that_are_none_are_refused(score, error, message):
    with pytest.raises(error, match=message):
        plain(score).fit(TRAINING)


def test_what_the_base_refuses_is_said_to_be_its_refusal():
    with pytest.raises(DataError, match=r"GaussianMixture refused the training rows: .*n_samples = 300"):
        EnsembleDetector(GaussianMixture(n_components=400)).fit(TRAINING)


# ----- what it cannot do


def test_it_is_not_stored_because_only_pickle_could(tmp_path):
    detector = plain(distance).fit(TRAINING)
    with pytest.raises(ModelFileError, match=r"only pickle could store.*the same seed fits the same model"):
        save(detector, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_it_has_no_contributions_and_no_export(tmp_path):
    detector = plain(distance).fit(TRAINING)
    with pytest.raises(ConfigError, match="EnsembleDetector has no contributions"):
        detector.contributions(ROWS)
    with pytest.raises(ConfigError, match="EnsembleDetector cannot be exported"):
        export_onnx(detector, tmp_path / "model.onnx")


# ----- the report


def test_its_report_names_the_base_and_lists_the_features_furthest_out():
    detector = EnsembleDetector(IsolationForest(n_estimators=10), members=3).fit(table(TRAINING))
    page = html_report(detector, table(ROWS, labels=LABELS))
    assert "IsolationForest with 3 draws, trained on 300 good examples of 4 features." in page
    assert "3; each refitted on a bootstrap sample" in page
    assert "does not say what made a score" in page
    assert page.count("<article") == 12
    assert "<th>expected</th>" not in page


def test_windows_have_a_report_too():
    page = html_report(plain(Remembers()).fit(SIGNALS), SIGNALS + np.linspace(0, 2, 40)[:, None, None])
    assert "fitted on all training rows" in page
    assert "60 time steps" not in page  # the base gets rows of 60 values, the reader windows of 30 steps


def test_a_function_is_named_in_its_report():
    rows = dict(model_rows(Subject.of(plain(distance).fit(TRAINING), ROWS, None, None)))
    assert (rows["Detector"], rows["Draws"]) == ("distance", "1; not refitted")


def test_a_stream_that_the_buffer_holds_is_fitted_on_and_a_larger_one_is_refused():
    examples = table(TRAINING)
    in_memory, streamed = (
        EnsembleDetector(IsolationForest(n_estimators=5), members=2).fit(X)
        for X in (examples, ExampleStream(examples.features))
    )
    np.testing.assert_array_equal(streamed.nll(table(ROWS)), in_memory.nll(table(ROWS)))
    with pytest.raises(ConfigError, match="EnsembleDetector is fitted on examples in memory"):
        EnsembleDetector(IsolationForest(), members=2).fit(ExampleStream(examples.features, buffer=3))
