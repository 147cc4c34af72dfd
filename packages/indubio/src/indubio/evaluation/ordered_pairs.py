r"""AUROC of every prefix of a list at once, in O(n log n).

AUROC is the share of the (inlier, anomaly) pairs whose scores are in the right order. As the retained set grows by
one example, the right pairs grow by the retained examples of the other class on its right side. Counting "came
earlier, and has a lower score" for every example is counting inversions: list the examples by score and sort the
list by rank, one bit at a time from the top. At each level every block splits into an early and a late half, and
a late example meets the early ones of its block that stand before it; any two examples meet at exactly one level.
"""

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from indubio.evaluation.metrics import ratio


def prefix_auroc(
    anomalous: Bool[np.ndarray, " examples"], scores: Float[np.ndarray, " examples"]
) -> Float[NDArray[np.float64], " examples"]:
    """AUROC of the first k examples, for k from 1 to all; NaN as long as one class is missing."""
    anomalies = np.cumsum(anomalous)
    inliers = np.arange(1, anomalous.size + 1) - anomalies
    return ratio(_pairs_in_order(anomalous, scores, anomalies), (anomalies * inliers).astype(np.float64))


def _pairs_in_order(
    anomalous: Bool[np.ndarray, " examples"],
    scores: Float[np.ndarray, " examples"],
    anomalies: Int[NDArray[np.int64], " examples"],
) -> Float[NDArray[np.float64], " examples"]:
    """The (inlier, anomaly) pairs among the first k examples with the lower score on the inlier, ties one half."""
    inlier_first = np.lexsort((anomalous, scores))
    in_order = _pairs_in_listed_order(anomalous, inlier_first, anomalies)
    sorted_scores, sorted_classes = scores[inlier_first], anomalous[inlier_first]
    tied = (sorted_scores[1:] == sorted_scores[:-1]) & (sorted_classes[1:] != sorted_classes[:-1])
    if not tied.any():
        return in_order.astype(np.float64)
    # Ties in favour of AUROC in one pass and against it in the other: the mean counts each tie one half.
    anomaly_first = np.lexsort((~anomalous, scores))
    return (in_order + _pairs_in_listed_order(anomalous, anomaly_first, anomalies)) / 2


def _pairs_in_listed_order(
    anomalous: Bool[np.ndarray, " examples"],
    by_score: Int[np.ndarray, " examples"],
    anomalies: Int[NDArray[np.int64], " examples"],
) -> Int[NDArray[np.int64], " examples"]:
    below = _earlier_of_other_class_before(anomalous, by_score)
    # An anomaly belongs after the inliers, an inlier before the anomalies.
    return np.cumsum(np.where(anomalous, below, anomalies - below))


def _earlier_of_other_class_before(
    anomalous: Bool[np.ndarray, " examples"], by_score: Int[np.ndarray, " examples"]
) -> Int[NDArray[np.int64], " examples"]:
    """For each rank, how many smaller ranks of the other class stand before it in the list by score."""
    examples = by_score.size
    # Padded to a power of two, so that all blocks of a level are equally long. A padding rank is above all real
    # ones, and so is never the early partner of a real example.
    padded = 1 << (examples - 1).bit_length()
    ranks = np.append(by_score, np.arange(examples, padded))
    is_anomaly = np.append(anomalous, np.zeros(padded - examples, dtype=np.bool_))
    counts = np.zeros(padded, dtype=np.int64)
    serial = np.arange(padded // 2)
    anomalies_until = np.zeros(padded // 2 + 1, dtype=np.int64)
    half = padded // 2
    while half:
        is_late = (ranks & half) != 0
        early, late = ranks[~is_late], ranks[is_late]
        # Counted over the early examples of all blocks; each block before this one holds `half` of them.
        early_before = np.flatnonzero(is_late) - serial
        block_start = serial // half * half
        np.cumsum(is_anomaly[early], out=anomalies_until[1:])
        anomalies_before = anomalies_until[early_before] - anomalies_until[block_start]
        inliers_before = early_before - block_start - anomalies_before
        counts[late] += np.where(is_anomaly[late], inliers_before, anomalies_before)
        ranks = np.stack((early.reshape(-1, half), late.reshape(-1, half)), axis=1).ravel()
        half //= 2
    return counts[:examples]
