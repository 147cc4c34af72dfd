"""Rules about the project itself."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import yaml
from jaxtyping import TypeCheckError

import indubio
from indubio.judging.uncertainty import aleatoric

ROOT = Path(__file__).parents[1]
PACKAGES = sorted((ROOT / "packages").glob("*/src/*/__init__.py"))
SOURCES = sorted(path for door in PACKAGES for path in door.parent.rglob("*.py"))
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def lines_with(pattern: str) -> list[str]:
    """Where in the sources the pattern stands: file:line."""
    return [
        f"{source.relative_to(ROOT)}:{number}"
        for source in SOURCES
        for number, line in enumerate(source.read_text().splitlines(), 1)
        if re.search(pattern, line)
    ]


def test_no_source_loads_what_could_execute_code():
    assert not lines_with(r"\b(import|from)\s+(pickle|joblib|dill|cloudpickle|marshal|shelve)\b|torch\.(load|save)\(")


def test_the_three_packages_have_one_version_and_ask_for_each_other_by_it():
    from importlib import import_module

    versions = {import_module(door.parent.name).__version__ for door in PACKAGES}
    assert versions == {indubio.__version__}
    for name in ("indubio-server", "indubio-lab"):
        project = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]
        assert f"indubio=={indubio.__version__}" in project["dependencies"]


def test_the_library_never_prints_on_its_own():
    assert not lines_with(r"(?<![\w.])(?<!def )print\(")


def test_importing_the_package_does_not_wait_for_torch():
    import subprocess
    import sys

    code = "import sys, indubio\nfor name in indubio.__all__: getattr(indubio, name)\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_public_name_can_be_imported():
    assert set(indubio.__all__) == set(indubio._HOME)
    for name in indubio.__all__:
        assert getattr(indubio, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Detecter'"):
        indubio.Detecter  # noqa: B018 - the access is the test


def test_every_file_that_the_documents_name_is_there():
    folders = [ROOT / name for name in ("packages", "tests", "docs", "benchmarks", "experiments", "examples")]
    files = [path for folder in folders for path in folder.rglob("*.*")] + list(ROOT.glob("*.*"))
    there = [f"/{path.relative_to(ROOT)}" for path in files]
    missing = [
        f"{document.relative_to(ROOT)}: {name}"
        for document in DOCUMENTS
        for name in re.findall(r"(?<![\w/.:<>*+-])[\w./+-]*\w\.(?:py|h|cpp|md)\b", document.read_text())
        if not any(path.endswith(f"/{name.removeprefix('../')}") for path in there)
    ]
    assert not missing


def test_the_shapes_in_signatures_are_checked_while_tests_run():
    assert aleatoric(np.zeros((2, 3))).shape == (3,)
    with pytest.raises(TypeCheckError, match=r"uncertainty\.aleatoric"):
        aleatoric(np.zeros((2, 3, 4)))


def test_a_room_is_imported_through_its_door_only(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    house = import_module("measure_house")
    past = [
        f"{package}/{file}: {module}"
        for (package, file), tree in house.sources().items()
        for module in house.behind_doors(package, file, tree)
    ]
    assert not past, "import it from the room, and add it to the room's __init__"


def test_every_name_of_the_reference_is_there():
    for page in sorted((ROOT / "docs/api").glob("*.md")):
        for module, name in re.findall(r"^::: ([\w.]+)\.(\w+)$", page.read_text(), re.MULTILINE):
            assert hasattr(import_module(module), name), f"{page.name}: {module}.{name}"


def test_every_version_in_the_constraints_is_pinned():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
    assert "torch==2.13.0" in lines


def test_the_version_is_the_same_wherever_it_must_be_repeated():
    version = indubio.__version__
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    assert len(PACKAGES) == 3
    assert all(f'__version__ = "{version}"' in door.read_text() for door in PACKAGES)
    assert recipe["context"]["version"] == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_conda_installs_what_pip_installs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    conda = {"matplotlib": "matplotlib-base", "pyarrow": "pyarrow-core"}  # without Qt, without Flight and the like
    wanted = {re.sub(r"^\w+", lambda name: conda.get(name[0], name[0]), one) for one in project["dependencies"]}
    python, *rest = recipe["requirements"]["run"]
    assert python == f"python {project['requires-python']}"
    assert {one.replace(" ", "") for one in rest} == wanted


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_what_the_public_host_reads_is_yaml(path):
    read = yaml.safe_load(path.read_text())
    if path.parent.name == "workflows":
        called = {target for job in read["jobs"].values() for step in job["steps"] for target in _targets(step)}
        there = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert called <= there


def _targets(step: dict[str, str]) -> list[str]:
    """What a step asks make for."""
    return re.findall(r"^make ([\w-]+)$", step.get("run", ""), re.MULTILINE)


def test_the_first_page_names_every_extra_for_users():
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
    extras = hatch["metadata"]["hooks"]["custom"]["extras"]
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "start.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(extras.keys() - {"bench", "dev", "docs"})
    brought = {name for one in extras["all"] for name in re.findall(r"\w+", one.partition("[")[2])}
    assert brought == extras.keys() - {"all", "bench", "dev", "docs", "lab", "server"}
