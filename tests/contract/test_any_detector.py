"""Every detector of another package keeps the same promises inside EnsembleDetector, on real data."""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from pyod.models.auto_encoder import AutoEncoder
from pyod.models.ecod import ECOD
from pyod.models.knn import KNN
from pyod.models.vae import VAE
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from indubio.detector import EnsembleDetector, distance_to_centre
from indubio.errors import PerformanceWarning
from indubio.evaluation import auroc
from indubio.judging import CONVERSIONS
from indubio_lab.collections import odds

DATA = load_breast_cancer()
BENIGN, MALIGNANT = DATA.data[DATA.target == 1], DATA.data[DATA.target == 0]
TRAINING, TEST = BENIGN[:60], np.concatenate([BENIGN[60:80], MALIGNANT[:20]])
LABELS = np.repeat([0, 1], 20)


@dataclass(frozen=True)
class Case:
    """A detector, and whether it scores a row differently in other company."""

    base: Callable[[], Any]
    settings: dict[str, Any] = field(default_factory=dict)
    company_matters: bool = False
    random: bool = False


CASES = {
    "isolation forest": Case(lambda: IsolationForest(n_estimators=20), random=True),
    "local outlier factor": Case(lambda: make_pipeline(StandardScaler(), LocalOutlierFactor(novelty=True))),
    "one-class SVM": Case(lambda: make_pipeline(StandardScaler(), OneClassSVM(nu=0.1))),
    "Gaussian mixture": Case(lambda: GaussianMixture(reg_covar=1e-3)),
    "k-means": Case(
        lambda: make_pipeline(StandardScaler(), KMeans(n_clusters=4, n_init=1)),
        {"scored_by": distance_to_centre},
        random=True,
    ),
    "PyOD's ECOD": Case(ECOD, company_matters=True),
    "PyOD's KNN": Case(KNN),
    "PyOD's autoencoder": Case(lambda: AutoEncoder(epoch_num=5, verbose=0), random=True),
    "PyOD's VAE": Case(lambda: VAE(epoch_num=5, verbose=0), company_matters=True, random=True),
}


def made(case: Case, **settings: Any) -> EnsembleDetector:
    return EnsembleDetector(case.base(), **({"members": 2} | case.settings | settings))


@pytest.fixture(scope="module", params=CASES)
def case(request) -> Case:
    return CASES[request.param]


@pytest.fixture(scope="module")
def detector(case) -> EnsembleDetector:
    if case.company_matters:
        with pytest.warns(PerformanceWarning, match="in other company"):
            return made(case).fit(TRAINING)
    return made(case).fit(TRAINING)


def test_it_finds_out_whether_a_row_must_be_scored_alone(case, detector):
    assert detector.one_by_one_ == case.company_matters


def test_it_finds_anomalies_and_says_how_sure_it_is(case, detector):
    found = detector.assess(TEST)
    assert auroc(LABELS, found.nll) > 0.85
    assert auroc(LABELS, found.probability) > 0.85
    np.testing.assert_allclose(found.total, found.epistemic + found.aleatoric)
    assert found.epistemic.max() > 0


def test_high_scores_mean_anomalous_whatever_the_sign_of_the_package(detector):
    scores = detector.nll(TEST)
    assert (scores[:, LABELS == 1].mean(axis=1) > scores[:, LABELS == 0].mean(axis=1)).all()


def test_an_assessment_does_not_depend_on_the_company(detector):
    together = detector.assess(TEST).to_dict()
    alone = [detector.assess(TEST[i : i + 1]).to_dict() for i in range(0, 40, 6)]
    for name, values in together.items():
        one_by_one = np.concatenate([one[name] for one in alone])
        if values.dtype.kind == "f":  # another package's scores may change in their last digits
            np.testing.assert_allclose(one_by_one, values[::6], rtol=1e-5)
        else:
            np.testing.assert_array_equal(one_by_one, values[::6])


def test_the_same_seed_gives_the_same_scores_and_another_seed_others(case, detector):
    again, other = (made(case, one_by_one=detector.one_by_one_, seed=seed).fit(TRAINING) for seed in (0, 1))
    np.testing.assert_array_equal(again.nll(TEST), detector.nll(TEST))
    assert not np.array_equal(other.nll(TEST), detector.nll(TEST))


def test_members_differ_by_their_seeds_alone_only_where_the_detector_is_random(case):
    same_rows = made(case, bootstrap=False, one_by_one=case.company_matters).fit(TRAINING)
    scores = same_rows.nll(TEST[:5])
    assert (not np.array_equal(scores[0], scores[1])) == case.random


def global_state() -> tuple[Any, ...]:
    of_numpy = np.random.get_state()[1].tolist()  # noqa: NPY002 - the generator that must be left alone
    return random.getstate(), of_numpy, torch.get_rng_state().tolist(), os.environ.get("PYTHONHASHSEED")


def test_global_random_state_and_the_base_are_left_as_they_were(case):
    base = case.base()
    before = {name: str(value) for name, value in base.get_params().items()}
    state = global_state()
    EnsembleDetector(base, members=2, one_by_one=False, **case.settings).fit(TRAINING).assess(TEST[:3])
    assert global_state() == state
    assert {name: str(value) for name, value in base.get_params().items()} == before
    assert not hasattr(base, "decision_scores_")


@pytest.mark.filterwarnings("ignore:before you rely")  # on training scores some call too many anomalies
@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("name", ["isolation forest", "one-class SVM", "Gaussian mixture"])  # 0 to 1, negative, both
def test_every_conversion_works_on_scores_of_any_sign(name, conversion):
    found = made(CASES[name], conversion=CONVERSIONS[conversion]()).fit(TRAINING).assess(TEST)
    assert auroc(LABELS, found.probability) > 0.85
    assert found.prediction[LABELS == 1].mean() > 0.5


@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")  # of few rows
@parametrize_with_checks(
    [
        EnsembleDetector(IsolationForest(n_estimators=5), members=2, one_by_one=False),
        EnsembleDetector(OneClassSVM(), members=2, bootstrap="subsample"),
    ]
)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:before you rely")  # ionosphere has a constant column
@pytest.mark.parametrize("bootstrap", [True, "subsample"])
@pytest.mark.parametrize("name", ["isolation forest", "local outlier factor", "PyOD's KNN"])
def test_refits_do_as_well_as_the_detector_itself_on_public_tables(name, bootstrap, data_folder):
    for task in ("lympho", "ionosphere"):
        given = odds(task, folder=data_folder)
        plain = made(CASES[name], members=1, bootstrap=False).fit(given.train).assess(given.test)
        refits = made(CASES[name], bootstrap=bootstrap).fit(given.train).assess(given.test)
        assert auroc(given.labels, refits.nll) > auroc(given.labels, plain.nll) - 0.05
