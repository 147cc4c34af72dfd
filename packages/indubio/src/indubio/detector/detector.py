"""Detector: Bayesian autoencoders as a scikit-learn outlier detector.

    rows -> Preparation -> Scorer -> nll (M, N) -> Calibrated -> uncertainties (N) -> Decider -> Assessment

`fitting.fitted_chain` makes these one after the other; `chain` has them, and what every detector does with them.
"""

from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float

from indubio.calibration import Calibration
from indubio.chain import ChainEstimator, KeptRows
from indubio.data import ExampleStream, examples_of, good_ones
from indubio.decision import ANOMALY_THRESHOLD, Referral
from indubio.errors import ConfigError
from indubio.fitting import (
    DEFAULTS,
    DetectorSettings,
    PosteriorFit,
    Trimming,
    autoencoder_scorer,
    default_of,
    default_posterior,
    fit_chain,
    suspicion,
    updated_chain,
)
from indubio.judging import Conversion, DrawScore, ScoreName
from indubio.networks import Architecture, Likelihood, Report, Training, silent
from indubio.posteriors import Draws, Posterior
from indubio.prepare import Missing, Scaling, Spectra, TrainingExamples, Unseen
from indubio.settings import Settings
from indubio.workers import Workers


class Detector(ChainEstimator):
    """Anomaly detection by Bayesian autoencoders, with the uncertainty of every verdict.

    Fit on good examples only: rows of a table (N, D), windows of sensor signals (N, L, K) or images (N, H, W, C).

    Args:
        posterior: how the draws are made; None is what measured best: `Prototypes()` (docs/default.md), and for windows
            of at least 8 samples that become features `NormalWishart()` (docs/windows.md). The paper's are
            `AnchoredEnsemble()`, `MCDropout()`, `BayesByBackprop()`, `VAE()`, `SGHMC()`, `Deterministic()`.
        architecture: the network; None is the one that suits the posterior. Of those that are trained it is `Dense()`
            for tables and spectra, `Conv1d()` for windows as they are and `Conv2d()` for images, with an output that
            suits the scaling. `Coalition()` is one network for each sensor.
        likelihood: None is the one that suits the posterior: Student's t, or Gaussian with sigma = 1 for those that are
            trained; `NormalWishart()` has its own.
        training: epochs, batches, learning rate, of posteriors that are trained; None is `Training()`. It is refused
            for those that are computed.
        anomaly_score: what makes an example suspect; None is "nll", the negative log-likelihood under every draw.
            "epistemic" is the variance of the reconstruction over the draws, "aleatoric" the noise that the decoder
            expects, for likelihoods with noise="per_example", "waic" mean and variance of the NLL: docs/scores.md.
        conversion: from scores to probabilities; None is `Odds()`. The paper's are `Ecdf()`, `Gaussian()`,
            `Exponential()` and `Uniform()`; docs/likelihoods.md has them all.
        calibration: which rows the scores of new examples are compared with: `TrainScores()` (the paper's), `HoldOut()`
            or `CrossFit()`; None chooses by the number of rows, and keeps windows in order, and rows whose
            neighbours are alike, see `calibration_for`.
        scaling: None is the one that suits the posterior: `MinMax()`, or `ZScore()` for `NormalWishart()` and
            `RandomFeatures()`.
        spectra: `Spectra()` makes features of windows before they are scaled: levels, spread, energies of frequency
            bands and of the envelope, statistics and shapes, per sensor; False takes windows as they are. None is what
            suits the posterior: `Spectra()`, without the last two for `Prototypes()` and `RandomFeatures()`, or False
            for those that are trained.
        missing: "error" refuses missing values; "median" fills in the training median and notes it; "refer" fills it in
            too, and refers every such example with the reason `bad_input`.
        unseen: what happens to categories that the training data did not have: "refer" (with `bad_input`) or "error".
        false_alarms: the share of good examples that may be called anomalies: a score that a good example reaches with
            this rate has probability 1/2. None is 0.1. With the paper's conversions, which know no rate, it bounds the
            verdict: an anomaly's p-value is at most twice the rate, an inlier's above half of it.
        anomaly_threshold: an anomaly has at least this mean probability.
        smallest_group: give groups (machines, products) with at least so many calibration examples for every draw
            probabilities and verdicts of their own; the others are judged by all groups, with a note. None judges all
            by the same.
        range_margin: refer examples with a value further outside its training range than this many ranges, with the
            reason `out_of_range`; None refers none for that.
        novelty_limit: refer examples whose novelty is above this, with the reason `unfamiliar`; one good example in a
            hundred is above 1. None refers none for that, and what is referred for its doubt and above 1 has this
            reason.
        referral: which verdicts go to a person; None is `Budget(share=0.05)` by total uncertainty, alarms first.
        trimming: leave training rows out that look like anomalies, for data that is not all good; None leaves out none.
        device: "cpu", or "cuda" or "mps" where there is one; these need torch.
        seed: of everything random; the same seed gives the same model on the same machine.

    Attributes:
        chain_: all that was learned, one object after the other; what follows are parts of it, None where there is
            none.
        draws_: the posterior draws.
        conversion_: the conversion, fitted on the scores of the reference examples.
        group_conversions_: the same of each group that has enough; with `smallest_group`.
        correction_: what was learned from labels; after `learn`.
        referral_threshold_: uncertainty above which a verdict is referred.
        reference_: mean scores of the reference examples: those that calibrate, by the draws that did not see them,
            or with `TrainScores` the training examples. P-values come from them.
        typical_nll_: mean NLL of every value over the training examples, per draw: what explanations start from.
        drift_reference_: the distributions of the training data, which new data is compared with.
        reference_uncertainty_: probability and uncertainties of the reference examples.
        kept_rows_: rows, scaled, that `update` calibrates again with, where the posterior has `keep_sums`.
        n_training_: how many examples `fit` was given.
        training_scores_: mean score of every training example, by the draws that have not seen it; not saved.
        labels_: +1 for inliers among the training examples and -1 for anomalies, by the same draws; not saved.
        n_reference_: how many reference examples there are.
        schema_: names, kinds, ranges and categories of the training columns.
        preparation_: what is done to rows before the network: filling in, scaling.
        reading_: how the files were read that it was fitted on; after `read_by`.
        findings_: what was odd about the training data, as the warning of `fit` says it.
        input_shape_: shape of one example.
        n_features_in_: features of a table, or the length of a window.
        feature_names_in_: column names, when the training data had them.
        offset_: `decision_function` is `score_samples` minus this.

    Examples:
        >>> import numpy as np
        >>> from indubio import AnchoredEnsemble, Budget, Detector, Training
        >>> good = np.random.default_rng(0).normal(size=(200, 3))
        >>> detector = Detector(posterior=AnchoredEnsemble(members=3), training=Training(epochs=20)).fit(good)
        >>> found = detector.assess([[0.0, 0.1, -0.2], [9.0, -9.0, 9.0]])
        >>> found.prediction.tolist()
        [False, True]
        >>> str(found.verdict[1])
        'ANOMALY'
        >>> bool(found.p_value[1] < 0.01)
        True

        Another referral rule makes another detector, without training again:

        >>> more = detector.refer_by(Budget(share=0.2))
        >>> more.referral_threshold_ < detector.referral_threshold_
        True
    """

    DEFAULTS = DEFAULTS

    def __init__(
        self,
        *,
        posterior: Posterior | None = None,
        architecture: Architecture | None = None,
        likelihood: Likelihood | None = None,
        training: Training | None = None,
        anomaly_score: ScoreName | None = None,
        conversion: Conversion | None = None,
        calibration: Calibration | None = None,
        scaling: Scaling | None = None,
        spectra: Spectra | Literal[False] | None = None,
        missing: Missing = "error",
        unseen: Unseen = "refer",
        false_alarms: float | None = None,
        anomaly_threshold: float = ANOMALY_THRESHOLD,
        smallest_group: int | None = None,
        range_margin: float | None = None,
        novelty_limit: float | None = None,
        referral: Referral | None = None,
        trimming: Trimming | None = None,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        self.posterior = posterior
        self.architecture = architecture
        self.likelihood = likelihood
        self.training = training
        self.anomaly_score = anomaly_score
        self.conversion = conversion
        self.calibration = calibration
        self.scaling = scaling
        self.spectra = spectra
        self.missing = missing
        self.unseen = unseen
        self.false_alarms = false_alarms
        self.anomaly_threshold = anomaly_threshold
        self.smallest_group = smallest_group
        self.range_margin = range_margin
        self.novelty_limit = novelty_limit
        self.referral = referral
        self.trimming = trimming
        self.device = device
        self.seed = seed

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        progress: Report = silent,
        workers: Workers | None = None,
    ) -> Self:
        """Learn what good examples look like.

        Args:
            X: good examples only: array (N, D), windows (N, L, K) or images (N, H, W, C), DataFrame (pandas or polars),
                `Table`, `Windows`, `Images`, or an `ExampleStream` of files larger than memory, which is read in every
                epoch.
            y: labels, 1 or True for an anomaly and 0 for a good row, or -1 and 1, as scikit-learn has them: what is
                known to be bad is left out, which a warning says.
            groups: the machine, product or other group of each example, within which p-values hold; None takes the
                group column of a `Table`, if it has one.
            progress: called with a `Progress` after every epoch.
            workers: train folds and members of ensembles side by side on these; the result is the same. None trains
                here.
        """
        X, groups = good_ones(X, y, groups, type(self).__name__)
        examples = X if isinstance(X, ExampleStream) else examples_of(X, type(self).__name__)
        settings = self.settings_for(examples.window_shape)
        method = PosteriorFit(settings=settings, report=progress, workers=workers)
        return self._keep(fit_chain(method, examples, groups, type(self).__name__, report=progress))._with_warning()

    def update(
        self,
        confirmed: Any,
        *,
        training_data: Any = None,
        groups: Any = None,
        epochs: int | None = None,
        progress: Report = silent,
    ) -> "Detector":
        """A new detector that has also learned from examples that a person found to be good; this one stays as it is.

        They train every draw and calibrate none: who is asked for a second look is no random sample, and scores of such
        examples among the reference would raise every threshold. What is promised stays true, for examples like the
        training data.

        It has the same settings. With `calibration=TrainScores()` it starts from the weights of this one's draws. With
        the others it trains anew, for weights that have seen the rows that calibrate would void the promise of its
        p-values; so does `BayesByBackprop`, whose draws do not tell where its training ended, and a table with new
        categories. All else is learned again; a rule that was fitted on examples of its own by `refer_by` must be too.

        With `NormalWishart(keep_sums=True)` or `RandomFeatures(keep_sums=True)` no training data is needed: the
        examples are added to the sums that the draws follow from, which gives what one fit of all examples would, with
        the scaling of the first.

        Args:
            confirmed: good examples, in the form of the training data: all that were confirmed since `fit`; without
                `training_data` all that were confirmed since the last update.
            training_data: what `fit` was given. Models do not keep it, and without it the detector would forget what it
                knew; None is for a detector that keeps its sums.
            groups: of the training data, where it is given, and then of the confirmed examples, as for `fit`.
            epochs: passes over the rows where it starts warm, which needs fewer; None is the setting.
            progress: called with a `Progress` after every epoch.
        """
        settings, chain = self.settings_in_use(), self.fitted_chain
        chain = updated_chain(
            settings, chain, confirmed, training_data=training_data, groups=groups, epochs=epochs, report=progress
        )
        return Detector(**self.get_params(deep=False))._keep(chain)._with_warning()

    def suspicion(self, X: Any) -> Float[np.ndarray, " examples"]:
        """How far every training example lies outside of the bulk of all: high for those to look at first.

        It needs no fit, and nothing is kept. What a detector says of its own training examples goes by those that are
        near, and bad ones that are alike are usual to each other; this is a view of the whole, as `Trimming` has it.

        Args:
            X: what `fit` is given, but for a stream.
        """
        if isinstance(X, ExampleStream):
            raise ConfigError("examples that are streamed are too many to be compared with each other.")
        examples = examples_of(X, type(self).__name__)
        settings = self.settings_for(examples.window_shape)
        return suspicion(settings, TrainingExamples.of(examples, type(self).__name__))

    @property
    def calibration_(self) -> Calibration:
        """The calibration asked for, or the one that was chosen when it was fitted."""
        reference = self.reference_
        one_fold = reference.unseen and not bool(reference.part.any())
        settings, shape = self.settings_in_use(), self.input_shape_
        in_stretches = self.fitted_chain.preparation.neighbours_alike
        return settings.calibration_for(self.n_training_, shape, one_fold=one_fold, in_stretches=in_stretches)

    @property
    def draws_(self) -> Draws:
        """The draws of the posterior, as they were fitted."""
        return autoencoder_scorer(self.fitted_chain).draws

    @property
    def scores_(self) -> Draws | DrawScore:
        """What gives the scores: the draws, or what makes another score than the NLL of them."""
        return autoencoder_scorer(self.fitted_chain).scores

    @property
    def typical_nll_(self) -> Float[np.ndarray, "draws ..."] | None:
        """Mean score of every value over the training examples, per draw: what explanations start from."""
        return autoencoder_scorer(self.fitted_chain).typical

    @property
    def kept_rows_(self) -> KeptRows | None:
        """Rows to calibrate again with, where the posterior has `keep_sums`; None otherwise."""
        return autoencoder_scorer(self.fitted_chain).kept

    def nll_per_feature(self, X: Any) -> Float[np.ndarray, "draws examples ..."]:
        """Score of every value under every draw; its mean over an example's values is the example's score."""
        return self.scores_.nll_apart(self.fitted_chain.preparation.prepared(X).values)[1]

    def reconstruction(self, X: Any) -> Float[np.ndarray, "draws examples ..."]:
        """What every draw takes every example for, in scaled units."""
        return self.draws_.reconstruction(self.fitted_chain.preparation.prepared(X).values)

    def _default(self, name: str) -> Settings | None:
        """What None stands for, of this parameter."""
        return default_of(name, self.posterior)

    def settings_in_use(self) -> DetectorSettings:
        """The settings with the defaults put in, checked: for what it was fitted on; for a table before that."""
        return self.settings_for(self.input_shape_ if hasattr(self, "chain_") else None)

    def settings_for(self, input_shape: tuple[int, ...] | None) -> DetectorSettings:
        """The settings with the defaults put in that suit examples of this shape, checked.

        Args:
            input_shape: of one example; None is for a table.
        """
        posterior = self.posterior or default_posterior(self.spectra, input_shape)
        chosen = Detector(**(self.get_params(deep=False) | {"posterior": posterior}))
        settings = chosen._settings(DetectorSettings)
        settings.check_training(self.training)
        settings.check()
        return settings
