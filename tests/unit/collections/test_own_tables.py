"""Own tables with labels, and ADBench's: read as they are, refused with the way out."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from indubio.errors import DataError
from indubio_lab.collections import adbench_names, adbench_table, own_files, own_table
from tests.labelled_files import arrow, labelled, write_folder


def test_csv_parquet_and_npz_give_the_same_rows(tmp_path):
    folder = write_folder(tmp_path / "parts")
    assert [path.name for path in own_files(folder)] == ["drill.csv", "lathe.parquet", "press.npz"]
    for seed, path in enumerate(own_files(folder)):
        table = own_table(path, label="defect", ignore=["serial"])
        rows, labels = labelled(seed)
        np.testing.assert_allclose(table.rows, rows)
        np.testing.assert_array_equal(table.anomalous, labels == 1)
        assert len(table.names) == 3


def test_other_labels_are_named(tmp_path):
    rows, labels = labelled(0)
    words = np.where(labels, "scrap", "ok")
    pa.csv.write_csv(arrow(rows, words), tmp_path / "a.csv")
    np.savez(tmp_path / "b.npz", X=rows, y=words)
    for path, label in ((tmp_path / "a.csv", "defect"), (tmp_path / "b.npz", None)):
        table = own_table(path, label=label, anomaly=["scrap"], ignore=["serial"])
        np.testing.assert_array_equal(table.anomalous, labels == 1)
    with pytest.raises(DataError, match=r"must be 0 and 1, but there are .*`anomaly`"):
        own_table(tmp_path / "b.npz", label=None)


@pytest.mark.parametrize("name", ["drill.csv", "lathe.parquet", "press.npz"])
def test_a_table_without_its_labels_says_what_it_has(name, tmp_path):
    path = write_folder(tmp_path) / name
    with pytest.raises(DataError, match=r'has no "broken"; it has .*"defect".*`label`'):
        own_table(path, label="broken")


def test_a_csv_needs_to_be_told_its_labels(tmp_path):
    with pytest.raises(DataError, match=r"which column holds the labels\? .*`label`"):
        own_table(write_folder(tmp_path) / "drill.csv", label=None)


def test_a_column_of_text_is_named_with_the_way_out(tmp_path):
    with pytest.raises(DataError, match=r"column 'serial' does not hold numbers.*`ignore`"):
        own_table(write_folder(tmp_path) / "drill.csv", label="defect")


def test_an_empty_folder_and_a_broken_file_are_refused(tmp_path):
    with pytest.raises(DataError, match="there is no table here"):
        own_files(tmp_path)
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(DataError, match=r"a\.npz: not an NPZ file"):
        own_table(tmp_path / "a.npz", label=None)


def test_pickled_arrays_are_not_executed(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.array([{}], dtype=object), y=[1])
    with pytest.raises(DataError, match="cannot be loaded when allow_pickle=False"):
        own_table(tmp_path / "a.npz", label=None)


def test_arrays_of_other_shapes_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 2)), y=[0, 1])
    with pytest.raises(DataError, match="with a label for each row"):
        own_table(tmp_path / "a.npz", label=None)


def test_adbench_is_what_the_folder_has_and_else_what_can_be_downloaded(tmp_path):
    assert "29_Pima" in adbench_names(tmp_path)
    (tmp_path / "adbench").mkdir()
    rows, labels = labelled(0)
    for name in ("10_b", "9_a"):
        np.savez(tmp_path / "adbench" / f"{name}.npz", X=rows, y=labels)
    assert adbench_names(tmp_path) == ["9_a", "10_b"]
    np.testing.assert_array_equal(adbench_table("10_b", folder=tmp_path).rows, rows)
