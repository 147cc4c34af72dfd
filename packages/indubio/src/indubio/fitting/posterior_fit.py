"""PosteriorFit: the draws of a posterior, fitted and scored; what a `Detector` is fitted by."""

from dataclasses import dataclass, replace

from indubio.calibration import Plan
from indubio.chain import AutoencoderScorer
from indubio.errors import ConfigError
from indubio.fitting.fit_settings import DetectorSettings
from indubio.fitting.folds import fit_orders, orders_of
from indubio.fitting.streams import TrainingData
from indubio.fitting.training_data import TrainingScores
from indubio.judging import scored_by
from indubio.message import Message
from indubio.networks import Report, silent
from indubio.posteriors import AddsUp, Draws
from indubio.workers import Workers


@dataclass(frozen=True, kw_only=True, eq=False)
class PosteriorFit:
    """The draws of a posterior, and how they are fitted.

    Args:
        settings: of the detector.
        report: told after every epoch.
        workers: train folds and members side by side; None trains here.
        start: draws to start from, where the plan lets them; None starts afresh.
        epochs: passes over the rows where it starts from these; None is the setting.
    """

    settings: DetectorSettings
    report: Report = silent
    workers: Workers | None = None
    start: Draws | None = None
    epochs: int | None = None

    @property
    def draws(self) -> int:
        """How many draws the posterior has, M."""
        return self.settings.posterior.count

    @property
    def remembers(self) -> bool:
        """Draws that are computed give rows that they have seen the lowest scores there are."""
        return not self.settings.posterior.TRAINED

    @property
    def streams(self) -> bool:
        """Networks are trained batch by batch, and sums are added up block by block."""
        return True

    def check_plan(self, plan: Plan) -> None:
        """Refuse a score that so few draws of a fold cannot have."""
        self.settings.check_score(min(plan.draws))

    def scores(self, data: TrainingData) -> TrainingScores:
        """The draws, as what scores, and the scores of what calibrates."""
        settings, draws = self.settings, self._fitted(data)
        score = scored_by(settings.anomaly_score, draws, data.plan.draws)
        scored = data.scores(AutoencoderScorer(scores=score, typical=None))
        scorer, posterior = scored.scorer, settings.posterior
        if draws.sums is not None and isinstance(posterior, AddsUp) and isinstance(scorer, AutoencoderScorer):
            scorer = replace(scorer, kept=data.kept(scored.groups, posterior.measured_rows))
        return replace(scored, scorer=scorer, plan=settings.plan_of_scores(scored.plan))

    def _fitted(self, data: TrainingData) -> Draws:
        settings, start = self.settings, self.start
        fits = start is not None and start.autoencoder.network.input_shape == data.preparation.value_shape
        warm = fits and not data.plan.unseen
        training = settings.training
        if self.epochs is not None:
            if not (warm and settings.posterior.warm_start):
                raise ConfigError(
                    Message(
                        "`epochs` is for an update that starts from the weights there are, and this one trains anew: "
                        "leave it out, or fit with `calibration=TrainScores()`."
                    )
                )
            training = training.replaced(epochs=self.epochs)
        return fit_orders(
            orders_of(settings.posterior, data.plan, settings.seed),
            settings.autoencoder_for(data.preparation.input_shape, data.rows_per_draw),
            data.rows,
            training=training,
            report=self.report,
            start=start if warm else None,
            workers=self.workers,
        )
