"""TakesExamples: whatever form examples come in, they become rows that are checked, filled in and scaled."""

from typing import Any

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from indubio.calibration import Plan
from indubio.drift import DriftReference
from indubio.errors import DataError, ShapeError
from indubio.inputs import Intake, MinMax, Missing, Prepared, Rows, Schema, Table, Unseen
from indubio.inputs.checks import require_numbers
from indubio.inputs.named_rows import named_rows, training_schema
from indubio.inputs.windows import Windows
from indubio.pipeline.parameters import WithSettings


class TakesExamples(WithSettings):
    """An estimator of arrays, frames, `Table` and `Windows` that learns what is to be done to new ones."""

    missing: Missing
    unseen: Unseen
    range_margin: float | None = None

    input_shape_: tuple[int, ...]
    intake_: Intake
    schema_: Schema
    n_training_: int
    drift_reference_: DriftReference

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def _training_rows(self, X: Any) -> Rows:
        """The training rows, and what they say of their own shape and names."""
        rows = self._rows(X, fitting=True)
        self.input_shape_ = rows.values.shape[1:]
        self.n_training_ = len(rows)
        return rows

    def _fit_intake(self, X: Any, scaling: MinMax) -> Prepared:
        """What all training rows are before they are scored, and learn what is to be done to new ones."""
        return self._learn_intake(self._training_rows(X), scaling)

    def _learn_intake(self, rows: Rows, scaling: MinMax, plan: Plan | None = None) -> Prepared:
        """Learn what is to be done to rows before they are scored, and do it to the training rows.

        Args:
            rows: all training rows.
            scaling: to the range of the rows that are trained on.
            plan: says which these are; None is all.
        """
        trained = rows if plan is None else rows.taken(plan.trained)
        self.intake_ = Intake.fit(
            trained, scaling=scaling, missing=self.missing, unseen=self.unseen, margin=self.range_margin
        )
        prepared = self._prepare(rows)  # refuses what no histogram could hold either
        like_new = len(rows) - (0 if plan is None else plan.added)
        self.drift_reference_ = DriftReference.fit(rows.values[:like_new], self.schema_.encoded_names)
        return prepared

    def _prepare(self, rows: Rows) -> Prepared:
        return self.intake_.prepare(rows)

    def _rows(self, X: Any, *, fitting: bool) -> Rows:
        if isinstance(X, Table | Windows):
            rows = self._named_rows(X, fitting=fitting)
        elif isinstance(X, Rows) and not fitting:  # in the order of the schema already
            rows = X
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
        if not hasattr(self, "input_shape_"):  # scikit-learn's own look at all attributes takes longer
            check_is_fitted(self)
        return self._prepare(self._rows(X, fitting=False))
