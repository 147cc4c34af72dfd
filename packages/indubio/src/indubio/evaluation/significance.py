r"""Which of several detectors is better over many data sets: ranks, and tests that do not lean on any distribution.

    average rank            1 is the best of a set, ties share their ranks; the mean over the sets
    Wilcoxon signed rank    two detectors, paired by set
    Holm                    p-values of several such tests, corrected for their number
    critical difference     q_alpha sqrt(k (k + 1) / (6 N)): average ranks closer than this are not told apart (Nemenyi)

J. Demsar (2006). Statistical Comparisons of Classifiers over Multiple Data Sets. JMLR 7.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray

from indubio.errors import ConfigError, ShapeError


def average_ranks(values: ArrayLike, *, high_is_good: bool = True) -> Float[NDArray[np.float64], " detectors"]:
    """The average rank of every detector.

    Args:
        values: (sets, detectors), a number for each; none may be missing.
        high_is_good: whether the highest number of a set has rank 1.

    Examples:
        >>> average_ranks([[0.9, 0.8, 0.7], [0.9, 0.9, 0.1]]).tolist()
        [1.25, 1.75, 3.0]
    """
    from scipy.stats import rankdata  # slow to import, and evaluate needs none of it

    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise ShapeError(f"`values` must be (sets, detectors) and not empty, got the shape {table.shape}.")
    if np.isnan(table).any():
        raise ConfigError("`values` must have a number for every set and detector: leave out sets that lack one.")
    return np.asarray(rankdata(-table if high_is_good else table, axis=1).mean(axis=0))


def critical_difference(detectors: int, sets: int, *, level: float = 0.05) -> float:
    """The smallest difference of two average ranks that is significant (Nemenyi's test).

    Args:
        detectors: how many are ranked, k.
        sets: on how many sets, N.
        level: of the test over all pairs.

    Examples:
        Demsar's example of four classifiers on fourteen sets.

        >>> round(critical_difference(4, 14), 2)
        1.25
    """
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1 - level, detectors, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(detectors * (detectors + 1) / (6 * sets)))


def signed_rank_p(differences: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's signed rank test; 1 when nothing differs.

    Examples:
        The first is better on every one of five sets, which has a chance of 2 in 32 if neither is.

        >>> signed_rank_p([0.1, 0.2, 0.05, 0.01, 0.3])
        0.0625
    """
    from scipy.stats import wilcoxon

    if not np.any(differences):
        return 1.0
    return float(wilcoxon(differences).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm: the smallest p times the number of tests, the next times one less, never falling; at most 1.

    Examples:
        >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(order), 0, -1)
    corrected = np.minimum(1, np.maximum.accumulate(np.asarray(p_values, dtype=np.float64)[order] * factors))
    found = np.empty(len(order))
    found[order] = corrected
    return [float(p) for p in found]
