"""ScoringModel: all that follows from scores, for any model that can give them.

rows -> checks, missing values -> [the model: nll (M, N)] -> probability (M, N) -> uncertainties, verdict (N)

A model says what its settings are and how it scores prepared rows. What those scores mean, the intake of rows and the
methods of scikit-learn's contract are here, the same for all.

Signs: every native name is high for anomalous (`nll`, `probability`). Only the methods of scikit-learn's contract
keep its signs: `predict` gives +1 for inliers and -1 for outliers, `score_samples` and `decision_function` are low
for outliers.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, get_args

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from indubio.assessment import Assessment
from indubio.data import Intake, MinMax, Missing, Prepared, Rows, Schema, Table, Unseen
from indubio.data.checks import require_numbers
from indubio.data.incoming import named_rows, passed_through, training_schema
from indubio.data.windows import Windows
from indubio.decision import Reason, Referral, Verdict, predictions, uncertainty_values, verdicts
from indubio.errors import ConfigError, DataError, ShapeError, quoted
from indubio.probability import Conversion, FittedConversion
from indubio.settings import Settings
from indubio.uncertainty import Uncertainty, mean_nll, quantify


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoringSettings(Settings):
    """What every scoring model is set to, the defaults put in, and checked."""

    conversion: Conversion
    referral: Referral


class ScoringModel(OutlierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the detectors: from scores to probabilities, uncertainties and verdicts.

    A subclass takes the parameters below among its own. Its `fit` calls `_fit_intake`, fits its model on the rows that
    come back, and gives their scores to `_fit_verdicts`.

    Args:
        conversion: from scores to probabilities.
        referral: which verdicts go to a person.
        missing: "error" refuses missing values; "median" fills in the training median and notes it; "refer" fills it in
            too, and refers every such example with the reason `bad_input`.
        unseen: what happens to categories that the training data did not have: "refer" (with `bad_input`) or "error".
        anomaly_threshold: an anomaly has at least this mean probability.
    """

    DEFAULTS: ClassVar[Mapping[str, Settings]]  # by parameter: what None stands for

    conversion: Conversion | None
    referral: Referral | None
    missing: Missing
    unseen: Unseen
    anomaly_threshold: float
    seed: int

    input_shape_: tuple[int, ...]
    intake_: Intake
    schema_: Schema
    conversion_: FittedConversion
    training_uncertainty_: Uncertainty
    referral_threshold_: float
    largest_training_nll_: float
    n_training_: int

    @abstractmethod
    def settings_in_use(self) -> ScoringSettings:
        """The settings with the defaults put in, checked."""

    @abstractmethod
    def _scores(self, prepared: Prepared) -> Iterator[Float[np.ndarray, "draws examples"]]:
        """Score of every example under every draw, a block of examples after the other."""

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
        """Verdict, probability and uncertainties of every example, in one pass through the model."""
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
        own: dict[str, Any] = super().get_params(deep=deep)
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
        outer = {name: name.partition("__")[0] for name in params}
        whole = {
            name: value
            for name, value in params.items()
            if "__" not in name or hasattr(getattr(self, outer[name], None), "set_params")
        }
        super().set_params(**whole)
        for name in params.keys() - whole.keys():
            settings = getattr(self, outer[name], None) or self.DEFAULTS.get(outer[name])
            if not isinstance(settings, Settings):
                raise ConfigError(
                    f"`{name}`: {type(self).__name__} has no settings {outer[name]!r} to change a field of."
                )
            setattr(self, outer[name], settings.replaced(**{name.partition("__")[2]: params[name]}))
        return self

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def _with_defaults(self) -> dict[str, Any]:
        """The parameters that have a default in `DEFAULTS`, with it in place of None."""
        return {
            name: default if getattr(self, name) is None else getattr(self, name)
            for name, default in self.DEFAULTS.items()
        }

    def _check_scalars(self) -> None:
        for name, known in (("missing", get_args(Missing)), ("unseen", get_args(Unseen))):
            if getattr(self, name) not in known:
                raise ConfigError(f"`{name}` must be one of {quoted(known)}, got {getattr(self, name)!r}.")
        if not 0 <= self.anomaly_threshold <= 1:
            raise ConfigError(f"`anomaly_threshold` must be within [0, 1], got {self.anomaly_threshold}.")

    def _fit_intake(self, X: Any, scaling: MinMax) -> Prepared:
        """Learn what is to be done to rows before they are scored, and do it to the training rows."""
        rows = self._rows(X, fitting=True)
        self.input_shape_ = rows.values.shape[1:]
        self.intake_ = Intake.fit(rows, scaling=scaling, missing=self.missing, unseen=self.unseen)
        return self._prepare(rows)

    def _prepare(self, rows: Rows) -> Prepared:
        return self.intake_.prepare(rows)

    def _above_origin(self, nll: Float[np.ndarray, "draws examples"]) -> Float[np.ndarray, "draws examples"]:
        """Scores as they are compared: ties are relative to the size of a score, so 0 must mean something.

        It does for a likelihood's; a model with scores of any kind says here where they begin.
        """
        return nll

    def _fit_verdicts(self, training_nll: Float[np.ndarray, "draws examples"]) -> None:
        """Learn from the scores of the training examples what follows from a score."""
        settings = self.settings_in_use()
        self.n_training_ = training_nll.shape[1]
        compared = self._above_origin(training_nll)
        self.largest_training_nll_ = float(mean_nll(compared).max())
        self.conversion_ = settings.conversion.fit(compared)
        self.training_uncertainty_ = self._uncertainty(training_nll)
        self.referral_threshold_ = settings.referral.fit(self.training_uncertainty_)

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
        return self._prepare(self._rows(X, fitting=False))

    def _uncertainty(self, nll: Float[np.ndarray, "draws examples"]) -> Uncertainty:
        compared = self._above_origin(nll)
        p = self.conversion_.probability(compared)
        return quantify(p, compared, self.largest_training_nll_, self.n_training_)

    def _scores_and_uncertainty(self, prepared: Prepared) -> tuple[Float[np.ndarray, " examples"], Uncertainty]:
        """Mean score and uncertainties, block by block: (draws, examples) arrays of everything could be large."""
        parts = [(mean_nll(nll), self._uncertainty(nll)) for nll in self._scores(prepared)]
        names = [field.name for field in dataclasses.fields(Uncertainty)]
        joined = {name: np.concatenate([getattr(part, name) for _, part in parts]) for name in names}
        return np.concatenate([nll for nll, _ in parts]), Uncertainty(**joined)
