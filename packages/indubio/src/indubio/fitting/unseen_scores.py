"""Scores of the training rows as new rows would have them: by the draws that have not seen them.

A draw scores the rows it was trained on too low, and one that remembers them scores them 0. What is learned from the
scores of training rows, such as a threshold that a share of them exceeds, is then not true of new rows.
"""

import numpy as np
from jaxtyping import Bool, Float

from indubio.judging import mean_nll


def unseen_scores(
    nll: Float[np.ndarray, "draws rows"], seen: Bool[np.ndarray, "draws rows"]
) -> Float[np.ndarray, " rows"]:
    """The mean score of every row over the draws that were not trained on it.

    A row that all draws have seen is given the unseen score of its own rank: what it is among the seen scores, it is
    among the unseen ones. Where every draw has seen every row nothing better is known than the scores as they are.

    Args:
        nll: of the training rows, under every draw.
        seen: which draws were trained on which rows.

    Examples:
        The second draw has seen the first row, which it scores 0; the other draw has not.

        >>> unseen_scores(np.array([[3.0, 0.0], [0.0, 5.0]]), np.array([[False, True], [True, False]]))
        array([3., 5.])
    """
    if seen.all():
        return mean_nll(nll)
    new, known = _mean_where(~seen, nll), _mean_where(seen, nll)
    all_saw = np.isnan(new)
    if all_saw.any():
        among = np.sort(known[~np.isnan(known)])
        below, up_to = (np.searchsorted(among, known[all_saw], side) for side in ("left", "right"))
        new[all_saw] = np.quantile(new[~all_saw], (below + up_to) / (2 * len(among)))
    return new


def _mean_where(
    chosen: Bool[np.ndarray, "draws rows"], nll: Float[np.ndarray, "draws rows"]
) -> Float[np.ndarray, " rows"]:
    """The mean over these draws of each row; NaN where there are none."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.where(chosen, nll, 0).sum(axis=0, dtype=np.float64)
        return np.asarray(total / chosen.sum(axis=0))
