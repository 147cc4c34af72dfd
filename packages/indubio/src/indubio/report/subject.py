"""What a report is about: a detector, some examples, what was found of them, and their labels if there are any."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from indubio.chain import UNFAMILIAR, Assessment, ChainEstimator
from indubio.data import Examples
from indubio.decision import Referral, Verdict, uncertainty_values
from indubio.detector import Detector
from indubio.errors import ShapeError
from indubio.evaluation import checked_binary
from indubio.report.words import plain


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """The detector and the examples of a report.

    Args:
        detector: fitted.
        given: the examples.
        found: the assessment of all of them.
        labels: True for an anomaly; None where they are not known.
    """

    detector: ChainEstimator
    given: Examples
    found: Assessment
    labels: Bool[np.ndarray, " examples"] | None

    @classmethod
    def of(cls, detector: ChainEstimator, X: Any, found: Assessment | None, labels: ArrayLike | None) -> "Subject":
        """Assess the examples unless that was done, and check that all is of the same examples."""
        examples = detector.fitted_chain.preparation.examples(X)
        if found is None:
            found = detector.assess(examples)
        if labels is None:
            labels = examples.labels
        actual = None if labels is None else checked_binary("labels", labels)
        for name, given in (("found", found), ("labels", actual)):
            if given is not None and len(given) != len(examples):
                raise ShapeError(f"`{name}` must be of the same {len(examples)} examples, got {len(given)}.")
        return cls(detector=detector, given=examples, found=found, labels=actual)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def referral(self) -> Referral:
        """The referral rule, the default where none was set."""
        return self.detector.settings_in_use().referral

    @property
    def referred(self) -> Bool[np.ndarray, " examples"]:
        """Which examples go to a person."""
        return np.asarray(self.found.verdict == Verdict.REFER)

    @property
    def uncertainty(self) -> Float[np.ndarray, " examples"]:
        """The uncertainty that the referral rule goes by."""
        return uncertainty_values(self.found.to_dict(), self.referral.by)

    @property
    def unfamiliar(self) -> Bool[np.ndarray, " examples"]:
        """Which examples are unlike all that was seen in training."""
        return np.asarray(self.found.novelty > UNFAMILIAR)

    @property
    def one_unfamiliar_in(self) -> int:
        """Of so many good examples about one is unfamiliar: what few training examples leave out is more."""
        return min(100, self.detector.n_training_ + 1)

    @property
    def wrong(self) -> Bool[np.ndarray, " examples"]:
        """Which predictions are wrong, before anything is referred; needs labels."""
        assert self.labels is not None
        return np.asarray(self.found.prediction != self.labels)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features or sensors."""
        return self.detector.schema_.encoded_names

    @property
    def windows(self) -> bool:
        """Whether the examples are windows."""
        return len(self.detector.input_shape_) == 2

    @property
    def images(self) -> bool:
        """Whether the examples are images."""
        return len(self.detector.input_shape_) == 3

    @property
    def signals(self) -> bool:
        """Whether windows are scored as they are, sample by sample, and not by features of theirs."""
        return len(self.detector.fitted_chain.preparation.value_shape) == 2

    def values(self, places: Int[np.ndarray, " chosen"]) -> Float[np.ndarray, "chosen ..."]:
        """What is scored of some examples, in its own units: their values, or the features of windows."""
        preparation = self.detector.fitted_chain.preparation
        return self.raw(places) if preparation.spectra is None else preparation.followed(self.given.select(places))

    @property
    def explained(self) -> bool:
        """Whether the detector can say what made a score: an autoencoder can, a detector of another kind cannot."""
        return isinstance(self.detector, Detector)

    def raw(self, places: Int[np.ndarray, " chosen"] | None = None) -> Float[np.ndarray, "examples ..."]:
        """Values of all or some examples in their own units, categories as one column each; NaN where missing."""
        some = self.given if places is None else self.given.select(places)
        return some.rows(self.detector.schema_).values

    def reconstruction(self, places: Int[np.ndarray, " chosen"]) -> Float[np.ndarray, "draws chosen ..."]:
        """What every draw takes some of the examples for, in the units of the data."""
        assert isinstance(self.detector, Detector)
        return self.detector.preparation_.scaling.unscaled(self.detector.reconstruction(self.given.select(places)))

    def ids(self, example: int) -> dict[str, str]:
        """The columns that are passed through (ids, times), or where a window came from."""
        passed = self.given.beside if self.found.passed is None else self.found.passed
        if passed is None:
            return {}
        row = {name: passed.column(name)[example].as_py() for name in passed.column_names}
        return {name: plain(value) for name, value in row.items() if value is not None}

    def verdict_count(self, verdict: Verdict) -> int:
        """How many examples have this verdict."""
        return int(np.count_nonzero(self.found.verdict == verdict))
