"""Detector: the stages as one scikit-learn outlier detector.

rows -> checks, missing values, scaling -> draws -> nll (M, N) -> probability (M, N) -> uncertainties, verdict (N)

Signs: every native name is high for anomalous (`nll`, `probability`). Only the methods of scikit-learn's contract
keep its signs: `predict` gives +1 for inliers and -1 for outliers, `score_samples` and `decision_function` are low
for outliers.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Self, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from indubio.assessment import Assessment
from indubio.autoencoders import Architecture, Autoencoder, Conv1d, Dense, GaussianLikelihood, Likelihood
from indubio.data import Intake, MinMax, Missing, Prepared, Rows, Schema, Table, Unseen
from indubio.data.checks import require_numbers
from indubio.data.incoming import named_rows, passed_through, training_schema
from indubio.data.windows import Windows
from indubio.decision import (
    ANOMALY_THRESHOLD,
    Budget,
    Reason,
    Referral,
    Verdict,
    predictions,
    uncertainty_values,
    verdicts,
)
from indubio.errors import ConfigError, DataError, ShapeError, quoted
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
        rows = self._rows(X, fitting=True)
        self.input_shape_: tuple[int, ...] = rows.values.shape[1:]
        self.intake_ = Intake.fit(rows, scaling=settings.scaling, missing=self.missing, unseen=self.unseen)
        network = settings.architecture_for(self.input_shape_).build(
            self.input_shape_,
            code_noise=settings.posterior.code_noise,
            output_noise=settings.likelihood.output_noise,
        )
        scaled = self._on_device(self.intake_.prepare(rows))
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
        uncertainty = self.training_uncertainty_ if X is None else self._scores_and_uncertainty(self._prepared(X))[1]
        self.referral_threshold_ = rule.fit(uncertainty)
        self.referral = rule
        return self

    def assess(self, X: Any) -> Assessment:
        """Verdict, probability and uncertainties of every example, in one pass through the network."""
        referral = self.settings_in_use().referral
        prepared = self._prepared(X)
        nll, uncertainty = self._scores_and_uncertainty(prepared)
        uncertain = verdicts(
            uncertainty.probability,
            uncertainty_values(uncertainty, referral.by),
            anomaly_threshold=self.anomaly_threshold,
            referral_threshold=self.referral_threshold_,
        )
        reason = np.where(uncertain == Verdict.REFER, Reason.UNCERTAIN.value, "")
        values = {field.name: getattr(uncertainty, field.name) for field in dataclasses.fields(uncertainty)}
        return Assessment(
            verdict=np.where(prepared.bad, Verdict.REFER.value, uncertain),
            reason=np.where(prepared.bad, Reason.BAD_INPUT.value, reason),
            prediction=predictions(uncertainty.probability, self.anomaly_threshold),
            nll=nll,
            notes=prepared.notes,
            passed=passed_through(X),
            **values,
        )

    def nll(self, X: Any) -> Float[np.ndarray, "draws examples"]:
        """Score of every example under every draw; high means anomalous."""
        return np.concatenate(list(self._scores(self._prepared(X))), axis=1)

    def nll_per_feature(self, X: Any) -> Float[np.ndarray, "draws examples ..."]:
        """Score of every value under every draw; its mean over an example's values is the example's score."""
        return self.draws_.nll_per_feature(self._on_device(self._prepared(X))).cpu().numpy()

    def reconstruction(self, X: Any) -> Float[np.ndarray, "draws examples ..."]:
        """What every draw takes every example for, in scaled units."""
        return self.draws_.reconstruction(self._on_device(self._prepared(X))).cpu().numpy()

    def predict(self, X: Any) -> Int[np.ndarray, " examples"]:
        """+1 for inliers, -1 for anomalies; referral plays no part here, `assess` has it."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def decision_function(self, X: Any) -> Float[np.ndarray, " examples"]:
        """Negative for anomalies, as scikit-learn wants it: `score_samples` minus `offset_`."""
        return self.score_samples(X) - self.offset_

    def score_samples(self, X: Any) -> Float[np.ndarray, " examples"]:
        """Minus the mean anomaly probability: low for anomalies, as scikit-learn wants it."""
        return -self._scores_and_uncertainty(self._prepared(X))[1].probability

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
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def settings_in_use(self) -> "DetectorSettings":
        """The settings with the defaults put in, checked."""
        chosen: dict[str, Any] = {
            name: default if getattr(self, name) is None else getattr(self, name) for name, default in _DEFAULTS.items()
        }
        settings = DetectorSettings(**chosen, architecture=self.architecture)
        for name, known in (("missing", get_args(Missing)), ("unseen", get_args(Unseen))):
            if getattr(self, name) not in known:
                raise ConfigError(f"`{name}` must be one of {quoted(known)}, got {getattr(self, name)!r}.")
        if not 0 <= self.anomaly_threshold <= 1:
            raise ConfigError(f"`anomaly_threshold` must be within [0, 1], got {self.anomaly_threshold}.")
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

    def _rows(self, X: Any, *, fitting: bool) -> Rows:
        if isinstance(X, Table | Windows):
            rows = self._named_rows(X, fitting=fitting)
        else:
            rows = self._array_rows(X, fitting=fitting)
        if not fitting and rows.values.shape[1:] != self.input_shape_:
            raise ShapeError(
                f"this detector was fitted on examples of shape {self.input_shape_}, got {rows.values.shape[1:]}."
            )
        return rows

    def _named_rows(self, data: Table | Windows, *, fitting: bool) -> Rows:
        if fitting:
            self.schema_ = training_schema(data)
        rows = named_rows(data, self.schema_)
        if fitting:
            self.n_features_in_ = rows.values.shape[1]
            self.feature_names_in_ = np.array(rows.names, dtype=object)
        return rows

    def _array_rows(self, X: Any, *, fitting: bool) -> Rows:
        if not fitting and self._needs_no_checks(X):
            return Rows(values=X)
        require_numbers(X)
        if getattr(X, "ndim", 2) > 3:
            raise ShapeError(f"give rows (N, D) or windows (N, L, K), got {X.ndim} axes: {X.shape}.")
        try:
            values: np.ndarray = validate_data(
                self, X, reset=fitting, dtype=np.float64, allow_nd=True, ensure_all_finite=False
            )
        except ValueError as error:
            raise DataError(str(error)) from error
        names = tuple(getattr(self, "feature_names_in_", ())) or None
        if fitting:
            self.schema_ = Schema.of_values(values, names)
        return Rows(values=values, names=names)

    def _needs_no_checks(self, X: Any) -> bool:
        # scikit-learn's checks cost as much as the network does on one row, and here they have nothing to find: numbers
        # as we want them, of the fitted shape, and no names to compare. Values are checked after, as always.
        return (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and len(X.shape) > 1
            and len(X) > 0
            and X.shape[1:] == self.input_shape_
            and not hasattr(self, "feature_names_in_")
        )

    def _prepared(self, X: Any) -> Prepared:
        check_is_fitted(self)
        return self.intake_.prepare(self._rows(X, fitting=False))

    def _on_device(self, prepared: Prepared) -> Float[torch.Tensor, "examples ..."]:
        return torch.from_numpy(prepared.values).to(self.device)

    def _scores(self, prepared: Prepared) -> Iterator[Float[np.ndarray, "draws examples"]]:
        rows = self._on_device(prepared)
        size = max(1, SCORES_AT_ONCE // self.draws_.count)
        for start in range(0, len(rows), size):
            yield self.draws_.nll(rows[start : start + size]).cpu().numpy()

    def _uncertainty(self, nll: Float[np.ndarray, "draws examples"]) -> Uncertainty:
        p = self.conversion_.probability(nll)
        return quantify(p, nll, self.largest_training_nll_, self.n_training_)

    def _scores_and_uncertainty(self, prepared: Prepared) -> tuple[Float[np.ndarray, " examples"], Uncertainty]:
        """Mean score and uncertainties, block by block: (draws, examples) arrays of everything could be large."""
        parts = [(mean_nll(nll), self._uncertainty(nll)) for nll in self._scores(prepared)]
        names = [field.name for field in dataclasses.fields(Uncertainty)]
        joined = {name: np.concatenate([getattr(part, name) for _, part in parts]) for name in names}
        return np.concatenate([nll for nll, _ in parts]), Uncertainty(**joined)


_DEFAULTS: dict[str, Settings] = {
    "posterior": AnchoredEnsemble(),
    "likelihood": GaussianLikelihood(),
    "training": Training(),
    "conversion": Ecdf(),
    "scaling": MinMax(),
    "referral": Budget(),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DetectorSettings(Settings):
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
