"""HeldOutRows: what a detector says of the rows that it was fitted on, by draws that have not seen them.

A draw that remembers rows finds each of these familiar, whatever it is: an outlier among the training rows would be an
inlier for having been there. So the methods of scikit-learn, which ask a detector about its own training rows, answer
for a row that was among them with what was said of it while it was held out.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, UInt64

from indubio.data import mixed


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOutRows:
    """The training rows in memory, each known by a key of its values.

    Args:
        scores: mean score of every row by the draws that have not seen it.
        probability: that it is an anomaly, likewise; the mean where rows are equal.
        keys: of the distinct rows, ascending.
        key_probability: that rows with this key are anomalies.
    """

    scores: Float[np.ndarray, " rows"]
    probability: Float[np.ndarray, " rows"]
    keys: UInt64[np.ndarray, " distinct"]
    key_probability: Float[np.ndarray, " distinct"]

    @classmethod
    def of(
        cls,
        values: Float[np.ndarray, "rows ..."],
        scores: Float[np.ndarray, " rows"],
        calibrated: Int[np.ndarray, " calibrated"],
        probability: Float[np.ndarray, " calibrated"],
    ) -> "HeldOutRows":
        """Of rows some of which calibrate; the others have the probability that goes with their score.

        Args:
            values: of all rows, prepared.
            scores: likewise.
            calibrated: places of those that calibrate, ascending.
            probability: theirs.
        """
        known, first = np.unique(scores[calibrated], return_index=True)
        every = np.interp(scores, known, probability[first])
        every[calibrated] = probability
        keys, place, times = np.unique(keys_of(values), return_inverse=True, return_counts=True)
        mean = np.bincount(place, weights=every) / times
        return cls(scores=scores, probability=mean[place], keys=keys, key_probability=mean)

    def put_into(
        self, probability: Float[np.ndarray, " examples"], values: Float[np.ndarray, "examples ..."]
    ) -> Float[np.ndarray, " examples"]:
        """Probabilities of examples, with those of the rows that were trained on in their places.

        Args:
            probability: of each as a new one.
            values: theirs, prepared.
        """
        keys = keys_of(values)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.key_probability[place], probability)


def keys_of(values: Float[np.ndarray, "rows ..."]) -> UInt64[np.ndarray, " rows"]:
    """A key of every row's values: equal rows have equal keys, others by a chance of 2 to the power of -64."""
    keys = np.zeros(len(values), dtype=np.uint64)
    for place, column in enumerate(values.reshape(len(values), -1).T):
        bits = (column.astype(np.float64) + 0.0).view(np.uint64)  # of -0.0 as of 0.0
        keys = mixed(keys ^ bits, place)
    return keys
