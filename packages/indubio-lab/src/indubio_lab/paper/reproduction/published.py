"""The paper's own numbers, in percent, as its tables have them.

They are in paper.json beside this file. A test compares it with the paper's source where that is at hand.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

MODELS_OF_THE_PAPER = ("Deterministic AE", "VAE", "BAE-MCD", "BAE-BBB", "BAE-Ensemble")
MEAN = "Mean"


@cache
def _numbers() -> dict[str, Any]:
    return dict(json.loads(files(__package__).joinpath("paper.json").read_text()))


def sizes(collection: str, task: str) -> tuple[int, int, int, int]:
    """Training inliers, test inliers, test anomalies and features, by the table of datasets."""
    train, inliers, anomalies, features = _numbers()["dataset sizes"][collection][task]
    return train, inliers, anomalies, features


def weighted_average_and_gain(metric: str, collection: str, model: str, uncertainty: str) -> tuple[float, float] | None:
    """W and Gain of a cell of the tables; None where the paper has a dash, or no such row."""
    found = _numbers()[metric][collection].get(model, {}).get(uncertainty)
    return None if found is None else (found[0], found[1])


def positive_runs(collection: str, conversion: str) -> tuple[int, int]:
    """Runs with Gain > 0, and all runs, of a conversion without or with scaling."""
    positive, total = _numbers()["positive gain"][conversion][collection]
    return positive, total
