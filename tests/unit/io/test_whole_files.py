"""A file is whole or not there."""

import os
import stat

import pytest

from indubio.errors import OutputError
from indubio.io import whole_file


def test_nothing_is_there_before_the_end(tmp_path):
    with whole_file(tmp_path / "x") as stream:
        stream.write(b"half")
        assert not (tmp_path / "x").exists()
    assert (tmp_path / "x").read_bytes() == b"half"


def test_a_file_may_be_read_by_whom_the_system_says(tmp_path):
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "x"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


@pytest.mark.parametrize("place", [".", "folder", "no/such/folder"])
def test_a_place_that_cannot_be_written_is_refused_and_nothing_is_left(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="cannot be written"), whole_file(place) as file:
        file.write(b"x")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]
