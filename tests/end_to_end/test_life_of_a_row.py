"""The way of a row is short and goes one way; the page that tells it is made from a real run."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from indubio.engine.compiled import compiled_engine
from indubio.networks import Autoencoder, Dense, GaussianLikelihood

SCRIPT = Path(__file__).parents[2] / "docs" / "trace_row.py"
MOST_CHANGES, MOST_FUNCTIONS, MOST_OF_THE_SERVER = 25, 90, 200

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
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def traces(script: ModuleType) -> tuple[Any, Any]:
    return script.traces()


def test_a_row_changes_rooms_seldom_and_meets_few_functions(traces: tuple[Any, Any]) -> None:
    assessed, _ = traces
    assert {"pipeline", "posteriors", "engine", "decision"} <= {function.room for function in assessed.functions}
    assert len(assessed.changes) <= MOST_CHANGES
    assert len(assessed.functions) <= MOST_FUNCTIONS


def test_no_call_goes_back_to_the_room_it_came_from(traces: tuple[Any, Any]) -> None:
    assert not traces[0].back


def test_a_request_meets_few_functions(traces: tuple[Any, Any]) -> None:
    _, asked = traces
    assert any(function.name == "Decider.assessment" for function in asked.functions)
    assert len(asked.functions) <= MOST_OF_THE_SERVER


def test_the_page_is_what_a_run_gives(script: ModuleType, traces: tuple[Any, Any]) -> None:
    said = script.without_the_server(script.PAGE.read_text())
    assert said == script.without_the_server(script.page(*traces)), "run `make life`"
