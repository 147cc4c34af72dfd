"""Detector: Bayesian autoencoders as a scikit-learn outlier detector.

    rows -> Inputs -> Scorer -> nll (M, N) -> Calibrated -> uncertainties (N) -> Decider -> Assessment

`fit` makes these one after the other; `pipeline` has them, and what every detector does with them.
"""

import dataclasses
import warnings
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float, Shaped

from indubio.calibration import Calibration, CrossFit, HoldOut, Plan, TrainScores
from indubio.decision import ANOMALY_THRESHOLD, Budget, Referral
from indubio.drift import DriftReference
from indubio.engine import require_device
from indubio.errors import ConfigError, DataWarning
from indubio.fitting.folds import fit_orders, fit_parts
from indubio.fitting.kept_rows import KeptRows
from indubio.fitting.on_workers import Order
from indubio.fitting.streams import ScaledRows, Split, survey
from indubio.fitting.trimming import FARTHEST, Trimming, held_out_scores, refuse_groups
from indubio.inputs import Missing, Robust, Scaling, Spectra, Unseen
from indubio.inputs.data_findings import data_findings
from indubio.inputs.example_streams import ExampleStream
from indubio.inputs.examples import Examples
from indubio.inputs.numeric_rows import Rows
from indubio.inputs.spectra import chosen_spectra
from indubio.networks import Architecture, Autoencoder, BlockArchitecture, Coalition, Dense, Likelihood
from indubio.pipeline.autoencoder_scorer import AutoencoderScorer
from indubio.pipeline.calibrated import needed_groups
from indubio.pipeline.chain import Chain
from indubio.pipeline.estimator import ChainEstimator, ChainSettings
from indubio.pipeline.familiarity import Familiarity
from indubio.pipeline.inputs import Inputs, TrainingExamples, examples_of
from indubio.pipeline.scorer import scores_of
from indubio.posteriors import Draws, Posterior, Prototypes, RandomFeatures, Training
from indubio.probability import Conversion, Odds
from indubio.scores import SCORES, DrawScore, ScoreName, scored_by
from indubio.settings import Settings
from indubio.texts import english
from indubio.training.loop import Report, silent
from indubio.workers import Workers

SUSPECT_FOLDS = 5  # by which training rows are scored without having been seen
WIDEST = 256  # units of a layer by default, for spectra: many sensors have hundreds of features, which go together

DEFAULT_POSTERIOR: Posterior = Prototypes()  # docs/default.md: what was measured, and tried
_DEFAULTS: dict[str, Settings] = {
    "posterior": DEFAULT_POSTERIOR,
    "likelihood": DEFAULT_POSTERIOR.LIKELIHOOD,
    "training": Training(),
    "conversion": Odds(),
    "scaling": DEFAULT_POSTERIOR.SCALING,
    "referral": Budget(),
}


