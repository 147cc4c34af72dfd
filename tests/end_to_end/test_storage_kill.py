"""kill -9 while a model is saved: the old model loads or the new one, always."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it forks")

ROOT = Path(__file__).parents[2]
WHOLE = 5  # manifest, card, two data files, lock


def seen(how: str, folder: Path) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.storage_killer", how, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_fifty_saves_over_a_model_killed_at_random_moments(tmp_path):
    found = seen("random", tmp_path)
    assert found["old"] + found["new"] == 50
    assert min(found["old"], found["new"], found["killed"]) > 0  # the moments were not all early or all late
    assert found["files"] == WHOLE  # the next save removed what the killed ones left


def test_a_save_over_a_model_killed_before_each_of_its_steps(tmp_path):
    found = seen("steps", tmp_path)
    assert found["killed"] > 10
    assert min(found["old"], found["new"]) > 0
    assert found["files"] == WHOLE


def test_a_first_save_killed_before_each_of_its_steps(tmp_path):
    found = seen("new", tmp_path)
    assert found["killed"] > 10
    assert min(found["none"], found["new"]) > 0
