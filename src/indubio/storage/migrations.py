"""Format versions: how a model of an older one becomes a model of this one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

FORMAT = 4
MOST_RANKS = 100_000  # that summaries of format 3 and before stood for


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


def with_whole_uncertainties(stored: Stored) -> Stored:
    """3 -> 4: alarms and inliers were referred alike, and each uncertainty was kept by its ranks."""
    referral = stored.settings.get("referral")
    if isinstance(referral, dict) and referral.get("kind") in ("budget", "at_most"):
        stored = replace(stored, settings=stored.settings | {"referral": {"inlier_weight": 1.0} | referral})
    return _expanded(stored)


def _expanded(stored: Stored) -> Stored:
    place = "reference_uncertainty_"
    summary, ranks = stored.fitted.get(place), stored.arrays.get(f"{place}.rank", np.empty(0))
    examples = summary.get("examples") if isinstance(summary, dict) else None
    if (
        not isinstance(summary, dict)
        or not isinstance(examples, int)
        or not 0 < examples <= MOST_RANKS
        or not ranks.size
    ):
        return stored  # refused where it is read
    times = np.diff(ranks.ravel(), append=examples)
    names = [name for name in summary if name not in ("class", "examples", "rank")]
    arrays = {name: values for name, values in stored.arrays.items() if name != f"{place}.rank"}
    fits = all(arrays.get(f"{place}.{name}", np.empty(0)).shape == times.shape for name in names)
    if ranks.ravel()[0] != 0 or not (times > 0).all() or not fits:
        return stored
    whole = {f"{place}.{name}": np.repeat(arrays[f"{place}.{name}"], times)[::-1].copy() for name in names}
    told = {name: {"array": [examples], "dtype": "float64"} for name in names}
    return replace(stored, fitted=stored.fitted | {place: {"class": "kept_uncertainty"} | told}, arrays=arrays | whole)


# Version -> what turns it into the next one. A new version comes with its line here and a golden model in the tests.
MIGRATIONS: dict[int, Callable[[Stored], Stored]] = {
    1: with_calibration,
    2: without_spectra,
    3: with_whole_uncertainties,
}


def migrated(stored: Stored, version: int) -> Stored:
    """The model as this version writes it."""
    for step in range(version, FORMAT):
        stored = MIGRATIONS[step](stored)
    return stored
