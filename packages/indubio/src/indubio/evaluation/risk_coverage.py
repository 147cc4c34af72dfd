r"""The area under the risk-coverage curve: the error rate when only the most certain share is answered.

    AURC = 1/N sum_{k=1}^{N} (expected errors among the k most certain) / k

Low is good; 0 means no errors at all. It is the accuracy-rejection curve's cousin for plain error rates, defined at
every coverage whatever classes are left. Reference: Geifman and El-Yaniv (2017).
"""

import numpy as np

from indubio.evaluation.argument_checks import Binary, Values, check_same_length, checked_binary, checked_values
from indubio.evaluation.certainty import certainty_order


def area_under_risk_coverage(labels: Binary, predictions: Binary, uncertainty: Values) -> float:
    """The mean, over k from 1 to all, of the error rate among the k most certain examples.

    Examples of equal uncertainty are taken in random order and the expectation is given: an uncertainty that
    is constant has the plain error rate, whatever the order of the rows.

    Examples:
        A quarter is wrong. An uncertainty that knows which has less than that; one that is constant has just that.

        >>> labels      = [0, 0, 0, 0, 1, 1, 1, 1]
        >>> predictions = [0, 0, 0, 1, 1, 1, 1, 0]
        >>> uncertainty = [0.1, 0.2, 0.1, 0.9, 0.3, 0.1, 0.2, 0.8]
        >>> round(area_under_risk_coverage(labels, predictions, uncertainty), 3)
        0.049
        >>> area_under_risk_coverage(labels, predictions, [0.5] * 8)
        0.25
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
