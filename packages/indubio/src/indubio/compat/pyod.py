"""Our detectors as PyOD's: a real `BaseDetector`, for pipelines, combinations and benchmarks that ask for one.

    decision_function   the mean score over the draws; high for abnormal, as PyOD wants it
    decision_scores_    the same of the training rows, each by the draws that have not seen it, as new rows are scored
    contamination       PyOD's threshold: this share of the training rows is labelled 1, though they are all good ones

So a new good row is above the threshold about as often as a training row. With `calibration=TrainScores()`, which few
rows have by default, every draw has seen every training row: their scores are too low, and the threshold with them.

PyOD's `predict_proba(method="unify")` is the paper's Gaussian conversion with its scaling, of the mean score. The
probabilities, uncertainties and verdicts of the detector itself are those of `detector_.assess(X)`.
"""

from typing import Any, Self

import numpy as np
from jaxtyping import Float
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from indubio.chain import ChainEstimator
from indubio.data import ExampleStream
from indubio.detector import Detector
from indubio.errors import ConfigError, MissingExtraError
from indubio.judging import mean_nll

try:
    from pyod.models.base import BaseDetector
except ImportError:
    raise MissingExtraError('PyOD is missing: pip install "indubio[pyod]".') from None


class PyODDetector(BaseDetector):  # type: ignore[misc]
    """One of our detectors with PyOD's methods and attributes.

    Args:
        detector: any of ours, unfitted settings matter only; None is `Detector()`. It is never changed.
        contamination: share of the training rows above PyOD's threshold, in (0, 0.5].

    Attributes:
        detector_: the fitted detector, with `assess` and all else.
        decision_scores_: mean score of the training rows by the draws that have not seen them, high for abnormal.
        threshold_: of PyOD's labels.
        labels_: of the training rows, 1 for abnormal.
    """

    def __init__(self, detector: ChainEstimator | None = None, contamination: float = 0.1) -> None:
        super().__init__(contamination=contamination)
        self.detector = detector

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what good examples look like.

        Args:
            X: good examples.
            y: ignored, as everywhere in PyOD.
        """
        _refuse_class(self.detector)
        if isinstance(X, ExampleStream):
            raise ConfigError(
                "PyOD keeps a score of every training row, and streamed examples are too many: read them."
            )
        self._set_n_classes(y)
        self.detector_: ChainEstimator = clone(Detector() if self.detector is None else self.detector).fit(X)
        self.decision_scores_ = self.detector_.training_scores_
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, " examples"]:
        """Mean score over the draws; high for abnormal."""
        check_is_fitted(self, ["decision_scores_", "threshold_", "labels_"])
        return mean_nll(self.detector_.nll(X))


def as_pyod(detector: ChainEstimator | None = None, *, contamination: float = 0.1) -> PyODDetector:
    """The detector as one of PyOD's, to be fitted.

    Args:
        detector: its settings are taken over, not what it was fitted on; None is `Detector()`.
        contamination: share of the training rows above PyOD's threshold, in (0, 0.5].
    """
    _refuse_class(detector)
    return PyODDetector(detector, contamination)


def _refuse_class(detector: object) -> None:
    if isinstance(detector, type):
        raise ConfigError(f"`detector` must be a detector, not a class: make it {detector.__name__}().")
