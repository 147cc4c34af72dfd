"""EnsembleDetector: the uncertainty of any detector, from refits of it.

    rows -> Preparation -> M refits of the base, each on its own resample of the training rows -> scores (M, N)
         -> Calibrated -> Decider -> Assessment, as for every detector: see `chain`

The spread over the refits says how far the verdict hangs on which training rows there happened to be: an epistemic
uncertainty for a model that has none of its own.
"""

from typing import Any, Literal, Self

from indubio.calibration import Calibration
from indubio.chain import ChainEstimator
from indubio.data import good_ones
from indubio.decision import ANOMALY_THRESHOLD, Budget, Referral
from indubio.detector.member_scorer import MemberScorer
from indubio.detector.member_scores import Score, can_fit
from indubio.detector.refits import EnsembleSettings, RefitsOfBase
from indubio.fitting import Trimming, fit_chain
from indubio.judging import Conversion, Odds
from indubio.prepare import Missing, Scaling, Spectra, Unseen
from indubio.texts import english

Bootstrap = bool | Literal["subsample"]

DISTINCT = 0.632  # 1 - 1/e: the share of the rows that a bootstrap sample holds at least once


class EnsembleDetector(ChainEstimator):
    """Any detector, refitted on resamples of the training rows, with the uncertainty of every verdict.

    Fit on good examples only. Windows (N, L, K) reach the base as rows of L * K values, or of features: `spectra`, and
    images as rows of their pixels.

    Args:
        base: a detector of scikit-learn or PyOD, any model with `fit` together with `scored_by`, or a function of the
            rows that gives their scores, high for anomalous; it is never changed. A function cannot be refitted, so it
            needs `members=1` and `bootstrap=False`; it may give (draws, rows), if it is an ensemble itself.
        members: how many refits, M.
        bootstrap: what each member is fitted on: True draws as many rows as there are, with replacement; "subsample"
            draws a share of them without; False takes them all, so that members differ in their seeds only.
        share: of the rows that a subsample has; by default as many distinct ones as a bootstrap sample has.
        scored_by: a function of the fitted model and the rows, high for anomalous; None takes the model's own score.
        one_by_one: whether every row is scored alone, for detectors whose score of a row depends on its company; None
            finds out by trying.
        conversion: from scores to probabilities; None is `Odds()`.
        calibration: which rows the scores of new examples are compared with: None is `TrainScores()`, and
            `CrossFit(rows="in order")` where neighbours are alike, as rows in order of time are; `HoldOut()` and
            `CrossFit()` compare with rows that the members were not fitted on, and give p-values.
        scaling: None passes the values on as they are; `MinMax()`, `ZScore()` and `Robust()` scale them.
        spectra: `Spectra()` makes features of windows first; None and False take them as they are.
        missing: "error" refuses missing values; "median" fills in the training median and notes it; "refer" fills it in
            too, and refers every such example with the reason `bad_input`.
        unseen: what happens to categories that the training data did not have: "refer" (with `bad_input`) or "error".
        false_alarms: the share of good examples that may be called anomalies: a score that a good example reaches with
            this rate has probability 1/2. None is 0.1. With the paper's conversions, which know no rate, it bounds the
            verdict: an anomaly's p-value is at most twice the rate, an inlier's above half of it.
        anomaly_threshold: an anomaly has at least this mean probability.
        smallest_group: give groups with at least so many calibration examples for every member probabilities and
            verdicts of their own; None judges all by the same.
        novelty_limit: refer examples whose novelty is above this, with the reason `unfamiliar`; one good example in a
            hundred is above 1. None refers none for that, and what is referred for its doubt and above 1 has this
            reason.
        referral: which verdicts go to a person; None is `Budget(share=0.05)` by total uncertainty, alarms first.
        trimming: leave training rows out that look like anomalies, for data that is not all good; None leaves out none.
        seed: of everything random. With more than one member it replaces every `random_state` of the base.

    Attributes:
        chain_: all that was learned, one object after the other; what follows are parts of it, None where there is
            none.
        members_: the fitted members.
        seeds_: what their randomness was seeded with.
        one_by_one_: whether rows are scored alone.
        conversion_: the conversion, fitted on the scores of the reference examples.
        referral_threshold_: uncertainty above which a verdict is referred.
        reference_uncertainty_: probability and uncertainties of the reference examples: those that calibrate, or the
            training examples.
        schema_: names, kinds, ranges and categories of the training columns.
        findings_: what was odd about the training data, as the warning of `fit` says it.
        n_features_in_: features of a table, or the length of a window.
        feature_names_in_: column names, when the training data had them.
        offset_: `decision_function` is `score_samples` minus this.

    Examples:
        >>> import numpy as np
        >>> from sklearn.ensemble import IsolationForest
        >>> from indubio.detector import EnsembleDetector
        >>> good = np.random.default_rng(0).normal(size=(200, 3))
        >>> detector = EnsembleDetector(IsolationForest(n_estimators=20), members=5).fit(good)
        >>> found = detector.assess([[0.0, 0.1, -0.2], [9.0, -9.0, 9.0]])
        >>> found.prediction.tolist()
        [False, True]
        >>> bool(found.epistemic[1] <= 0.25)
        True
    """

    DEFAULTS = {"conversion": Odds(), "referral": Budget()}  # noqa: RUF012 - annotated in the base

    def __init__(
        self,
        base: Any,
        *,
        members: int = 10,
        bootstrap: Bootstrap = True,
        share: float = DISTINCT,
        scored_by: Score | None = None,
        one_by_one: bool | None = None,
        conversion: Conversion | None = None,
        calibration: Calibration | None = None,
        scaling: Scaling | None = None,
        spectra: Spectra | Literal[False] | None = None,
        missing: Missing = "error",
        unseen: Unseen = "refer",
        false_alarms: float | None = None,
        anomaly_threshold: float = ANOMALY_THRESHOLD,
        smallest_group: int | None = None,
        novelty_limit: float | None = None,
        referral: Referral | None = None,
        trimming: Trimming | None = None,
        seed: int = 0,
    ) -> None:
        self.base = base
        self.members = members
        self.bootstrap = bootstrap
        self.share = share
        self.scored_by = scored_by
        self.one_by_one = one_by_one
        self.conversion = conversion
        self.calibration = calibration
        self.scaling = scaling
        self.spectra = spectra
        self.missing = missing
        self.unseen = unseen
        self.false_alarms = false_alarms
        self.anomaly_threshold = anomaly_threshold
        self.smallest_group = smallest_group
        self.novelty_limit = novelty_limit
        self.referral = referral
        self.trimming = trimming
        self.seed = seed

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Refit the base on resamples of good examples.

        Args:
            X: good examples only, as `Detector.fit` takes them.
            y: labels, as `Detector.fit` takes them: what is known to be bad is left out.
            groups: the group of each example, within which p-values hold; None takes the group column of a `Table`.
        """
        X, groups = good_ones(X, y, groups, type(self).__name__)
        method = RefitsOfBase(settings=self.settings_in_use())
        return self._keep(fit_chain(method, X, groups, type(self).__name__))._with_warning()

    @property
    def members_(self) -> list[Any]:
        """The members of the ensemble, each fitted."""
        return self._scorer.members

    @property
    def seeds_(self) -> list[int]:
        """What their randomness was seeded with."""
        return self._scorer.seeds

    @property
    def one_by_one_(self) -> bool:
        """Whether rows are scored alone."""
        return self._scorer.one_by_one

    @property
    def _scorer(self) -> MemberScorer:
        scorer = self.fitted_chain.scorer
        assert isinstance(scorer, MemberScorer)
        return scorer

    def settings_in_use(self) -> "EnsembleSettings":
        """The settings with the defaults put in, checked."""
        settings = self._settings(EnsembleSettings)
        settings.check()
        return settings

    @property
    def resampling(self) -> str:
        """What each member was fitted on, in words."""
        if not can_fit(self.base):
            return english("not refitted")
        if self.bootstrap == "subsample":
            return english(
                "each refitted on {share:.3g} of the training rows, drawn without replacement", share=self.share
            )
        if self.bootstrap:
            return english("each refitted on a bootstrap sample")
        return english("fitted on all training rows")
