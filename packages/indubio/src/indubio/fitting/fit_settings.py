"""The settings of a fit, passed whole: those of every fit, and those of a detector with a posterior."""

from dataclasses import dataclass
from typing import Literal

from indubio.calibration import Calibration, Plan, TrainScores
from indubio.chain import ChainSettings
from indubio.errors import ConfigError
from indubio.fitting.defaults import usual_architecture, usual_calibration
from indubio.fitting.trimming import Trimming
from indubio.judging import SCORES, DrawScore, ScoreName
from indubio.message import Message
from indubio.networks import (
    Architecture,
    Autoencoder,
    BlockArchitecture,
    Coalition,
    Likelihood,
    Training,
    require_device,
)
from indubio.posteriors import Posterior
from indubio.prepare import MinMax, PreparationSettings, Scaling, Spectra, chosen_spectra


@dataclass(frozen=True, kw_only=True)
class FitSettings(ChainSettings):
    """What every fit is set to, with the defaults put in."""

    calibration: Calibration | None
    scaling: Scaling | None
    spectra: Spectra | Literal[False] | None
    trimming: Trimming | None

    def calibration_for(
        self, examples: int, input_shape: tuple[int, ...], *, one_fold: bool = False, in_stretches: bool = False
    ) -> Calibration:
        """The calibration asked for, or the one that suits so many examples of this shape.

        Args:
            examples: N.
            input_shape: of one example.
            one_fold: whether all draws must be fitted on the same rows, as those of a stream are.
            in_stretches: whether neighbours are alike.
        """
        del examples, input_shape, one_fold, in_stretches
        return self.calibration or TrainScores()

    def spectra_for(self, input_shape: tuple[int, ...]) -> Spectra | None:
        """What makes features of examples of this shape; None takes them as they are."""
        return chosen_spectra(self.spectra, False, input_shape)

    def preparation_for(self, input_shape: tuple[int, ...]) -> PreparationSettings:
        """What is to be done to examples of this shape before they are scored."""
        return PreparationSettings(
            scaling=self.scaling or MinMax(),
            in_units=self.scaling is None,
            missing=self.missing,
            unseen=self.unseen,
            margin=self.range_margin,
            spectra=self.spectra_for(input_shape),
        )

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        if self.trimming is not None and self.trimming.reference == "drop" and self.smallest_group is not None:
            raise ConfigError(
                Message(
                    "with `smallest_group` the rows that calibrate cannot be trimmed: pass "
                    '`trimming=Trimming(reference="keep")`.'
                )
            )


@dataclass(frozen=True, kw_only=True)
class DetectorSettings(FitSettings):
    """A detector's settings with the defaults put in."""

    posterior: Posterior
    architecture: Architecture | None
    likelihood: Likelihood
    training: Training
    scaling: Scaling
    anomaly_score: ScoreName | None
    device: str

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

    def calibration_for(
        self, examples: int, input_shape: tuple[int, ...], *, one_fold: bool = False, in_stretches: bool = False
    ) -> Calibration:
        """The calibration asked for, or the one that suits so many examples of this shape.

        Args:
            examples: N.
            input_shape: of one example.
            one_fold: whether all draws must be fitted on the same rows, as those of a stream are.
            in_stretches: whether neighbours are alike.
        """
        if self.calibration is not None:
            return self.calibration
        return usual_calibration(
            self.posterior, self.draw_score, examples, input_shape, one_fold=one_fold, in_stretches=in_stretches
        )

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
        spectra = self.spectra_for(input_shape)
        views = () if spectra is None else tuple(spectra.of_shape(*input_shape).views.values())
        shape = self.value_shape_for(input_shape)
        return usual_architecture(self.posterior, shape, rows, views=views, unit_interval=self.scaling.unit_interval)

    def autoencoder_for(self, input_shape: tuple[int, ...], rows: int) -> Autoencoder:
        """What is fitted on so many examples of this shape, and where."""
        architecture = self.architecture_for(input_shape, rows)
        network = architecture.build(
            self.value_shape_for(input_shape),
            code_noise=self.posterior.code_noise,
            output_noise=self.likelihood.output_noise,
        )
        return Autoencoder(network, self.likelihood, self.device, architecture)

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        require_device(self.device)
        if self.architecture is not None:
            self.posterior.check_architecture(self.architecture)
        if self.likelihood.unit_interval and not self.scaling.bounded:
            raise ConfigError(
                "{likelihood} needs data within [0, 1]: set `scaling=MinMax(clip=True)`.",
                likelihood=type(self.likelihood).__name__,
            )
        self.check_score(self.posterior.count)
        super().check()
        self._check_last_activation()

    def check_training(self, given: Training | None) -> None:
        """Refuse settings of the training that would be ignored."""
        if given is not None and not self.posterior.TRAINED:
            raise ConfigError(
                "`training` is for posteriors that are trained, and {posterior} is computed: "
                "leave it out, or choose one that is trained, such as `posterior=AnchoredEnsemble()`.",
                posterior=type(self.posterior).__name__,
            )

    def _check_last_activation(self) -> None:
        network = self.architecture
        coalition = isinstance(network, Coalition)
        inner = network.network if isinstance(network, Coalition) else network
        place = "architecture.network" if coalition else "architecture"
        name = Message("`{place}.last_activation`", place=place)
        if network is not None and network.unit_interval and not self.scaling.unit_interval:
            raise ConfigError(
                '{name} must be "none" with {scaling}, whose values are not '
                "within [0, 1], got 'sigmoid'. Change it, or set `scaling=MinMax()`.",
                name=name,
                scaling=type(self.scaling).__name__,
            )
        if isinstance(inner, BlockArchitecture) and self.likelihood.unit_interval and not inner.unit_interval:
            raise ConfigError(
                '{name} must be "sigmoid" with {likelihood}, which is for reconstructions within [0, 1], got {got!r}.',
                name=name,
                likelihood=type(self.likelihood).__name__,
                got=inner.last_activation,
            )
