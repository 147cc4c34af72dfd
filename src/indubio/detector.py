"""Detector: the stages as one scikit-learn outlier detector.

rows -> checks, missing values, scaling -> draws -> nll (M, N) -> probability (M, N) -> uncertainties, verdict (N)

All that follows from the scores is in `scoring.py`, which other models share.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float

from indubio.autoencoders import Architecture, Autoencoder, Conv1d, Dense, GaussianLikelihood, Likelihood
from indubio.data import MinMax, Missing, Prepared, Unseen
from indubio.decision import ANOMALY_THRESHOLD, Budget, Referral
from indubio.errors import ConfigError
from indubio.posteriors import AnchoredEnsemble, Draws, Posterior, Training
from indubio.posteriors.training import Report, silent
from indubio.probability import Conversion, Ecdf
from indubio.scoring import ScoringModel, ScoringSettings
from indubio.settings import Settings

SCORES_AT_ONCE = 2**22  # draws x rows held in memory at a time

_DEFAULTS: dict[str, Settings] = {
    "posterior": AnchoredEnsemble(),
    "likelihood": GaussianLikelihood(),
    "training": Training(),
    "conversion": Ecdf(),
    "scaling": MinMax(),
    "referral": Budget(),
}


class Detector(ScoringModel):
    """Anomaly detection by Bayesian autoencoders, with the uncertainty of every verdict.

    Fit on good examples only: rows of a table (N, D) or windows of sensor signals (N, L, K).

    Args:
        posterior: how the draws are made; None is `AnchoredEnsemble()`.
        architecture: the network; None is `Dense()` for tables and `Conv1d()` for windows.
        likelihood: None is `GaussianLikelihood()` with sigma = 1.
        training: epochs, batches, learning rate; None is `Training()`.
        conversion: from scores to probabilities; None is `Ecdf()`, with the customised scaling.
        scaling: None is `MinMax()`.
        missing: "error" refuses missing values; "median" fills in the training median and notes it; "refer" fills it in
            too, and refers every such example with the reason `bad_input`.
        unseen: what happens to categories that the training data did not have: "refer" (with `bad_input`) or "error".
        anomaly_threshold: an anomaly has at least this mean probability.
        referral: which verdicts go to a person; None is `Budget(share=0.05)` by total uncertainty.
        device: "cpu", or "cuda" or "mps" where there is one.
        seed: of everything random; the same seed gives the same model on the same machine.

    Attributes:
        draws_: the posterior draws.
        conversion_: the conversion, fitted on the training scores.
        referral_threshold_: uncertainty above which a verdict is referred.
        training_uncertainty_: probability and uncertainties of the training examples.
        schema_: names, kinds, ranges and categories of the training columns.
        intake_: what is done to rows before the network: filling in, scaling.
        input_shape_: shape of one example.
        n_features_in_: features of a table, or the length of a window.
        feature_names_in_: column names, when the training data had them.
        offset_: `decision_function` is `score_samples` minus this.
    """

    DEFAULTS = _DEFAULTS

    def __init__(
        self,
        *,
        posterior: Posterior | None = None,
        architecture: Architecture | None = None,
        likelihood: Likelihood | None = None,
        training: Training | None = None,
        conversion: Conversion | None = None,
        scaling: MinMax | None = None,
        missing: Missing = "error",
        unseen: Unseen = "refer",
        anomaly_threshold: float = ANOMALY_THRESHOLD,
        referral: Referral | None = None,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        self.posterior = posterior
        self.architecture = architecture
        self.likelihood = likelihood
        self.training = training
        self.conversion = conversion
        self.scaling = scaling
        self.missing = missing
        self.unseen = unseen
        self.anomaly_threshold = anomaly_threshold
        self.referral = referral
        self.device = device
        self.seed = seed

    def fit(self, X: Any, y: Any = None, *, progress: Report = silent) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Learn what good examples look like.

        Args:
            X: good examples only: array (N, D) or windows (N, L, K), DataFrame (pandas or polars),
                `Table` or `Windows`.
            y: ignored; scikit-learn's pipelines pass it.
            progress: called with a `Progress` after every epoch.
        """
        settings = self.settings_in_use()
        scaled = self._on_device(self._fit_intake(X, settings.scaling))
        network = settings.architecture_for(self.input_shape_).build(
            self.input_shape_,
            code_noise=settings.posterior.code_noise,
            output_noise=settings.likelihood.output_noise,
        )
        self.draws_: Draws = settings.posterior.fit(
            Autoencoder(network, settings.likelihood),
            scaled,
            training=settings.training,
            seed=self.seed,
            report=progress,
        )
        self._fit_verdicts(self.draws_.nll(scaled).cpu().numpy())
        return self

    def nll_per_feature(self, X: Any) -> Float[np.ndarray, "draws examples ..."]:
        """Score of every value under every draw; its mean over an example's values is the example's score."""
        return self.draws_.nll_per_feature(self._on_device(self._prepared(X))).cpu().numpy()

    def reconstruction(self, X: Any) -> Float[np.ndarray, "draws examples ..."]:
        """What every draw takes every example for, in scaled units."""
        return self.draws_.reconstruction(self._on_device(self._prepared(X))).cpu().numpy()

    def settings_in_use(self) -> "DetectorSettings":
        """The settings with the defaults put in, checked."""
        settings = DetectorSettings(**self._with_defaults(), architecture=self.architecture)
        self._check_scalars()
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:  # torch asserts where it was built without CUDA
            reason = str(error).splitlines()[0]
            raise ConfigError(f'`device` {self.device!r} cannot be used here: {reason}. Use "cpu".') from None
        if settings.likelihood.unit_interval and not settings.scaling.clip:
            raise ConfigError(
                f"{type(settings.likelihood).__name__} needs data within [0, 1]: set `scaling=MinMax(clip=True)`."
            )
        return settings

    def _on_device(self, prepared: Prepared) -> Float[torch.Tensor, "examples ..."]:
        return torch.from_numpy(prepared.values).to(self.device)

    def _scores(self, prepared: Prepared) -> Iterator[Float[np.ndarray, "draws examples"]]:
        rows = self._on_device(prepared)
        size = max(1, SCORES_AT_ONCE // self.draws_.count)
        for start in range(0, len(rows), size):
            yield self.draws_.nll(rows[start : start + size]).cpu().numpy()


@dataclasses.dataclass(frozen=True, kw_only=True)
class DetectorSettings(ScoringSettings):
    """A detector's settings with the defaults put in, and checked."""

    posterior: Posterior
    architecture: Architecture | None
    likelihood: Likelihood
    training: Training
    scaling: MinMax

    def architecture_for(self, input_shape: tuple[int, ...]) -> Architecture:
        """The architecture asked for, or the usual one for this shape."""
        if self.architecture is not None:
            return self.architecture
        return Dense() if len(input_shape) == 1 else Conv1d()
