r"""The area under the risk-coverage curve: the error rate when only the most certain share is answered.

    AURC = 1/N sum_{k=1}^{N} (expected errors among the k most certain) / k

Low is good; 0 means no errors at all. It is the accuracy-rejection curve's cousin for plain error rates, defined at
every coverage whatever classes are left. Reference: Geifman and El-Yaniv (2017).
"""

import numpy as np
from jaxtyping import Float

from indubio.evaluation.certainty import certainty_order
from indubio.evaluation.checks import Binary, check_same_length, checked_binary, checked_values


def area_under_risk_coverage(labels: Binary, predictions: Binary, uncertainty: Float[np.ndarray, " examples"]) -> float:
    """The mean, over k from 1 to all, of the error rate among the k most certain examples.

    Examples of equal uncertainty are taken in random order and the expectation is given: an uncertainty that
    is constant has the plain error rate, whatever the order of the rows.
    """
    actual = checked_binary("labels", labels)
    predicted = checked_binary("predictions", predictions)
    unsure = checked_values("uncertainty", uncertainty)
    check_same_length(labels=actual, predictions=predicted, uncertainty=unsure)

    order, kept = certainty_order(unsure)
    errors = np.cumsum((actual != predicted)[order])[kept - 1]
    answered = np.arange(1, actual.size + 1)
    # In random order the errors within a group of equals grow on average in a straight line.
    expected_errors = np.interp(answered, np.append(0, kept), np.append(0, errors))
    return float(np.mean(expected_errors / answered))
