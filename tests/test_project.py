"""Rules about the project itself."""

import re
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from indubio.uncertainty import aleatoric

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
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


def test_the_library_never_prints_on_its_own():
    assert not lines_with(r"(?<![\w.])print\(")


def test_importing_the_package_does_not_wait_for_torch():
    import subprocess
    import sys

    code = "import sys, indubio\nfor name in indubio.__all__: getattr(indubio, name)\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_public_name_can_be_imported():
    import indubio

    assert set(indubio.__all__) == set(indubio._HOME)
    for name in indubio.__all__:
        assert getattr(indubio, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Detecter'"):
        indubio.Detecter  # noqa: B018 - the access is the test


def test_every_file_that_the_documents_name_is_there():
    folders = [ROOT / name for name in ("src", "tests", "docs", "benchmarks", "experiments", "examples")]
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


def test_every_version_in_the_constraints_is_pinned():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
    assert "torch==2.13.0" in lines
