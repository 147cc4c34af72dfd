r"""Probabilities that agree with a p-value: no verdict says the opposite of it.

    p_value > 2 rate      p_m <= 1 / (1 + p_value / (2 rate)) < 1/2     common among good examples: no anomaly
    p_value <= rate / 2   p_m >= 1/2                                    rare among good examples: no inlier

A p-value ranks the mean score of the draws, a probability is the mean of what each draw says: where draws contradict
each other, or where a conversion knows nothing of ranks, the two can end up on different sides of the rate of false
alarms. Within a factor of two of the rate they may, for p-values are not known better than that; beyond it every draw
is held back to what the p-value allows. An example that scores higher than all reference examples is never held back.
"""

import numpy as np
from jaxtyping import Float

FACTOR = 2.0
EVEN = 0.5
TOLERANCE = 1 + 1e-9  # p-values and rates are decimal numbers that were rounded


def agreeing(
    p: Float[np.ndarray, "draws examples"],
    p_value: Float[np.ndarray, " examples"],
    smallest: Float[np.ndarray, " examples"] | float,
    rate: float,
) -> Float[np.ndarray, "draws examples"]:
    """The probabilities, held back where they contradict the p-value; NaN holds back nothing.

    Args:
        p: of every draw.
        p_value: of every example.
        smallest: the smallest p-value that there is.
        rate: of false alarms.

    Examples:
        >>> import numpy as np
        >>> p = np.array([[0.9, 0.9, 0.1], [0.7, 0.2, 0.3]])
        >>> agreeing(p, np.array([0.15, 0.3, 0.01]), smallest=0.01, rate=0.1).round(2)
        array([[0.9, 0.4, 0.5],
               [0.7, 0.2, 0.5]])
    """
    common, rare = p_value > np.maximum(FACTOR * rate, smallest) * TOLERANCE, p_value <= rate / FACTOR
    highest = np.where(common, 1 / (1 + p_value / (FACTOR * rate)), 1.0)
    return np.asarray(np.clip(p, np.where(rare, EVEN, 0.0), highest))
