"""Labels beside training examples: what is known to be bad is left out, and said."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import IsolationForest

from indubio import Detector, ExampleStream
from indubio.data import read_table
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError, DataError, DataWarning, ShapeError

ROWS = np.random.default_rng(0).normal(size=(100, 3))
BAD = np.arange(100) < 5


@pytest.mark.parametrize("labels", [BAD, BAD.astype(int), np.where(BAD, -1, 1), BAD.astype(float).tolist()])
@pytest.mark.parametrize("detector", [Detector(), EnsembleDetector(IsolationForest(n_estimators=5), members=2)])
def test_rows_that_are_known_to_be_bad_are_left_out_and_said(detector, labels):
    with pytest.warns(DataWarning, match="left out 5 of 100 rows"):
        fitted = detector.fit(ROWS, labels)
    np.testing.assert_array_equal(fitted.nll(ROWS), detector.fit(ROWS[~BAD]).nll(ROWS))


def test_the_label_of_every_row_comes_back():
    rows = np.where(BAD[:, None], ROWS + 20, ROWS)
    with pytest.warns(DataWarning, match="left out 5"):
        labels = Detector().fit_predict(rows, BAD)
    assert labels.shape == (100,)
    assert (labels[BAD] == -1).all()


@pytest.mark.parametrize("labels", [np.zeros(100), np.ones(100)])  # 1 alone is scikit-learn's inlier
def test_labels_of_good_rows_alone_change_nothing(labels):
    np.testing.assert_array_equal(Detector().fit(ROWS, labels).nll(ROWS), Detector().fit(ROWS).nll(ROWS))


def test_groups_and_tables_go_with_their_rows():
    groups = np.where(np.arange(100) % 2, "A", "B")
    table = read_table(pd.DataFrame(ROWS, columns=list("abc")))
    with pytest.warns(DataWarning, match="left out 5"):
        fitted = Detector(smallest_group=20).fit(table, BAD, groups=groups)
    assert fitted.n_training_ == 95


def test_what_is_no_label_is_said_to_be_unused():
    with pytest.warns(DataWarning, match="`y` is not used"):
        Detector().fit(ROWS, np.arange(100))


def test_labels_that_leave_nothing_or_do_not_fit_are_refused(tmp_path):
    with pytest.raises(DataError, match="all 100 rows anomalies"):
        Detector().fit(ROWS, np.full(100, -1))
    with pytest.raises(ShapeError, match="each of the 100 examples"):
        Detector().fit(ROWS, BAD[:50])
    pd.DataFrame(ROWS).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ConfigError, match="label column"):
        Detector().fit(ExampleStream(tmp_path / "rows.csv"), BAD)
