"""From raw rows to what the network gets, with notes on what was wrong with them.

A bad value is never scored silently: it is an error, or it is filled in and noted, or the example is referred.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Shaped

from indubio.errors import DataError
from indubio.inputs.checks import require_finite
from indubio.inputs.examples import Examples
from indubio.inputs.missing import filled, medians
from indubio.inputs.notes import joined_notes, named_flags
from indubio.inputs.numeric_rows import Rows
from indubio.inputs.pauses import pause_notes
from indubio.inputs.quality import QualityLimits, fit_quality, quality_flags
from indubio.inputs.scaling import ColumnSummary, FittedScaling, Scaling, anywhere
from indubio.inputs.spectra import FittedSpectra, Spectra
from indubio.texts import english

if TYPE_CHECKING:
    import pyarrow as pa

Missing = Literal["error", "median", "refer"]
Unseen = Literal["error", "refer"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Beside:
    """What came with examples beside their values; None where there is none.

    Args:
        groups: the machine, product or other group of each, as text.
        days: the calendar day of each.
        passed: columns that belong beside the verdicts: ids and times, or where a window came from.
    """

    groups: Shaped[np.ndarray, " examples"] | None = None
    days: Shaped[np.ndarray, " examples"] | None = None
    passed: "pa.Table | None" = None

    @classmethod
    def of(cls, examples: Examples, groups: Any = None) -> "Beside":
        """What came with these examples; groups that are given take the place of theirs."""
        return cls(groups=examples.group_names(groups), days=examples.days, passed=examples.beside)


NOTHING = Beside()


@dataclass(frozen=True, kw_only=True, eq=False)
class Inspected:
    """What is wrong with examples as they came in.

    Args:
        notes: per example, what was wrong with its data, else "".
        bad: which examples must be referred for it.
        outside: which examples must be referred for a value too far outside the training range.
    """

    notes: Shaped[np.ndarray, " examples"]
    bad: Bool[np.ndarray, " examples"]
    outside: Bool[np.ndarray, " examples"]

    def block(self, examples: slice) -> "Inspected":
        """What is wrong with some of them."""
        return Inspected(notes=self.notes[examples], bad=self.bad[examples], outside=self.outside[examples])


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Examples as the model gets them.

    Args:
        values: without missing values; scaled, and then float32, unless the model takes them as they are.
        inspected: what is wrong with them.
        beside: what came with them.
    """

    values: Float[np.ndarray, "examples ..."]
    inspected: Inspected
    beside: Beside = NOTHING


@dataclass(frozen=True, kw_only=True, eq=False)
class Intake:
    """What was learned of the training rows before any network saw them.

    Args:
        scaling: the ranges of the training rows, or of their features, and what values are scaled by.
        medians: of each column or sensor; None when missing values are an error.
        missing: what happens to missing values.
        unseen: what happens to new categories.
        quality: what the sensors of training windows did; None for tables and images.
        margin: how far outside the training range a value may be, in units of that range, before its example is
            referred; None for any distance.
        spectra: what makes features of windows; None where values are taken as they are.
    """

    scaling: FittedScaling
    medians: Float[np.ndarray, " columns"] | None
    missing: Missing
    unseen: Unseen
    quality: QualityLimits | None = None
    margin: float | None = None
    spectra: FittedSpectra | None = None

    @classmethod
    def fit(
        cls,
        rows: Rows,
        *,
        scaling: Scaling,
        missing: Missing,
        unseen: Unseen,
        margin: float | None = None,
        spectra: Spectra | None = None,
        rate: float | None = None,
    ) -> "Intake":
        """Learn ranges and medians.

        Args:
            rows: to learn from.
            scaling: how values are scaled.
            missing: what happens to missing values.
            unseen: what happens to new categories.
            margin: how far outside its training range a value may be.
            spectra: what makes features of windows; None takes them as they are.
            rate: samples per second of windows, where it is known.
        """
        require_finite(rows.values, rows.columns_of or rows.names, missing_allowed=missing != "error", place=rows.place)
        middle = None if missing == "error" else medians(rows.values, rows.columns_of or rows.names)
        quality = fit_quality(rows.values) if rows.values.ndim == 3 else None
        features, fitted = rows.values, None
        if spectra is not None:
            whole = features if middle is None else filled(features, middle)
            fitted = spectra.fit(whole, rate)
            features = fitted.features(whole)
        summary = ColumnSummary.of(features)
        if fitted is not None:
            fitted = replace(fitted, smallest=summary.smallest, largest=summary.largest)
        return cls(
            scaling=scaling.of_summary(summary, features),
            medians=middle,
            missing=missing,
            unseen=unseen,
            quality=quality,
            margin=margin,
            spectra=fitted,
        )

    def prepare(self, rows: Rows) -> Prepared:
        """Check, note what is wrong, fill in, and scale."""
        return Prepared(inspected=self.inspect(rows), values=self.scaled(rows.values))

    def completed(self, rows: Rows) -> Prepared:
        """Check, note what is wrong and fill in, in the units of the data and float64."""
        return Prepared(inspected=self.inspect(rows), values=self.features(rows.values))

    def scaled(self, values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples ..."]:
        """What the network gets for values that were checked already."""
        if self.spectra is not None:
            return self.scaling.scaled(self.features(values))
        return self.scaling.scaled(values if self.medians is None else filled(values, self.medians))

    def features(self, values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples ..."]:
        """Values that were checked already, filled in; the features of windows where there are spectra."""
        whole = values if self.medians is None else filled(values, self.medians)
        return whole if self.spectra is None else self.spectra.features(whole)

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
                f"{np.count_nonzero(unseen)} of {len(unseen)} rows hold a category that the training data did not have "
                f'(first: row {row}, {unseen[row]}). Train with it, or pass unseen="refer".'
            )


def _sensor_names(windows: Rows) -> tuple[str, ...]:
    return windows.names or tuple(f"x{place}" for place in range(windows.values.shape[2]))
