"""Inputs: examples in any form -> rows that are checked, filled in and scaled, with notes on what was wrong with them.

Arrays, frames, `Table`, `Windows` and `Images` are matched by name with what was trained on. What is wrong with a row
is found here or nowhere: after it there are only numbers.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from indubio.errors import DataError, ShapeError
from indubio.inputs import Examples, Intake, Missing, Prepared, Rows, Scaling, Schema, Spectra, Unseen
from indubio.inputs.checks import require_numbers
from indubio.inputs.data_findings import DataFinding, data_findings, few_examples, machine_levels, own_anomalies
from indubio.inputs.preparation import Beside
from indubio.inputs.reading import Reading


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingExamples:
    """Good examples, as numbers, and what they say of themselves.

    Args:
        given: the examples.
        rows: their values.
        schema: names, kinds, ranges and categories of the columns.
        machines: the machine of each window where several were recorded at the same time; else None.
    """

    given: Examples
    rows: Rows
    schema: Schema
    machines: Shaped[np.ndarray, " examples"] | None

    @classmethod
    def of(cls, X: Any, detector: str) -> "TrainingExamples":
        """Training data in any form.

        Args:
            X: array, frame, `Table`, `Windows` or `Images`.
            detector: whose, for messages.
        """
        given = examples_of(X, detector)
        schema = given.training_schema()
        return cls(given=given, rows=given.rows(schema), schema=schema, machines=given.machines)


def examples_of(X: Any, detector: str = "Detector") -> Examples:
    """Training data in any form as examples: arrays and frames become `Rows`, all else are examples already.

    Args:
        X: array, frame, `Table`, `Windows` or `Images`.
        detector: whose, for messages.
    """
    if isinstance(X, Examples):
        return X
    checks = _checks(detector)
    values = _checked(checks, X, fitting=True)
    names = vars(checks).get("feature_names_in_")
    return Rows(values=values, names=None if names is None else tuple(names))


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """From examples to what is scored.

    Args:
        schema: names, kinds, ranges and categories of the training columns.
        intake: what is done to rows before they are scored: filling in, scaling.
        input_shape: shape of one example.
        names: of the features, where the training data came with names.
        scaled: whether values are scaled; else they stay in the units of the data.
        reading: how the files were read that it was fitted on; None where it was not fitted on files.
        findings: what was odd about the training data.
        detector: whose, for messages.
    """

    schema: Schema
    intake: Intake
    input_shape: tuple[int, ...]
    names: tuple[str, ...] | None
    scaled: bool = True
    reading: Reading | None = None
    findings: tuple[DataFinding, ...] = ()
    detector: str = "Detector"

    @classmethod
    def fit(
        cls,
        examples: TrainingExamples,
        trained: Int[np.ndarray, " trained"],
        *,
        scaling: Scaling,
        missing: Missing,
        unseen: Unseen,
        margin: float | None = None,
        spectra: Spectra | None = None,
        scaled: bool = True,
        detector: str = "Detector",
    ) -> "Inputs":
        """Learn what is to be done to new examples.

        Args:
            examples: all good examples.
            trained: those that ranges and medians are learned from.
            scaling: how values are scaled.
            missing: what happens to missing values.
            unseen: what happens to new categories.
            margin: how far outside its training range a value may be.
            spectra: what makes features of windows; None takes them as they are.
            scaled: whether values are scaled.
            detector: whose, for messages.
        """
        rows = examples.rows.select(trained)
        intake = Intake.fit(
            rows,
            scaling=scaling,
            missing=missing,
            unseen=unseen,
            margin=margin,
            spectra=spectra,
            rate=examples.given.rate,
        )
        findings = data_findings(
            rows.values, examples.schema, by_range=scaled and scaling.by_range, quality=intake.quality
        )
        if examples.machines is not None:
            levels = machine_levels(rows.values, examples.machines[trained], examples.schema)
            findings = findings if levels is None else (*findings, levels)
        return cls(
            schema=examples.schema,
            intake=intake,
            input_shape=examples.rows.values.shape[1:],
            names=rows.names,
            scaled=scaled,
            findings=findings,
            detector=detector,
        )

    def calibrated(
        self, called: Bool[np.ndarray, " reference"], usual: float, *, examples: int, smallest_p: float | None
    ) -> "Inputs":
        """The same, with what is known after calibration: too few examples, or too many of them called anomalies.

        Args:
            called: which of its own reference examples the detector calls anomalies.
            usual: the share of good examples that are expected to be.
            examples: how many there are for training.
            smallest_p: the smallest p-value that there can be; None where there are none.
        """
        few = few_examples(examples, smallest_p)
        own = own_anomalies(int(np.count_nonzero(called)), len(called), usual)
        others = (finding for finding in self.findings if finding.kind not in ("few examples", "own anomalies"))
        return replace(self, findings=tuple(one for one in (few, *others, own) if one is not None))

    @cached_property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of what is scored of one example: its own, or that of the features of a window."""
        spectra = self.intake.spectra
        return self.input_shape if spectra is None else (spectra.count,)

    @cached_property
    def value_schema(self) -> Schema:
        """Names and ranges of what is scored: the columns or sensors themselves, or the features of windows."""
        spectra = self.intake.spectra
        return self.schema if spectra is None else spectra.schema(self.schema.names)

    def followed(self, X: Any) -> Float[np.ndarray, "examples ..."]:
        """What drift is looked for in, in its own units: values, NaN where they are missing, or features of windows."""
        values = self.rows(X).values
        return values if self.intake.spectra is None else self.intake.features(values)

    def prepared(self, X: Any, groups: Any = None) -> Prepared:
        """What is scored.

        Args:
            X: examples in any form; `Rows` are in the order of the schema.
            groups: the group of each; None takes the group column of a `Table`.
        """
        examples = self.examples(X)
        rows = self._rows(examples)
        prepared = self.intake.prepare(rows) if self.scaled else self.intake.completed(rows)
        return replace(prepared, beside=Beside.of(examples, groups))

    def examples(self, X: Any) -> Examples:
        """Examples in any form: arrays and frames become `Rows`, all else are examples already."""
        return X if isinstance(X, Examples) else Rows(values=self._array(X), names=self.names)

    def rows(self, X: Any) -> Rows:
        """Examples in any form as numbers, in the order of the schema; not checked or filled in yet."""
        return self._rows(self.examples(X))

    def _rows(self, examples: Examples) -> Rows:
        rows = examples.rows(self.schema)
        if rows.values.shape[1:] != self.input_shape:
            raise self._other_shape(rows.values.shape[1:])
        return rows

    def in_units_of_the_range(self, values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples ..."]:
        """Prepared values in units of the training range."""
        scaling = self.intake.scaling
        if self.scaled and scaling.unit is None:  # they are in these units already
            return values
        return scaling.in_ranges(values if self.scaled else scaling.scaled(values))

    def _array(self, X: Any) -> Float[np.ndarray, "examples ..."]:
        if self._needs_no_checks(X):
            return np.asarray(X)
        shape = getattr(X, "shape", ())
        if len(shape) > 2 and len(shape) != len(self.input_shape) + 1:
            raise self._other_shape(shape[1:])
        checks = _checks(self.detector)
        checks.n_features_in_ = self.input_shape[0]
        if self.names is not None:
            checks.feature_names_in_ = np.array(self.names, dtype=object)
        return _checked(checks, X, fitting=False)

    def _other_shape(self, got: tuple[int, ...]) -> ShapeError:
        grey = len(self.input_shape) == 3 and len(got) == 2
        way_out = " Give grey images a channel: images[..., None]." if grey else ""
        return ShapeError(f"this detector was fitted on examples of shape {self.input_shape}, got {got}.{way_out}")

    def _needs_no_checks(self, X: Any) -> bool:
        # scikit-learn's checks cost as much as the network does on one row, and here they have nothing to find: numbers
        # as we want them, of the fitted shape, and no names to compare. Values are checked after, as always.
        return (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and len(X.shape) > 1
            and len(X) > 0
            and X.shape[1:] == self.input_shape
            and self.names is None
        )


def _checks(detector: str) -> Any:
    """What scikit-learn's checks read names and numbers of features from, and write them to; called as the detector."""
    return type(detector, (BaseEstimator,), {})()


_REORDERED = "must be in the same order"  # scikit-learn's words, which its contract wants an error for
_OTHER_ORDER = (
    " Put them in order: X[detector.feature_names_in_]; or pass read_table(X), whose columns are matched by name."
)


def _checked(checks: Any, X: Any, *, fitting: bool) -> Float[np.ndarray, "examples ..."]:
    require_numbers(X)
    if getattr(X, "ndim", 2) > 4:
        raise ShapeError(f"give rows (N, D), windows (N, L, K) or images (N, H, W, C), got {X.ndim} axes: {X.shape}.")
    try:
        values: np.ndarray = validate_data(
            checks, X, reset=fitting, dtype=np.float64, allow_nd=True, ensure_all_finite=False
        )
    except ValueError as error:
        raise DataError(f"{str(error).rstrip()}{_OTHER_ORDER if _REORDERED in str(error) else ''}") from error
    return values