class Detector(ChainEstimator):
    """Anomaly detection by Bayesian autoencoders, with the uncertainty of every verdict.

    Fit on good examples only: rows of a table (N, D), windows of sensor signals (N, L, K) or images (N, H, W, C).

    Args:
        posterior: how the draws are made; None is `Prototypes()`, which measured best (docs/default.md). The paper's
            are `AnchoredEnsemble()`, `MCDropout()`, `BayesByBackprop()`, `VAE()`, `SGHMC()`, `Deterministic()`.
        architecture: the network; None is the one that suits the posterior. Of those that are trained it is `Dense()`
            for tables and spectra, `Conv1d()` for windows as they are and `Conv2d()` for images, with an output that
            suits the scaling. `Coalition()` is one network for each sensor.
        likelihood: None is the one that suits the posterior: Student's t, or for those that are trained Gaussian with
            sigma = 1.
        training: epochs, batches, learning rate, of posteriors that are trained; None is `Training()`. It is refused
            for those that are computed.
        anomaly_score: what makes an example suspect; None is "nll", the negative log-likelihood under every draw.
            "epistemic" is the variance of the reconstruction over the draws, "aleatoric" the noise that the decoder
            expects, for likelihoods with noise="per_example", "waic" mean and variance of the NLL: docs/scores.md.
        conversion: from scores to probabilities; None is `Odds()`. The paper's are `Ecdf()`, `Gaussian()`,
            `Exponential()` and `Uniform()`; docs/likelihoods.md has them all.
        calibration: which rows the scores of new examples are compared with: `TrainScores()` (the paper's), `HoldOut()`
            or `CrossFit()`; None chooses by the number of rows, and keeps windows in order, see `calibration_for`.
        scaling: None is the one that suits the posterior: `MinMax()`, or `ZScore()` for `RandomFeatures()`.
        spectra: `Spectra()` makes features of windows before they are scaled: levels, spread, energies of frequency
            bands and of the envelope, per sensor; False takes windows as they are. None is what suits the posterior:
            `Spectra()`, or False for those that are trained.
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
        kept_rows_: rows, scaled, that `update` calibrates again with; with `RandomFeatures(keep_sums=True)`.
        n_training_: how many examples `fit` was given.
        training_scores_: mean score of every training example, by the draws that have not seen it; not saved.
        n_reference_: how many reference examples there are.
        schema_: names, kinds, ranges and categories of the training columns.
        intake_: what is done to rows before the network: filling in, scaling.
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

    DEFAULTS = _DEFAULTS

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
        y: Any = None,  # noqa: ARG002 - scikit-learn passes it
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
            y: ignored; scikit-learn's pipelines pass it.
            groups: the machine, product or other group of each example, within which p-values hold; None takes the
                group column of a `Table`, if it has one.
            progress: called with a `Progress` after every epoch.
            workers: train folds and members of ensembles side by side on these; the result is the same. None trains
                here.
        """
        if isinstance(X, ExampleStream):
            return self._fit_stream(X, groups, progress, workers)._with_warning()
        return self._fit(X, groups, progress, workers=workers)._with_warning()

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

        With `RandomFeatures(keep_sums=True)` no training data is needed: the examples are added to the sums that the
        draws follow from, which gives what one fit of all examples would, with the scaling of the first.

        Args:
            confirmed: good examples, in the form of the training data: all that were confirmed since `fit`; without
                `training_data` all that were confirmed since the last update.
            training_data: what `fit` was given. Models do not keep it, and without it the detector would forget what it
                knew; None is for a detector that keeps its sums.
            groups: of the training data, where it is given, and then of the confirmed examples, as for `fit`.
            epochs: passes over the rows where it starts warm, which needs fewer; None is the setting.
            progress: called with a `Progress` after every epoch.
        """
        start = self.draws_
        if training_data is None:
            return self._extended(confirmed, groups, epochs, progress)._with_warning()
        if isinstance(training_data, ExampleStream) or isinstance(confirmed, ExampleStream):
            raise ConfigError(
                "a stream cannot be put together with other examples. Write the confirmed ones to a file beside the "
                "training files, and fit again on all of them."
            )
        self._tell_other_count(len(training_data), len(confirmed))
        new = Detector(**self.get_params(deep=False))
        data = Examples.joined([examples_of(one, type(self).__name__) for one in (training_data, confirmed)])
        new._fit(data, groups, progress, start=start, warm_epochs=epochs, confirmed=len(confirmed))
        return new._with_warning()

    def _tell_other_count(self, training: int, confirmed: int) -> None:
        """Warn of training data that cannot be what `fit` was given.

        A detector that was updated counts those that were confirmed before, which are among the confirmed ones again.
        """
        known = self.n_training_
        if training > known or training + confirmed < known:
            warnings.warn(
                f"`training_data` is not what the detector was fitted on, {known} examples with those that were "
                f"confirmed before: got {training} and {confirmed} confirmed ones. The new detector knows only these.",
                DataWarning,
                stacklevel=3,
            )

    def _extended(self, confirmed: Any, groups: Any, epochs: int | None, progress: Report) -> "Detector":
        """The detector after examples were added to the sums of its draws."""
        settings, chain, kept = self.settings_in_use(), self.fitted_chain, self.kept_rows_
        posterior, drift = settings.posterior, chain.drift_reference
        if kept is None or drift is None or not isinstance(posterior, RandomFeatures):
            raise ConfigError(
                "this detector keeps nothing that examples could be added to: pass `training_data`, or fit with "
                "posterior=RandomFeatures(keep_sums=True)."
            )
        if epochs is not None:
            raise ConfigError("`epochs` is for an update that trains, and this one adds to sums: leave it out.")
        if isinstance(confirmed, ExampleStream):
            raise ConfigError("examples that are added must be in memory. Read the stream, and add block after block.")
        rows = chain.inputs.rows(confirmed)
        if rows.unseen is not None and (rows.unseen != "").any():
            raise ConfigError(
                f"{np.count_nonzero(rows.unseen)} of {len(rows)} examples hold categories that the model does not "
                "know, which need columns of their own: pass `training_data`."
            )
        members = chain.inputs.examples(confirmed).group_names(groups)
        if self.smallest_group is not None:
            members = needed_groups(members)
        added = chain.inputs.prepared(rows).values
        kept = kept.with_trained(added, members)
        draws = kept.extended(
            posterior, self.draws_, added, training=settings.training, seed=self.seed, report=progress
        )
        scores = scored_by(self.anomaly_score, draws, kept.plan.draws)
        scorer, nll = AutoencoderScorer(scores=scores, typical=None, kept=kept).with_typical(kept.values)
        plan = settings.plan_of_scores(kept.plan)
        plan = plan if settings.trimming is None else settings.trimming.calibrated(plan, nll)
        new = Detector(**self.get_params(deep=False))
        n_training = chain.n_training + len(rows)
        known = chain.familiarity
        return new._keep(new._chain(chain.inputs, scorer, nll, plan, kept.group_names, drift, known, n_training))

    def _fit(
        self,
        X: Any,
        groups: Any,
        progress: Report,
        start: Draws | None = None,
        warm_epochs: int | None = None,
        workers: Workers | None = None,
        confirmed: int = 0,
    ) -> Self:
        settings = self.settings_in_use()
        examples = TrainingExamples.of(X, type(self).__name__)
        rows = examples.rows
        like_new = len(rows) - confirmed
        members = examples.given.group_names(groups)
        machines = examples.machines
        within = machines if self.smallest_group is None else needed_groups(members)
        plan = settings.calibration_for(like_new, rows.values.shape[1:]).plan(
            like_new, settings.posterior.count, self.seed, None if within is None else within[:like_new]
        )
        settings.check_score(min(plan.draws))
        plan = plan.with_added(like_new, confirmed)
        if settings.trimming is not None:
            halves = settings.trimming.halves(plan, like_new, self.seed)
            plan = settings.trimming.trained(plan, halves, self._judging_nll(examples, halves, progress, workers))
        inputs = self._inputs(examples, plan, settings)
        scaled = inputs.prepared(rows).values  # refuses what no histogram could hold either
        drift = DriftReference.fit(inputs.followed(rows)[:like_new], inputs.value_schema.encoded_names, seed=self.seed)
        warm = start is not None and start.autoencoder.network.input_shape == inputs.value_shape and not plan.unseen
        training = settings.training
        if warm_epochs is not None:
            if not (warm and settings.posterior.warm_start):
                raise ConfigError(
                    "`epochs` is for an update that starts from the weights there are, and this one trains anew: leave "
                    "it out, or fit with calibration=TrainScores()."
                )
            training = training.replaced(epochs=warm_epochs)
        draws = fit_parts(
            settings.posterior,
            settings.autoencoder_for(inputs.input_shape, plan, self.device),
            scaled,
            plan,
            training=training,
            seed=self.seed,
            report=progress,
            start=start if warm else None,
            workers=workers,
        )
        kept = None if draws.sums is None else KeptRows.of(scaled, plan, members)
        scores = scored_by(self.anomaly_score, draws, plan.draws)
        scorer, nll = AutoencoderScorer(scores=scores, typical=None, kept=kept).with_typical(scaled)
        plan = settings.plan_of_scores(plan)
        if settings.trimming is not None:
            plan = settings.trimming.calibrated(plan, nll)
        known = self._familiarity(inputs, scaled[plan.trained], None if machines is None else machines[plan.trained])
        return self._keep(self._chain(inputs, scorer, nll, plan, members, drift, known, len(rows)))

    def _familiarity(
        self,
        inputs: Inputs,
        scaled: Float[np.ndarray, "examples ..."],
        machines: Shaped[np.ndarray, " examples"] | None = None,
    ) -> Familiarity:
        values, windows = inputs.in_units_of_the_range(scaled), len(inputs.input_shape) == 2
        return Familiarity.fit(values, in_order=windows, seed=self.seed, groups=machines)

    def _inputs(self, examples: TrainingExamples, plan: Plan, settings: "DetectorSettings") -> Inputs:
        """What is learned of the rows that some draw is trained on, before any is."""
        return Inputs.fit(
            examples,
            plan.trained,
            scaling=settings.scaling,
            missing=self.missing,
            unseen=self.unseen,
            margin=self.range_margin,
            spectra=settings.spectra_for(examples.rows.values.shape[1:]),
            detector=type(self).__name__,
        )

    def _judging_nll(
        self, examples: TrainingExamples, plan: Plan, progress: Report, workers: Workers | None
    ) -> Float[np.ndarray, "draws examples"]:
        """The NLL of all rows under draws that are trained by a plan to judge them, and then forgotten."""
        settings = self.settings_in_use().judging
        inputs = self._inputs(examples, plan, settings)
        values = inputs.prepared(examples.rows).values
        if not settings.scaling.bounded:
            values = np.clip(values, -FARTHEST, FARTHEST)
        draws = fit_parts(
            settings.posterior,
            settings.autoencoder_for(inputs.input_shape, plan, self.device),
            values,
            plan,
            training=settings.training,
            seed=self.seed,
            report=lambda told: progress(dataclasses.replace(told, stage=english("looking for suspects"))),
            workers=workers,
        )
        return scores_of(AutoencoderScorer(scores=draws, typical=None), values)

    def held_out_scores(
        self, X: Any, *, progress: Report = silent, workers: Workers | None = None
    ) -> Float[np.ndarray, " examples"]:
        """The mean NLL of every training example by draws that have not seen it; nothing is kept.

        Args:
            X: what `fit` is given, but for a stream.
            progress: called with a `Progress` after every epoch.
            workers: as for `fit`.
        """
        if isinstance(X, ExampleStream):
            raise ConfigError("examples that are streamed are too many to be scored one against the others.")
        examples, folds = TrainingExamples.of(X, type(self).__name__), SUSPECT_FOLDS
        draws = max(folds, self.settings_in_use().posterior.count)
        plan = CrossFit(folds=folds).plan(len(examples.rows), draws, self.seed)
        left = np.setdiff1d(np.arange(len(examples.rows)), np.concatenate([fold.calibrated for fold in plan.parts]))
        first = dataclasses.replace(
            plan.parts[0],
            trained=np.setdiff1d(plan.parts[0].trained, left),
            calibrated=np.sort(np.concatenate([plan.parts[0].calibrated, left])),
        )
        plan = dataclasses.replace(plan, parts=(first, *plan.parts[1:]))
        nll = self._judging_nll(examples, plan, progress, workers)
        scores = np.empty(len(examples.rows))
        for fold, own in zip(plan.parts, held_out_scores(plan, nll), strict=True):
            scores[fold.calibrated] = own
        return scores

    def _fit_stream(self, stream: ExampleStream, groups: Any, progress: Report, workers: Workers | None) -> Self:
        settings, outline = self.settings_in_use(), stream.outline
        if groups is not None:
            raise ConfigError("streamed examples have their groups in a column: name it in the roles of the table.")
        if not stream.fits and self.trimming is not None:
            raise ConfigError(
                "`trimming` is for examples that fit into memory, and these are streamed. Leave it out, or let the "
                "buffer hold them all."
            )
        if stream.fits:
            return self._fit(stream.read(), None, progress, workers=workers)
        calibration = settings.calibration_for(outline.examples, outline.shape, one_fold=True)
        known = survey(
            stream,
            outline,
            Split.of(calibration, stream, outline.examples, self.seed),
            scaling=settings.scaling,
            missing=self.missing,
            unseen=self.unseen,
            margin=self.range_margin,
            spectra=settings.spectra_for(outline.shape),
            report=progress,
        )
        inputs = Inputs(
            schema=outline.schema,
            intake=known.intake,
            input_shape=outline.shape,
            names=outline.schema.encoded_names,
            findings=data_findings(
                known.sample,
                outline.schema,
                by_range=settings.scaling.by_range,
                quality=known.intake.quality,
                examples=outline.examples,
            ),
            detector=type(self).__name__,
        )
        drift = DriftReference.fit(
            inputs.followed(Rows(values=known.sample)), inputs.value_schema.encoded_names, seed=self.seed
        )
        order, rows = Order(posterior=settings.posterior, trained=None, seed=self.seed), ScaledRows(known, self.seed)
        draws = fit_orders(
            [order],
            settings.autoencoder_of(outline.shape, len(rows), self.device),
            rows,
            training=settings.training,
            report=progress,
            workers=workers,
        )
        scores = scored_by(self.anomaly_score, draws, (draws.count,))
        scorer, _ = AutoencoderScorer(scores=scores, typical=None).with_typical(known.intake.scaled(known.sample))
        nll, plan, members = known.reference_scores(scores, progress)
        if draws.sums is not None:
            scorer = dataclasses.replace(scorer, kept=known.kept(rows, members, draws.count, progress))
        familiarity = self._familiarity(inputs, known.intake.scaled(known.sample))
        return self._keep(self._chain(inputs, scorer, nll, plan, members, drift, familiarity, outline.examples))

    def _chain(
        self,
        inputs: Inputs,
        scorer: AutoencoderScorer,
        nll: Float[np.ndarray, "draws examples"],
        plan: Plan,
        groups: Shaped[np.ndarray, " examples"] | None,
        drift: DriftReference,
        familiarity: Familiarity | None,
        n_training: int,
    ) -> Chain:
        settings = self.settings_in_use()
        return Chain.fit(
            inputs,
            scorer,
            nll,
            plan,
            conversion=settings.conversion,
            rule=settings.referral,
            false_alarms=settings.false_alarms,
            anomaly_threshold=self.anomaly_threshold,
            groups=groups,
            smallest_group=self.smallest_group,
            drift_reference=drift,
            familiarity=familiarity,
            novelty_limit=self.novelty_limit,
            n_training=n_training,
            remembered=not settings.posterior.TRAINED,
        )

    @property
    def calibration_(self) -> Calibration:
        """The calibration asked for, or the one that was chosen when it was fitted."""
        reference = self.reference_
        one_fold = reference is not None and reference.unseen and not reference.part.any()
        settings, shape = self.settings_in_use(), self.input_shape_
        return settings.calibration_for(self.n_training_, shape, one_fold=one_fold)

    @property
    def draws_(self) -> Draws:
        """The posterior draws."""
        return self._scorer.draws

    @property
    def scores_(self) -> Draws | DrawScore:
        """What gives the scores: the draws, or what makes another score than the NLL of them."""
        return self._scorer.scores

    @property
    def typical_nll_(self) -> Float[np.ndarray, "draws ..."] | None:
        """Mean score of every value over the training examples, per draw; None for models saved without."""
        return self._scorer.typical

    @property
    def kept_rows_(self) -> KeptRows | None:
        """Rows to calibrate again with, with `RandomFeatures(keep_sums=True)`; None otherwise."""
        return self._scorer.kept

    @property
    def _scorer(self) -> AutoencoderScorer:
        scorer = self.fitted_chain.scorer
        assert isinstance(scorer, AutoencoderScorer)
        return scorer

    def nll_per_feature(self, X: Any) -> Float[np.ndarray, "draws examples ..."]:
        """Score of every value under every draw; its mean over an example's values is the example's score."""
        return self.scores_.nll_apart(self.fitted_chain.inputs.prepared(X).values)[1]

    def reconstruction(self, X: Any) -> Float[np.ndarray, "draws examples ..."]:
        """What every draw takes every example for, in scaled units."""
        return self.draws_.reconstruction(self.fitted_chain.inputs.prepared(X).values)

    def _default(self, name: str) -> Settings | None:
        """What None stands for; scaling and likelihood are those that suit the posterior."""
        posterior = self.posterior if isinstance(self.posterior, Posterior) else DEFAULT_POSTERIOR
        return {"scaling": posterior.SCALING, "likelihood": posterior.LIKELIHOOD}.get(name) or super()._default(name)

    def settings_in_use(self) -> "DetectorSettings":
        """The settings with the defaults put in, checked."""
        settings = DetectorSettings(
            **self._with_defaults(),
            architecture=self.architecture,
            calibration=self.calibration,
            spectra=self.spectra,
            trimming=self.trimming,
            anomaly_score=self.anomaly_score,
        )
        self._check_scalars()
        require_device(self.device)
        if settings.architecture is not None:
            settings.posterior.check_architecture(settings.architecture)
        if self.training is not None and not settings.posterior.TRAINED:
            raise ConfigError(
                f"`training` is for posteriors that are trained, and {type(settings.posterior).__name__} is computed: "
                "leave it out, or choose one that is trained, such as posterior=AnchoredEnsemble()."
            )
        if settings.likelihood.unit_interval and not settings.scaling.bounded:
            raise ConfigError(
                f"{type(settings.likelihood).__name__} needs data within [0, 1]: set `scaling=MinMax(clip=True)`."
            )
        settings.check_score(settings.posterior.count)
        refuse_groups(settings.trimming, self.smallest_group)
        network, scaling = self.architecture, settings.scaling
        place, inner = (
            ("architecture.network", network.network) if isinstance(network, Coalition) else ("architecture", network)
        )
        if network is not None and network.unit_interval and not scaling.unit_interval:
            raise ConfigError(
                f'`{place}.last_activation` must be "none" with {type(scaling).__name__}, whose values are not '
                f"within [0, 1], got 'sigmoid'. Change it, or set `scaling=MinMax()`."
            )
        if isinstance(inner, BlockArchitecture) and settings.likelihood.unit_interval and not inner.unit_interval:
            raise ConfigError(
                f'`{place}.last_activation` must be "sigmoid" with {type(settings.likelihood).__name__}, which is for '
                f"reconstructions within [0, 1], got {inner.last_activation!r}."
            )
        return settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class DetectorSettings(ChainSettings):
    """A detector's settings with the defaults put in, and checked."""

    posterior: Posterior
    architecture: Architecture | None
    calibration: Calibration | None
    trimming: Trimming | None
    likelihood: Likelihood
    training: Training
    scaling: Scaling
    spectra: Spectra | Literal[False] | None
    anomaly_score: ScoreName | None

    @property
    def draw_score(self) -> type[DrawScore] | None:
        """What makes the scores; None where the draws do."""
        return None if self.anomaly_score is None or self.anomaly_score == "nll" else SCORES[self.anomaly_score]

    def check_score(self, draws: int) -> None:
        """Refuse a score that so few draws, or the likelihood, cannot have."""
        if self.draw_score is not None:
            self.draw_score.check(str(self.anomaly_score), draws, self.likelihood)

    def plan_of_scores(self, plan: Plan) -> Plan:
        """The plan with scores in place of draws: where all draws of a fold give one together, it has one."""
        return plan.one_each() if self.draw_score is not None and self.draw_score.TOGETHER else plan

    def spectra_for(self, input_shape: tuple[int, ...]) -> Spectra | None:
        """What makes features of examples of this shape; None takes them as they are."""
        return chosen_spectra(self.spectra, self.posterior.SPECTRA, input_shape)

    def value_shape_for(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of what the network gets of examples of this shape."""
        spectra = self.spectra_for(input_shape)
        return input_shape if spectra is None else (spectra.of_shape(*input_shape).count,)

    def architecture_for(self, input_shape: tuple[int, ...], rows: int) -> Architecture:
        """The architecture asked for, or the one that suits the posterior, examples of this shape and so many rows."""
        if self.architecture is not None:
            return self.architecture
        shape = self.value_shape_for(input_shape)
        usual = self.posterior.architecture_for(shape, rows)
        if isinstance(usual, Dense) and shape != input_shape:
            usual = usual.replaced(widths=tuple(min(int(factor * shape[0]), WIDEST) for factor in usual.expansions))
        return usual if self.scaling.unit_interval else usual.unbounded

    @property
    def judging(self) -> "DetectorSettings":
        """The same for judging the training rows themselves: bad ones must not stretch the scale they are judged by."""
        if self.likelihood.unit_interval:
            return self
        network = None if self.architecture is None else self.architecture.unbounded
        return self.replaced(scaling=Robust(), architecture=network)

    def autoencoder_for(self, input_shape: tuple[int, ...], plan: Plan, device: str = "cpu") -> Autoencoder:
        """What is fitted on the examples of a plan, of this shape, and where."""
        return self.autoencoder_of(input_shape, min(len(fold.trained) for fold in plan.parts), device)

    def autoencoder_of(self, input_shape: tuple[int, ...], rows: int, device: str = "cpu") -> Autoencoder:
        """What is fitted on so many examples of this shape, and where."""
        architecture = self.architecture_for(input_shape, rows)
        network = architecture.build(
            self.value_shape_for(input_shape),
            code_noise=self.posterior.code_noise,
            output_noise=self.likelihood.output_noise,
        )
        return Autoencoder(network, self.likelihood, device, architecture)

    def calibration_for(self, examples: int, input_shape: tuple[int, ...], *, one_fold: bool = False) -> Calibration:
        """The calibration asked for, or the one that suits so many examples of this shape.

        Cross-fitting from the posterior's `FEW` rows on, since every row then trains and calibrates; held-out rows from
        its `MANY` rows on, where a quarter of them can be spared and the stricter promise is free; a single draw always
        holds out. With fewer rows than `FEW` none can be spared, and nothing is promised. See docs/calibration.md for
        the measurements.
        Windows are held out in stretches: neighbours overlap, or are alike, and must not be on both sides.

        Args:
            examples: N.
            input_shape: of one example.
            one_fold: whether all draws must be fitted on the same rows, as those of a stream are.
        """
        if self.calibration is not None:
            return self.calibration
        if examples < self.posterior.FEW:
            return TrainScores()
        windows = len(input_shape) == 2
        folds = self.posterior.count // (1 if self.draw_score is None else self.draw_score.FEWEST)  # at most
        if one_fold or examples >= self.posterior.MANY or folds < 2:
            return HoldOut(rows="last") if windows else HoldOut()
        usual = CrossFit(rows="in order") if windows else CrossFit()
        return usual if self.draw_score is None or folds >= usual.folds else usual.replaced(folds=folds)
