"""Preparation: from examples in any form to what is scored, with notes on what is wrong with them.

Columns are matched by name with the training data and become numbers, missing values are filled in, sensors inspected,
values scaled or made into the features of windows. A bad value is never scored silently: it is an error, or it is
filled in and noted, or its example is referred. What is wrong with data is found here or nowhere: after it there are
only numbers.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Shaped

from indubio.data import Examples, Reading, Rows, Schema, checked_array, pause_notes, require_finite, table_of_frame
from indubio.errors import DataError, ShapeError
from indubio.prepare.dependence_findings import KINDS, DependenceFacts, copies_together, neighbours_alike
from indubio.prepare.finding_rules import DataFinding, data_findings, few_examples, machine_levels, own_anomalies
from indubio.prepare.missing import filled
from indubio.prepare.notes import joined_notes, named_flags
from indubio.prepare.prepared import Beside, Inspected, Prepared
from indubio.prepare.quality import QualityLimits, quality_flags
from indubio.prepare.scaling import FittedScaling, Scaling, anywhere
from indubio.prepare.spectra import FittedSpectra, Spectra
from indubio.prepare.training_examples import Survey
from indubio.settings import NotNegative, Settings
from indubio.texts import english

Missing = Literal["error", "median", "refer"]
Unseen = Literal["error", "refer"]
UNFOUND = DependenceFacts()


@dataclass(frozen=True, kw_only=True)
class PreparationSettings(Settings):
    """What is to be done to examples before they are scored.

    Args:
        scaling: how values are scaled.
        in_units: whether they stay in the units of the data, and only their ranges are learned.
        missing: what happens to missing values.
        unseen: what happens to new categories.
        margin: how far outside its training range a value may be.
        spectra: what makes features of windows; None takes them as they are.
    """

    scaling: Scaling
    in_units: bool = False
    missing: Missing = "error"
    unseen: Unseen = "refer"
    margin: NotNegative | None = None
    spectra: Spectra | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Preparation:
    """What was learned of the training examples before anything was fitted, and is done to all that are scored.

    Args:
        schema: names, kinds, ranges and categories of the training columns.
        named: whether they came with names.
        input_shape: shape of one example.
        scaling: the ranges of the training rows, or of their features, and what values are scaled by.
        medians: of each column or sensor; None when missing values are an error.
        missing: what happens to missing values.
        unseen: what happens to new categories.
        quality: what the sensors of training windows did; None for tables and images.
        margin: how far outside the training range a value may be, in units of that range, before its example is
            referred; None for any distance.
        spectra: what makes features of windows; None where values are taken as they are.
        in_units: whether values stay in the units of the data, and are not scaled.
        reading: how the files were read that it was fitted on; None where it was not fitted on files.
        findings: what was odd about the training data.
        detector: whose, for messages.
    """

    schema: Schema
    named: bool
    input_shape: tuple[int, ...]
    scaling: FittedScaling
    medians: Float[np.ndarray, " columns"] | None
    missing: Missing
    unseen: Unseen
    quality: QualityLimits | None = None
    margin: float | None = None
    spectra: FittedSpectra | None = None
    in_units: bool = False
    reading: Reading | None = None
    findings: tuple[DataFinding, ...] = ()
    detector: str = "Detector"

    @classmethod
    def fit(cls, survey: Survey, settings: PreparationSettings, detector: str) -> "Preparation":
        """Learn what is to be done to new examples.

        Args:
            survey: of those that some draw is trained on.
            settings: what is to be done.
            detector: whose, for messages.
        """
        middle = None if settings.missing == "error" else survey.medians()
        whole, spectra = partial(_whole, middle), None
        if settings.spectra is None:
            summary, sample = survey.summary(None)
        else:
            fitted = settings.spectra.fit(whole(survey.sample), survey.rate)
            summary, sample = survey.summary(lambda values: fitted.features(whole(values)))
            spectra = replace(fitted, smallest=summary.smallest, largest=summary.largest)
        quality = survey.quality()
        return cls(
            schema=survey.schema,
            named=survey.named,
            input_shape=survey.sample.shape[1:],
            scaling=settings.scaling.of_summary(summary, sample),
            medians=middle,
            missing=settings.missing,
            unseen=settings.unseen,
            quality=quality,
            margin=settings.margin,
            spectra=spectra,
            in_units=settings.in_units,
            findings=_findings(survey, settings, quality),
            detector=detector,
        )

    def calibrated(
        self,
        called: Bool[np.ndarray, " reference"],
        usual: float,
        *,
        examples: int,
        smallest_p: float | None,
        dependence: DependenceFacts = UNFOUND,
    ) -> "Preparation":
        """This preparation, with what calibration finds: too few examples, or too many of them called anomalies.

        Args:
            called: which of its own reference examples the detector calls anomalies.
            usual: the share of good examples that are expected to be.
            examples: how many there are for training.
            smallest_p: the smallest p-value that there can be; None where there are none.
            dependence: how examples depend on each other, and what was made of it.
        """
        few = few_examples(examples, smallest_p)
        own = own_anomalies(int(np.count_nonzero(called)), len(called), usual)
        alike = neighbours_alike(dependence, usual, len(self.input_shape))
        found = [one for one in (few, copies_together(dependence), own, alike) if one is not None]
        now = {"few examples", "own anomalies", *(one.kind for one in found), *(KINDS if alike else ())}
        others = [one for one in self.findings if one.kind not in now]
        first = [one for one in found if one.kind in ("few examples", "copies")]
        return replace(self, findings=(*first, *others, *(one for one in found if one not in first)))

    @property
    def neighbours_alike(self) -> bool:
        """Whether training examples that follow each other were found to be alike."""
        return any(finding.kind in KINDS for finding in self.findings)

    @cached_property
    def names(self) -> tuple[str, ...] | None:
        """Of the features, where the training data came with names."""
        return self.schema.encoded_names if self.named else None

    @cached_property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of what is scored of one example: its own, or that of the features of a window."""
        return self.input_shape if self.spectra is None else (self.spectra.count,)

    @cached_property
    def value_schema(self) -> Schema:
        """Names and ranges of what is scored: the columns or sensors themselves, or the features of windows."""
        return self.schema if self.spectra is None else self.spectra.schema(self.schema.names)

    def examples(self, X: Any) -> Examples:
        """Examples in any form: arrays and frames of numbers become `Rows`, other frames tables."""
        if isinstance(X, Examples):
            return X
        if not self._needs_no_checks(X):
            table = table_of_frame(X, [one.name for one in self.schema.columns if one.kind == "category"])
            if table is not None:
                return table
        return Rows(values=self._array(X), names=self.names)

    def rows(self, X: Any) -> Rows:
        """Examples in any form as numbers, in the order of the schema; not checked or filled in yet."""
        rows = self.examples(X).rows(self.schema)
        if rows.values.shape[1:] != self.input_shape:
            raise self._other_shape(rows.values.shape[1:])
        return rows

    def prepared(self, X: Any, groups: Any = None) -> Prepared:
        """What is scored.

        Args:
            X: examples in any form; `Rows` are in the order of the schema.
            groups: the group of each; None takes the group column of a `Table`.
        """
        examples = self.examples(X)
        rows = self.rows(examples)
        return Prepared(
            inspected=self.inspect(rows),
            values=self.features(rows.values) if self.in_units else self.scaled(rows.values),
            beside=Beside.of(examples, groups),
        )

    def followed(self, X: Any) -> Float[np.ndarray, "examples ..."]:
        """What drift is looked for in, in its own units: values, NaN where they are missing, or features of windows."""
        values = self.rows(X).values
        return values if self.spectra is None else self.features(values)

    def scaled(self, values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples ..."]:
        """What the network gets for values that were checked already."""
        return self.scaling.scaled(self.features(values))

    def features(self, values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples ..."]:
        """Values that were checked already, filled in; the features of windows where there are spectra."""
        whole = _whole(self.medians, values)
        return whole if self.spectra is None else self.spectra.features(whole)

    def in_units_of_the_range(self, values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples ..."]:
        """Prepared values in units of the training range."""
        if self.in_units:
            return self.scaling.in_ranges(self.scaling.scaled(values))
        return values if self.scaling.unit is None else self.scaling.in_ranges(values)

    def inspect(self, rows: Rows) -> Inspected:
        """What is wrong with each example's data, and which examples must be referred for it."""
        require_finite(
            rows.values, rows.columns_of or rows.names, missing_allowed=self.missing != "error", place=rows.place
        )
        notes, bad = np.full(len(rows.values), "", dtype=object), np.zeros(len(rows.values), dtype=bool)
        if self.medians is not None:
            absent = np.isnan(rows.values)
            notes = named_flags(anywhere(absent), rows.names, english("missing: {names}"))
            bad = (notes != "") if self.missing == "refer" else bad
        if rows.unseen is not None and (new := rows.unseen != "").any():
            self._refuse_unseen(rows.unseen)
            said = [english("unseen: {names}", names=one) if one else "" for one in rows.unseen]
            notes = joined_notes(notes, np.array(said, dtype=object))
            bad = bad | new
        if rows.pauses is not None and rows.pauses.any():
            notes = joined_notes(notes, pause_notes(rows.pauses))
        if self.quality is not None:
            notes = joined_notes(notes, quality_flags(rows.values, self.quality, _sensor_names(rows)))
        outside = np.zeros(len(rows.values), dtype=bool)
        if self.margin is not None:
            values, called = rows.values, rows.names
            if self.spectra is not None:
                values, called = self.features(values), self.spectra.names(_sensor_names(rows))
            flags = self.scaling.outside(values, self.margin)
            notes = joined_notes(notes, named_flags(flags, called, english("out of range: {names}")))
            outside = np.asarray(flags.any(axis=1))
        return Inspected(notes=notes, bad=bad, outside=outside)

    def _refuse_unseen(self, unseen: Shaped[np.ndarray, " examples"]) -> None:
        if self.unseen == "error":
            row = int(np.argmax(unseen != ""))
            raise DataError(
                "{new} of {count} rows hold a category that the training data did not have "
                '(first: row {row}, {first}). Train with it, or pass `unseen="refer"`.',
                new=np.count_nonzero(unseen),
                count=len(unseen),
                row=row,
                first=unseen[row],
            )

    def _array(self, X: Any) -> Float[np.ndarray, "examples ..."]:
        if self._needs_no_checks(X):
            return np.asarray(X)
        shape = getattr(X, "shape", ())
        if len(shape) > 2 and len(shape) != len(self.input_shape) + 1:
            raise self._other_shape(shape[1:])
        return checked_array(X, self.names, self.input_shape[0], self.detector)

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
            and not self.named
        )


def _findings(survey: Survey, settings: PreparationSettings, quality: QualityLimits | None) -> tuple[DataFinding, ...]:
    """What is odd about the examples."""
    findings = data_findings(
        survey.sample,
        survey.schema,
        by_range=not settings.in_units and settings.scaling.by_range,
        quality=quality,
        examples=survey.examples,
    )
    if survey.machines is None:
        return findings
    levels = machine_levels(survey.sample, survey.machines, survey.schema)
    return findings if levels is None else (*findings, levels)


def _whole(
    middle: Float[np.ndarray, " columns"] | None, values: Float[np.ndarray, "examples ..."]
) -> Float[np.ndarray, "examples ..."]:
    return values if middle is None else filled(values, middle)


def _sensor_names(windows: Rows) -> tuple[str, ...]:
    return windows.names or tuple(f"x{place}" for place in range(windows.values.shape[2]))
