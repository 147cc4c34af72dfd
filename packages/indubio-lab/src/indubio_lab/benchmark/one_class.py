"""The protocol: learn from good rows only, judge on good and bad ones that were kept back.

    train    the first half (rounded down) of the shuffled inliers, at most 2,000 of them
    test     every other inlier and every anomaly; where they are more than 5,000, both are thinned to the same share

With N rows to test, of which A are anomalies, and N > 5,000, round(5,000 A / N) anomalies stay, at least 1, and inliers
fill up to 5,000. Every detector of a cell sees the same rows. Missing values are filled in with the median of the
training rows, for all detectors alike.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from indubio.errors import DataError
from indubio.settings import AtLeastOne, Fraction, Settings
from indubio_lab.collections import LabelledTable

FEWEST = 10  # training rows


@dataclass(frozen=True, kw_only=True, eq=False)
class OneClassRows:
    """Raw rows of a set, parted.

    Args:
        train: good rows to learn from.
        test: rows to judge.
        anomalous: which of those are anomalies.
    """

    train: Float[np.ndarray, "train features"]
    test: Float[np.ndarray, "test features"]
    anomalous: Bool[np.ndarray, " test"]


@dataclass(frozen=True, kw_only=True)
class OneClass(Settings):
    """How the rows of a set are parted.

    Args:
        train_share: share of the inliers that are learned from.
        most_train: at most so many of them.
        most_test: at most so many rows are judged.

    Examples:
        >>> import numpy as np
        >>> from indubio_lab.collections import LabelledTable
        >>> rows = np.arange(100.0)[:, None]
        >>> table = LabelledTable(rows=rows, anomalous=rows[:, 0] >= 90, names=("x0",))
        >>> parted = OneClass().parted(table, seed=0)
        >>> len(parted.train), len(parted.test), int(parted.anomalous.sum())
        (45, 55, 10)
    """

    train_share: Fraction = 0.5
    most_train: AtLeastOne = 2000
    most_test: AtLeastOne = 5000

    def parted(self, table: LabelledTable, seed: int) -> OneClassRows:
        """The rows of a set, parted by a seed."""
        random = np.random.default_rng(seed)
        inliers, anomalies = (random.permutation(np.flatnonzero(of)) for of in (~table.anomalous, table.anomalous))
        train = inliers[: min(int(self.train_share * len(inliers)), self.most_train)]
        rest = inliers[len(train) :]
        if len(train) < FEWEST or not len(anomalies):
            raise DataError(
                f"a set needs {FEWEST} good rows to learn from and an anomaly to find, got {len(train)} and "
                f"{len(anomalies)}."
            )
        total = len(rest) + len(anomalies)
        if total > self.most_test:
            bad = max(1, round(self.most_test * len(anomalies) / total))
            rest, anomalies = rest[: self.most_test - bad], anomalies[:bad]
        rows = _filled(table.rows, train)
        test = np.concatenate([rest, anomalies])
        return OneClassRows(train=rows[train], test=rows[test], anomalous=table.anomalous[test])


def _filled(rows: Float[np.ndarray, "rows features"], train: np.ndarray) -> Float[np.ndarray, "rows features"]:
    missing = np.isnan(rows)
    if not missing.any():
        return rows
    nothing = np.isnan(rows[train]).all(axis=0)
    if nothing.any():
        raise DataError(f"column {int(np.argmax(nothing)) + 1} has no value in any training row. Leave it out.")
    return np.where(missing, np.nanmedian(rows[train], axis=0), rows)
