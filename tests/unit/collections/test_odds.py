"""ODDS files that are not what they should be."""

import numpy as np
import pytest
from scipy.io import savemat

from indubio.errors import DataError
from indubio_lab.collections import odds


@pytest.fixture
def place(tmp_path):
    (tmp_path / "odds").mkdir()
    return tmp_path / "odds" / "pima.mat"


def test_a_table_of_ones_own_in_the_format_is_read(place, tmp_path):
    savemat(place, {"X": np.arange(80.0).reshape(10, 8), "y": np.array([[0], [1]] * 5, dtype=np.uint8)})
    found = odds("pima", folder=tmp_path)
    assert (len(found.train), len(found.test_inliers), len(found.test_anomalies)) == (4, 1, 5)
    assert found.units[2] == "mm Hg"
    np.testing.assert_array_equal(found.test_anomalies[:, 0], np.arange(8.0, 80, 16))


def test_a_file_of_version_7_3_is_refused_with_the_way_out(place, tmp_path):
    place.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(400))
    with pytest.raises(DataError, match=r"pima\.mat: a MATLAB 7\.3 file.*Save it as version 7"):
        odds("pima", folder=tmp_path)


def test_a_file_without_labels_is_refused(place, tmp_path):
    savemat(place, {"X": np.zeros((10, 8))})
    with pytest.raises(DataError, match=r"pima\.mat: X and y are needed"):
        odds("pima", folder=tmp_path)


def test_a_file_with_other_columns_is_refused(place, tmp_path):
    savemat(place, {"X": np.zeros((10, 7)), "y": np.zeros((10, 1))})
    with pytest.raises(DataError, match=r"X must be \(rows, 8\)"):
        odds("pima", folder=tmp_path)


@pytest.mark.parametrize("content", [b"", b"<html>sign in</html>", b"MATLAB 5.0 MAT-file".ljust(200, b"\xff")])
def test_what_is_no_matlab_file_is_refused(content, place, tmp_path):
    place.write_bytes(content)
    with pytest.raises(DataError, match=r"pima\.mat: not a MATLAB file that can be read"):
        odds("pima", folder=tmp_path)
