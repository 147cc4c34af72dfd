"""The method on real data, from raw rows to the paper's numbers."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from indubio import AnchoredEnsemble, Dense, Detector, Ecdf, Training
from indubio.evaluation import accuracy_rejection_curve
from indubio.judging import PAPER_CONVERSIONS
from indubio.judging.uncertainty import total
from indubio.prepare import MinMax
from indubio_lab.collections import odds


def test_cardio_reaches_what_the_prototype_reached(data_folder):
    """ODDS cardio, BAE ensemble, mean of 3 seeds: AUROC of the mean NLL and W^GSS with the best conversion."""
    aurocs, best = [], []
    for seed in range(3):
        task = odds("cardio", seed=seed, folder=data_folder)
        detector = Detector(
            posterior=AnchoredEnsemble(members=10),
            architecture=Dense(layer_norm=False, bias=False, skips=True),
            training=Training(epochs=100, batches=3, learning_rate=0.02),
            scaling=MinMax(clip=True),
            seed=seed,
        ).fit(task.train)
        training_nll, nll = detector.nll(task.train), detector.nll(task.test)
        aurocs.append(roc_auc_score(task.labels, nll.mean(0)))
        weighted = []
        for conversion in PAPER_CONVERSIONS.values():
            for scaled in (False, True):
                p = conversion(scaled=scaled).fit(training_nll).probability(nll)
                curve = accuracy_rejection_curve(task.labels, p.mean(0) >= 0.5, total(p))
                weighted.append(curve.weighted_average)
        best.append(max(weighted))
    assert np.mean(aurocs) >= 0.95
    assert np.mean(best) >= 0.94


@pytest.mark.parametrize("posterior_seed", [0, 1])
def test_uncertain_verdicts_on_cardio_are_more_often_wrong(data_folder, posterior_seed):
    task = odds("cardio", seed=posterior_seed, folder=data_folder)
    detector = Detector(posterior=AnchoredEnsemble(), conversion=Ecdf(), seed=posterior_seed)
    found = detector.fit(task.train).assess(task.test)
    wrong = found.prediction != task.labels
    assert found.total[wrong].mean() > 2 * found.total[~wrong].mean()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_uncertainty_of_the_default_ranks_wrong_verdicts_on_cardio_before_right_ones(data_folder, seed):
    task = odds("cardio", seed=seed, folder=data_folder)
    found = Detector(seed=seed).fit(task.train).assess(task.test)
    assert roc_auc_score(found.prediction != task.labels, found.total) >= 0.8
