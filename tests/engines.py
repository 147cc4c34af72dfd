"""The engines there are, and a way to make everything run on one of them."""

from collections.abc import Callable
from functools import partial

import pytest

from indubio.autoencoders import Autoencoder
from indubio.engine import Engine
from indubio.engine.compiled import CompiledEngine
from indubio.engine.core import core
from indubio.engine.torch_engine import TorchEngine
from indubio.posteriors import draws, posterior, sghmc

ENGINES: dict[str, Callable[[Autoencoder], Engine]] = {"torch": TorchEngine}
CORE = core()  # None on a machine without a compiler, where torch is the only engine
if CORE is not None:
    ENGINES["core"] = partial(CompiledEngine, CORE)
# Those that draw noise from the streams they are given, call by call: what they drew can be drawn again.
REPLAYED = ["torch"]


def instruction_sets() -> list[str]:
    """What the core can be made to use here, the widest first; none where there is no core."""
    return [] if CORE is None else CORE.instruction_sets


def run_on(engine: str, patch: pytest.MonkeyPatch) -> None:
    """Train and score on this engine, whichever would be chosen."""
    for module in (draws, posterior, sghmc):
        patch.setattr(module, "engine_for", ENGINES[engine])
