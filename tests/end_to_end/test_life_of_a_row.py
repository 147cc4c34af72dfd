"""The page that tells of a row's way is made from a real run, and still true."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from indubio.networks import Autoencoder, Dense, GaussianLikelihood
from indubio.networks.engine.compiled import compiled_engine

SCRIPT = Path(__file__).parents[2] / "docs" / "trace_row.py"

pytestmark = pytest.mark.skipif(
    compiled_engine(Autoencoder(Dense().build((4,)), GaussianLikelihood())) is None,
    reason="the page tells of the compiled core, which is not built here",
)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("trace_row", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    written = tmp_path_factory.mktemp("life") / "page.md"
    subprocess.run([sys.executable, SCRIPT, written], check=True, capture_output=True)
    return written.read_text()


def test_a_row_visits_the_rooms_that_the_page_names(script: ModuleType, page: str) -> None:
    rooms = script.rooms_on(page)
    assert {"posteriors", "networks", "decision"} <= set(rooms)
    assert script.rooms_on(script.PAGE.read_text()) == rooms, "run `make life`"


def test_a_generator_that_goes_on_is_a_visit_of_its_own(script: ModuleType) -> None:
    reads = script.Function("io", "indubio/io/a.py", "Source.batches")
    asks = script.Function("cli", "indubio/cli/b.py", "command")
    writes = script.Function("io", "indubio/io/a.py", "Sink.write")
    before = [("call", asks, asks)]
    row = [("call", reads, reads), ("end", reads, asks), ("call", reads, reads), ("end", reads, asks)]
    written = [("call", writes, writes), ("end", writes, asks)]
    way = script.Trace([*before, *row, *written, ("end", asks, None)]).way_of_the_row()
    assert [room for room, _ in way.visits()] == ["io", "cli", "io", "cli", "io"]
    assert way.functions == [reads, writes]
