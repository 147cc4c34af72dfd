"""`indubio reproduce --quick` on the real data, as a user runs it."""

import os
import subprocess
import sys

import pytest

from indubio.cli import main
from indubio.errors import TrainingError


@pytest.fixture(scope="module")
def results(data_folder, tmp_path_factory):
    """The folder of a quick run, and what it told."""
    out = tmp_path_factory.mktemp("quick") / "results"
    program = "from indubio.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "reproduce", "odds", "--quick", "--data", data_folder, "--out", out],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return out, done


def again(data, out, monkeypatch) -> int:
    arguments = ["reproduce", "odds", "--quick", "--no-figures", "--data", str(data), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["indubio", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def test_a_quick_run_has_all_models_tables_and_figures(results):
    out, done = results
    page = (out / "odds-text.md").read_text()
    assert "| 24 | 24 | 2 |" in page  # 2 tasks, 6 models, 2 seeds
    assert "Complete." in page
    assert "24/24" in done.stderr
    assert done.stdout.split() == [str(out / "odds-text.md"), str(out / "report.html")]
    for name in ("gss-curves", "auroc-curves", "boxes", "training-size", "conversion-curves", "conversion", "plane"):
        assert all((out / "figures" / f"{name}.{kind}").stat().st_size > 5000 for kind in ("svg", "pdf", "png"))
    assert (out / "report.html").read_text().count("<img") == len(list((out / "figures").glob("*.png")))


def test_what_cannot_be_trained_is_named_on_the_page_and_ends_in_an_error(results, data_folder, monkeypatch, capsys):
    out, _ = results
    whole = (out / "odds-text.md").read_text()
    for left in (out / "odds/text/pima/vae").glob("1.*"):
        left.unlink()

    def failing(*_, **__):
        raise TrainingError("1 of 1 cells failed, first odds/text/pima/vae/1: training diverged")

    monkeypatch.setattr("indubio_lab.grids.run_grid", failing)
    assert again(data_folder, out, monkeypatch) == 1
    page = (out / "odds-text.md").read_text()
    assert "| 23 | 24 | 2 |" in page
    assert "Missing: odds/text/pima/vae/1." in page
    assert "training diverged" in capsys.readouterr().err

    monkeypatch.undo()
    assert again(data_folder, out, monkeypatch) == 0  # the one that is missing is run, and no other
    assert capsys.readouterr().err.count("24/24") == 1

    def tables(page: str) -> list[str]:
        """Without processor time: before the examples, and as the last column of one table."""
        lines = page.split("## Examples")[1].splitlines()
        start = next(place for place, line in enumerate(lines) if line.endswith("| CPU seconds of a fit |"))
        end = lines.index("", start)
        return lines[:start] + [line.rpartition(" | ")[0] for line in lines[start:end]] + lines[end:]

    assert tables((out / "odds-text.md").read_text()) == tables(whole)
