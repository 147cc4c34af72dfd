"""Detector: the stages as one scikit-learn outlier detector.

rows -> checks, missing values, scaling -> draws -> nll (M, N) -> probability (M, N) -> uncertainties, verdict (N)

Signs: every native name is high for anomalous (`nll`, `probability`). Only the methods of scikit-learn's contract
keep its signs: `predict` gives +1 for inliers and -1 for outliers, `score_samples` and `decision_function` are low
for outliers.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from indubio.assessment import Assessment
from indubio.autoencoders import Architecture, Autoencoder, Conv1d, Dense, GaussianLikelihood, Likelihood
from indubio.data import FittedMinMax, MinMax, Missing, filled, medians, require_finite, require_numbers
from indubio.decision import ANOMALY_THRESHOLD, Budget, Referral, predictions, uncertainty_values, verdicts
from indubio.errors import ConfigError, DataError, ShapeError
from indubio.posteriors import AnchoredEnsemble, Draws, Posterior, Training
from indubio.posteriors.training import Report, silent
from indubio.probability import Conversion, Ecdf, FittedConversion
from indubio.settings import Settings
from indubio.uncertainty import Uncertainty, mean_nll, quantify

SCORES_AT_ONCE = 2**22  # draws x rows held in memory at a time


class Detector(OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Anomaly detection by Bayesian autoencoders, with the uncertainty of every verdict.

    Fit on good examples only: rows of a table (N, D) or windows of sensor signals (N, L, K).

    Args:
        posterior: how the draws are made; None is `AnchoredEnsemble()`.
        architecture: the network; None is `Dense()` for tables and `Conv1d()` for windows.
        likelihood: None is `GaussianLikelihood()` with sigma = 1.
        training: epochs, batches, learning rate; None is `Training()`.
        conversion: from scores to probabilities; None is `Ecdf()`, with the customised scaling.
        scaling: None is `MinMax()`.
        missing: "error" refuses missing values, "median" replaces them by the training median.
        anomaly_threshold: an anomaly has at least this mean probability.
        referral: which verdicts go to a person; None is `Budget(share=0.05)` by total uncertainty.
        device: "cpu", or "cuda" or "mps" where there is one.
        seed: of everything random; the same seed gives the same model on the same machine.

    Attributes:
        draws_: the posterior draws.
        conversion_: the conversion, fitted on the training scores.
        referral_threshold_: uncertainty above which a verdict is referred.
        training_uncertainty_: probability and uncertainties of the training examples.
        input_shape_: shape of one example.
        n_features_in_: features of a table, or the length of a window.
        feature_names_in_: column names, when the training data had them.
        offset_: `decision_function` is `score_samples` minus this.
    """

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
        self.anomaly_threshold = anomaly_threshold
        self.referral = referral
        self.device = device
        self.seed = seed

    def fit(self, X: Any, y: Any = None, *, progress: Report = silent) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Learn what good examples look like.

        Args:
            X: good examples only: array, DataFrame (pandas or polars), or windows (N, L, K).
            y: ignored; scikit-learn's pipelines pass it.
            progress: called with a `Progress` after every epoch.
        """
        settings = self._resolved()
        rows = self._checked(X, fitting=True)
        self.input_shape_: tuple[int, ...] = rows.shape[1:]
        self.medians_ = medians(rows) if self.missing == "median" else None
        self.scaling_: FittedMinMax = settings.scaling.fit(rows)
        network = settings.architecture_for(self.input_shape_).build(
            self.input_shape_,
            code_noise=settings.posterior.code_noise,
            output_noise=settings.likelihood.output_noise,
        )
        scaled = self._scaled(rows)
        self.draws_: Draws = settings.posterior.fit(
            Autoencoder(network, settings.likelihood),
            scaled,
            training=settings.training,
            seed=self.seed,
            report=progress,
        )
        training_nll = self.draws_.nll(scaled).cpu().numpy()
        self.n_training_ = len(rows)
        self.largest_training_nll_ = float(mean_nll(training_nll).max())
        self.conversion_: FittedConversion = settings.conversion.fit(training_nll)
        self.training_uncertainty_ = self._uncertainty(training_nll)
        self.referral_threshold_ = settings.referral.fit(self.training_uncertainty_)
        return self

    def refer_by(self, rule: Referral, X: Any = None) -> Self:
        """Change the referral rule without training again.

        Args:
            rule: the new rule.
            X: good examples that were not trained on, to fit the rule on; None takes the training examples.
        """
        check_is_fitted(self)
        uncertainty = self.training_uncertainty_ if X is None else self._all_uncertainties(X)
        self.referral_threshold_ = rule.fit(uncertainty)
        self.referral = rule
        return self

    def assess(self, X: Any) -> Assessment:
        """Verdict, probability and uncertainties of every example, in one pass through the network."""
        settings = self._resolved()
        parts = [self._assessed(nll, settings.referral) for nll in self._scores(X)]
        names = [field.name for field in dataclasses.fields(Assessment)]
        return Assessment(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def nll(self, X: Any) -> Float[np.ndarray, "draws examples"]:
        """Score of every example under every draw; high means anomalous."""
        return np.concatenate(list(self._scores(X)), axis=1)

    def nll_per_feature(self, X: Any) -> Float[np.ndarray, "draws examples ..."]:
        """Score of every value under every draw; its mean over an example's values is the example's score."""
        return self.draws_.nll_per_feature(self._ready(X)).cpu().numpy()

    def reconstruction(self, X: Any) -> Float[np.ndarray, "draws examples ..."]:
        """What every draw takes every example for, in scaled units."""
        return self.draws_.reconstruction(self._ready(X)).cpu().numpy()

    def predict(self, X: Any) -> Int[np.ndarray, " examples"]:
        """+1 for inliers, -1 for anomalies; referral plays no part here, `assess` has it."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def decision_function(self, X: Any) -> Float[np.ndarray, " examples"]:
        """Negative for anomalies, as scikit-learn wants it: `score_samples` minus `offset_`."""
        return self.score_samples(X) - self.offset_

    def score_samples(self, X: Any) -> Float[np.ndarray, " examples"]:
        """Minus the mean anomaly probability: low for anomalies, as scikit-learn wants it."""
        return -self._all_uncertainties(X).probability

    @property
    def offset_(self) -> float:
        """What `decision_function` subtracts from `score_samples`.

        An example at the threshold is an anomaly here, and 0 is an inlier in scikit-learn: hence the next smaller
        number.
        """
        return -float(np.nextafter(self.anomaly_threshold, -1.0))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Settings by name; with `deep`, also the fields of the settings inside, as `posterior__members`."""
        own: dict[str, Any] = super().get_params(deep=False)
        if not deep:
            return own
        inner = {
            f"{name}__{field.name}": getattr(value, field.name)
            for name, value in own.items()
            if isinstance(value, Settings)
            for field in dataclasses.fields(value)
        }
        return own | inner

    def set_params(self, **params: Any) -> Self:
        """Change settings; `posterior__members=20` replaces one field of the settings inside."""
        whole = {name: value for name, value in params.items() if "__" not in name}
        super().set_params(**whole)
        for name in params.keys() - whole.keys():
            outer, _, field = name.partition("__")
            settings = getattr(self, outer, None) or _DEFAULTS.get(outer)
            if not isinstance(settings, Settings):
                raise ConfigError(f"`{name}`: Detector has no settings {outer!r} to change a field of.")
            setattr(self, outer, settings.replaced(**{field: params[name]}))
        return self

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "median"
        return tags

    def _resolved(self) -> "_Resolved":
        chosen: dict[str, Any] = {
            name: default if getattr(self, name) is None else getattr(self, name) for name, default in _DEFAULTS.items()
        }
        settings = _Resolved(**chosen, architecture=self.architecture)
        if self.missing not in ("error", "median"):
            raise ConfigError(f'`missing` must be "error" or "median", got {self.missing!r}.')
        if not 0 <= self.anomaly_threshold <= 1:
            raise ConfigError(f"`anomaly_threshold` must be within [0, 1], got {self.anomaly_threshold}.")
        if settings.likelihood.unit_interval and not settings.scaling.clip:
            raise ConfigError(
                f"{type(settings.likelihood).__name__} needs data within [0, 1]: set `scaling=MinMax(clip=True)`."
            )
        return settings

    def _checked(self, X: Any, *, fitting: bool) -> Float[np.ndarray, "examples ..."]:
        require_numbers(X)
        if getattr(X, "ndim", 2) > 3:
            raise ShapeError(f"give rows (N, D) or windows (N, L, K), got {X.ndim} axes: {X.shape}.")
        try:
            rows: np.ndarray = validate_data(
                self, X, reset=fitting, dtype=np.float64, allow_nd=True, ensure_all_finite=False
            )
        except ValueError as error:
            raise DataError(str(error)) from error
        if not fitting and rows.shape[1:] != self.input_shape_:
            raise ShapeError(
                f"this detector was fitted on examples of shape {self.input_shape_}, got {rows.shape[1:]}."
            )
        names = getattr(self, "feature_names_in_", None)
        require_finite(rows, names, missing_allowed=self.missing == "median")
        return rows

    def _scaled(self, rows: Float[np.ndarray, "examples ..."]) -> Float[torch.Tensor, "examples ..."]:
        whole = rows if self.medians_ is None else filled(rows, self.medians_)
        return torch.from_numpy(self.scaling_.scaled(whole)).to(self.device)

    def _ready(self, X: Any) -> Float[torch.Tensor, "examples ..."]:
        check_is_fitted(self)
        return self._scaled(self._checked(X, fitting=False))

    def _scores(self, X: Any) -> Iterator[Float[np.ndarray, "draws examples"]]:
        rows = self._ready(X)
        size = max(1, SCORES_AT_ONCE // self.draws_.count)
        for start in range(0, len(rows), size):
            yield self.draws_.nll(rows[start : start + size]).cpu().numpy()

    def _uncertainty(self, nll: Float[np.ndarray, "draws examples"]) -> Uncertainty:
        p = self.conversion_.probability(nll)
        return quantify(p, nll, self.largest_training_nll_, self.n_training_)

    def _all_uncertainties(self, X: Any) -> Uncertainty:
        parts = [self._uncertainty(nll) for nll in self._scores(X)]
        names = [field.name for field in dataclasses.fields(Uncertainty)]
        return Uncertainty(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def _assessed(self, nll: Float[np.ndarray, "draws examples"], referral: Referral) -> Assessment:
        uncertainty = self._uncertainty(nll)
        verdict = verdicts(
            uncertainty.probability,
            uncertainty_values(uncertainty, referral.by),
            anomaly_threshold=self.anomaly_threshold,
            referral_threshold=self.referral_threshold_,
        )
        values = {field.name: getattr(uncertainty, field.name) for field in dataclasses.fields(uncertainty)}
        prediction = predictions(uncertainty.probability, self.anomaly_threshold)
        return Assessment(verdict=verdict, prediction=prediction, nll=mean_nll(nll), **values)


_DEFAULTS: dict[str, Settings] = {
    "posterior": AnchoredEnsemble(),
    "likelihood": GaussianLikelihood(),
    "training": Training(),
    "conversion": Ecdf(),
    "scaling": MinMax(),
    "referral": Budget(),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Resolved(Settings):
    """A detector's settings with the defaults put in, and checked."""

    posterior: Posterior
    architecture: Architecture | None
    likelihood: Likelihood
    training: Training
    conversion: Conversion
    scaling: MinMax
    referral: Referral

    def architecture_for(self, input_shape: tuple[int, ...]) -> Architecture:
        """The architecture asked for, or the usual one for this shape."""
        if self.architecture is not None:
            return self.architecture
        return Dense() if len(input_shape) == 1 else Conv1d()
