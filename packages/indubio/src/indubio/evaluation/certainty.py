"""The order in which examples are retained: the most certain first, equals together."""

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray


def certainty_order(
    uncertainty: Float[np.ndarray, " examples"],
) -> tuple[Int[NDArray[np.intp], " examples"], Int[NDArray[np.intp], " thresholds"]]:
    """The examples from most to least certain, and how many of them each threshold retains.

    The thresholds are the unique uncertainties in ascending order. Equal uncertainties cannot be told apart by a
    threshold, so they are retained together and their order among themselves never matters.
    """
    order = np.argsort(uncertainty, kind="stable")
    ascending = uncertainty[order]
    # Compared, not subtracted: the difference of two infinities is NaN.
    last_of_equals = np.append(ascending[1:] != ascending[:-1], True)
    return order, np.flatnonzero(last_of_equals) + 1
