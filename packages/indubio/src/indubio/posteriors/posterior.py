"""Posterior: the settings of a method that turns training rows into M draws."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from indubio.errors import ConfigError
from indubio.networks import (
    Architecture,
    Autoencoder,
    ClosedForm,
    Conv1d,
    Conv2d,
    Dense,
    FitContext,
    GaussianLikelihood,
    Likelihood,
    Report,
    Training,
    TrainingRows,
    prior_scale_at,
    silent,
    temperature_without_prior,
)
from indubio.numerics import Shape
from indubio.posteriors.draws import Draws
from indubio.prepare import MinMax, Scaling, Spectra
from indubio.settings import NotNegative, Settings

PRIOR_SCALE = 1e-10  # lambda, paper, model hyperparameters


@dataclass(frozen=True, kw_only=True)
class Posterior(Settings, ABC):
    """A way to get M draws of the autoencoder's weights."""

    warm_start: ClassVar[bool] = True  # whether draws tell where their training ended
    code_noise: ClassVar[bool] = False  # whether the encoder must give a log variance of the code
    masks: ClassVar[bool] = False  # whether a draw is a mask over units
    TRAINED: ClassVar[bool] = True  # by epochs, as `Training` says
    CHAINS: ClassVar[bool] = False  # whether its draws are places of chains, which may not have mixed
    COUNT: ClassVar[str | None] = "draws"  # the setting that says how many draws; None where there can be only one
    SCALING: ClassVar[Scaling] = MinMax()  # what suits it, where nothing else is asked for
    LIKELIHOOD: ClassVar[Likelihood] = GaussianLikelihood()
    SPECTRA: ClassVar[Spectra | Literal[False]] = False  # of windows
    FEW: ClassVar[int] = 20  # rows up to which none can be spared: it is compared with the scores it was trained on
    MANY: ClassVar[int] = 2000  # rows from which on some are held out: below, it is fitted once for every fold

    @property
    @abstractmethod
    def count(self) -> int:
        """How many draws a fit gives, M."""

    def with_count(self, draws: int) -> Self:
        """This posterior with another number of draws."""
        return self if draws == self.count or self.COUNT is None else self.replaced(**{self.COUNT: draws})

    def architecture_for(self, input_shape: Shape, rows: int) -> Architecture:
        """The network that suits it, where no other is asked for.

        Args:
            input_shape: of one example.
            rows: that a draw is fitted on.
        """
        del rows
        if len(input_shape) == 1:
            return Dense()
        return Conv1d() if len(input_shape) == 2 else Conv2d()

    def check_architecture(self, architecture: Architecture) -> None:
        """Refuse a network that it cannot fit."""
        if isinstance(architecture, ClosedForm):
            raise ConfigError(
                "{architecture} is not trained by steps, as {method} does: leave "
                "`architecture` out, or choose Dense(), Conv1d() or Conv2d().",
                architecture=type(architecture).__name__,
                method=type(self).__name__,
            )

    @abstractmethod
    def draws_of(self, context: FitContext) -> Draws:
        """Train, and give the draws; their precision is that of the rows."""

    def fit(
        self,
        autoencoder: Autoencoder,
        rows: TrainingRows,
        *,
        training: Training,
        seed: int,
        report: Report = silent,
        start: Draws | None = None,
    ) -> Draws:
        """Train on the rows and give the draws.

        Args:
            autoencoder: what is trained.
            rows: the training rows, in memory or streamed.
            training: how.
            seed: of everything random.
            report: told after every epoch, and every stretch of streamed rows.
            start: draws of the same autoencoder to start from instead of fresh weights. Priors stay what they are, the
                anchors of an ensemble too. A method whose draws do not tell where its training ended starts afresh.
        """
        weights = None if start is None or not self.warm_start else autoencoder.flat(start.weights)
        return self.draws_of(
            FitContext(autoencoder=autoencoder, rows=rows, training=training, seed=seed, report=report, start=weights)
        )


@dataclass(frozen=True, kw_only=True)
class TrainedPosterior(Posterior, ABC):
    """A posterior whose networks are trained step by step.

    Args:
        prior_scale: lambda, the weight of the prior term beside the mean NLL of a batch; "auto" is what the number of
            rows and their noise make it, see `data_prior`, for the cost of one more network.
    """

    prior_scale: NotNegative | Literal["auto"] = PRIOR_SCALE

    def prior_scale_for(self, context: FitContext) -> float:
        """The pull towards the prior, lambda, for these rows."""
        if self.prior_scale != "auto":
            return self.prior_scale
        return prior_scale_at(context, temperature_without_prior(context))


@dataclass(frozen=True, kw_only=True)
class SeparateDraws(Posterior, ABC):
    """A posterior each of whose draws is fitted by itself, so that several workers can share them."""

    def draws_of(self, context: FitContext) -> Draws:
        """Fit all draws, with all rows."""
        return self.some_draws(context, range(self.count))

    @abstractmethod
    def some_draws(self, context: FitContext, which: range) -> Draws:
        """Some of the draws, as they are among all of them."""
