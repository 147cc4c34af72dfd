"""Format versions: how a model of an older one becomes a model of this one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

FORMAT = 3


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


def with_calibration(stored: Stored) -> Stored:
    """1 -> 2: all that scores are compared with was of the training examples, whose mean scores were not kept."""
    names = {"largest_training_nll_": "largest_reference_nll_", "training_uncertainty_": "reference_uncertainty_"}
    fitted = {names.get(name, name): value for name, value in stored.fitted.items()}
    arrays = {
        ".".join([names.get(first, first), *rest]): values
        for (first, *rest), values in ((path.split("."), values) for path, values in stored.arrays.items())
    }
    return replace(
        stored,
        settings=stored.settings | {"calibration": {"kind": "train"}},
        fitted=fitted | {"n_reference_": fitted.get("n_training_"), "reference_": None},
        arrays=arrays,
    )


def without_spectra(stored: Stored) -> Stored:
    """2 -> 3: windows were taken as they are."""
    return replace(stored, settings=stored.settings | {"spectra": False})


# Version -> what turns it into the next one. A new version comes with its line here and a golden model in the tests.
MIGRATIONS: dict[int, Callable[[Stored], Stored]] = {1: with_calibration, 2: without_spectra}


def migrated(stored: Stored, version: int) -> Stored:
    """The model as this version writes it."""
    for step in range(version, FORMAT):
        stored = MIGRATIONS[step](stored)
    return stored
