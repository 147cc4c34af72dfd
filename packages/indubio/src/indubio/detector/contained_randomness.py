"""Randomness of other packages, contained: seeded on the way in, put back on the way out.

Some detectors draw from the global generators, or even reseed them (PyOD's networks do, when they are made). Inside
`own_randomness` they get generators in a known state, and afterwards everybody else finds theirs as they were. Global
state belongs to all threads, so those that use it here wait for each other.
"""

import os
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import RLock

import numpy as np

_one_at_a_time = RLock()
_HASH_SEED = "PYTHONHASHSEED"  # PyOD's networks set it


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """Global generators seeded for the time being: those of `random`, numpy and, where it is loaded, torch."""
    with _one_at_a_time, ExitStack() as kept:
        if "torch" in sys.modules:
            torch = sys.modules["torch"]
            devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
            kept.enter_context(torch.random.fork_rng(devices=devices))
        kept.callback(random.setstate, random.getstate())
        kept.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002 - the old generator is what is kept
        kept.callback(_set_hash_seed, os.environ.get(_HASH_SEED))
        seed_globals(seed)
        yield


def seed_globals(seed: int) -> None:
    """Seed them; only within `own_randomness`."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - detectors without `random_state` draw from this one
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def _set_hash_seed(value: str | None) -> None:
    if value is None:
        os.environ.pop(_HASH_SEED, None)
    else:
        os.environ[_HASH_SEED] = value
