"""A third party's package joins by entry points: its posterior is configured, fitted, saved, loaded and served."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from sklearn.datasets import load_breast_cancer

from tests.server_killing import free_port, started

PACKAGE = Path(__file__).parents[2] / "examples" / "own_package"
PROGRAM = [sys.executable, "-c", "from indubio.cli import main; main()"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Data, and the package as an installer lays it down: the module, and its entry points beside it."""
    folder = tmp_path_factory.mktemp("own")
    frame = load_breast_cancer(as_frame=True).frame
    benign = frame.pop("target") == 1
    frame[benign][:150].to_csv(folder / "good.csv", index=False)
    frame[~benign][:5].to_csv(folder / "new.csv", index=False)
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    site = folder / "site"
    information = site / f"own_package-{project['version']}.dist-info"
    information.mkdir(parents=True)
    shutil.copy(PACKAGE / "own_package.py", site)
    (information / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [line for group, names in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in names.items()))]
    (information / "entry_points.txt").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        yield folder


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run([*PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    (folder / "settings.toml").write_text('[posterior]\nkind = "noisy_weights"\nspread = 0.02\ndraws = 7\n')
    run(folder, "fit", "good.csv", "--out", "model", "--config", "settings.toml")
    return folder / "model"


def test_its_posterior_is_configured_fitted_saved_and_loaded_and_its_command_is_there(folder, model):
    assert run(folder, "draws", "model") == "NoisyWeights: 7 draws\n"
    settings = json.loads((model / "manifest.json").read_text())
    assert {"kind": "noisy_weights", "spread": 0.02, "draws": 7}.items() <= _posterior(settings).items()


def test_it_is_served_with_the_numbers_of_the_command(folder, model):
    run(folder, "assess", "new.csv", "--model", "model", "-o", "found.csv", "--full")
    with (folder / "found.csv").open() as file:
        expected = [float(row["probability"]) for row in csv.DictReader(file)]
    with (folder / "new.csv").open() as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    port = free_port()
    server = started(model, folder / "state", port)
    try:
        body = json.dumps({"rows": rows, "top": 0}).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/assess", body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = [result["probability"] for result in json.load(answer)["results"]]
    finally:
        server.terminate()
        server.wait(timeout=60)
    assert found == expected


def test_without_the_package_its_model_is_refused_by_name(folder, model, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"].partition(os.pathsep)[2])
    done = subprocess.run([*PROGRAM, "inspect", str(model)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "noisy_weights" in done.stderr


def _posterior(plain: object) -> dict[str, object]:
    """The settings of the posterior, wherever the manifest has them."""
    if isinstance(plain, dict):
        if isinstance(plain.get("posterior"), dict):
            return plain["posterior"]
        return next(filter(None, map(_posterior, plain.values())), {})
    return {}
