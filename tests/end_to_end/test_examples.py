"""The examples run as they stand, and say what they should."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    shown = capsys.readouterr().out
    assert shown
    (made,) = tmp_path.iterdir()
    assert (made / "report.html").stat().st_size > 10_000
    if example.stem == "windows":
        assert "'current: " in shown
