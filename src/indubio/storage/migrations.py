"""Format versions: how a model of an older one becomes a model of this one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What was read from a model's files, checked against its checksums, and not yet understood.

    Args:
        settings: of the detector, as plain data.
        draws: how many, and what each is made of.
        fitted: the fitted attributes; arrays are only named there.
        weights: the arrays of the draws.
        arrays: all others.
    """

    settings: dict[str, Any]
    draws: dict[str, Any]
    fitted: dict[str, Any]
    weights: dict[str, np.ndarray]
    arrays: dict[str, np.ndarray]


# Version -> what turns it into the next one. A new version comes with its line here and a golden model in the tests.
MIGRATIONS: dict[int, Callable[[Stored], Stored]] = {}


def migrated(stored: Stored, version: int) -> Stored:
    """The model as this version writes it."""
    for step in range(version, FORMAT):
        stored = MIGRATIONS[step](stored)
    return stored
