"""From raw rows to what the network gets, with notes on what was wrong with them.

A bad value is never scored silently: it is an error, or it is filled in and noted, or the example is referred.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from indubio.errors import DataError
from indubio.inputs.checks import require_finite
from indubio.inputs.missing import filled
from indubio.inputs.notes import joined_notes, named_flags
from indubio.inputs.pauses import pause_notes
from indubio.inputs.quality import QualityLimits, quality_flags
from indubio.inputs.scaling import ColumnSummary, FittedScaling, Scaling, anywhere
from indubio.inputs.schema import Schema
from indubio.inputs.spectra import FittedSpectra, Spectra
from indubio.io.arrow_columns import Place
from indubio.settings import NotNegative, Settings
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


NOTHING = Beside()


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Examples as they came in, as numbers.

    Args:
        values: (N, D), (N, L, K) or (N, H, W, C), NaN where a value is missing.
        names: of the features, sensors or channels, where they have names.
        columns: of the table, which each feature is of; None where they are the features.
        unseen: per example, the categories that were not in the training data, else "".
        beside: what came with them.
        place: where the i-th is, for error messages; None numbers them.
        pauses: seconds of the longest pause within each window, 0 for none; None where times are not known.
    """

    values: Float[np.ndarray, "examples ..."]
    names: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    unseen: Shaped[np.ndarray, " examples"] | None = None
    pauses: Float[np.ndarray, " examples"] | None = None
    beside: Beside = NOTHING
    place: Place | None = None

    def __len__(self) -> int:
        return len(self.values)

    def taken(self, places: Int[np.ndarray, " taken"]) -> "Rows":
        """The rows at these places, without what came beside them."""
        unseen = None if self.unseen is None else self.unseen[places]
        place = None if self.place is None else partial(_place_of, self.place, places)
        pauses = None if self.pauses is None else self.pauses[places]
        return Rows(
            values=self.values[places],
            names=self.names,
            columns=self.columns,
            unseen=unseen,
            place=place,
            pauses=pauses,
        )


def _place_of(place: Place, places: Int[np.ndarray, " taken"], row: int) -> str:
    return place(int(places[row]))


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


@dataclass(frozen=True, kw_only=True)
class IntakeSettings(Settings):
    """What is to be done to examples before they are scored.

    Args:
        scaling: how values are scaled.
        scaled: whether they are; else they stay in the units of the data, and only their ranges are known.
        missing: what happens to missing values.
        unseen: what happens to new categories.
        margin: how far outside its training range a value may be.
        spectra: what makes features of windows; None takes them as they are.
    """

    scaling: Scaling
    scaled: bool = True
    missing: Missing = "error"
    unseen: Unseen = "refer"
    margin: NotNegative | None = None
    spectra: Spectra | None = None


class Survey(Protocol):
    """What is asked of the rows that a model is fitted on before it is: of one block in memory, or of many."""

    @property
    def sample(self) -> Float[np.ndarray, "sampled ..."]:
        """Some of the rows as they came in, or all."""

    @property
    def examples(self) -> int | None:
        """How many there are where the sample is not all of them; else None."""

    @property
    def schema(self) -> Schema:
        """Names, kinds, ranges and categories of the columns."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the features, where the examples came with names."""

    @property
    def rate(self) -> float | None:
        """Samples per second of windows, where it is known."""

    @property
    def machines(self) -> Shaped[np.ndarray, " sampled"] | None:
        """The machine of each window of the sample, where several were recorded at the same time; else None."""

    def medians(self) -> Float[np.ndarray, " columns"]:
        """Of each column or sensor."""

    def quality(self) -> QualityLimits | None:
        """What the sensors of windows do; None for tables and images."""

    def summary(
        self, features: Callable[[np.ndarray], np.ndarray] | None
    ) -> tuple[ColumnSummary, Float[np.ndarray, "sampled ..."]]:
        """Ranges, means and deviations of the features of all rows, and the features of the sample.

        Args:
            features: makes them; None takes the values as they came in.
        """


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
    def fit(cls, survey: Survey, settings: IntakeSettings) -> "Intake":
        """Learn ranges and medians.

        Args:
            survey: of the rows to learn from.
            settings: what is to be done.
        """
        middle = None if settings.missing == "error" else survey.medians()
        whole, spectra = partial(_whole, middle), None
        if settings.spectra is None:
            summary, sample = survey.summary(None)
        else:
            fitted = settings.spectra.fit(whole(survey.sample), survey.rate)
            summary, sample = survey.summary(lambda values: fitted.features(whole(values)))
            spectra = replace(fitted, smallest=summary.smallest, largest=summary.largest)
        return cls(
            scaling=settings.scaling.of_summary(summary, sample),
            medians=middle,
            missing=settings.missing,
            unseen=settings.unseen,
            quality=survey.quality(),
            margin=settings.margin,
            spectra=spectra,
        )

    def prepare(self, rows: Rows) -> Prepared:
        """Check, note what is wrong, fill in, and scale."""
        return Prepared(inspected=self.inspect(rows), values=self.scaled(rows.values), beside=rows.beside)

    def completed(self, rows: Rows) -> Prepared:
        """Check, note what is wrong and fill in, in the units of the data and float64."""
        return Prepared(inspected=self.inspect(rows), values=self.features(rows.values), beside=rows.beside)

    def scaled(self, values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples ..."]:
        """What the network gets for values that were checked already."""
        if self.spectra is not None:
            return self.scaling.scaled(self.features(values))
        return self.scaling.scaled(_whole(self.medians, values))

    def features(self, values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples ..."]:
        """Values that were checked already, filled in; the features of windows where there are spectra."""
        whole = _whole(self.medians, values)
        return whole if self.spectra is None else self.spectra.features(whole)

    def inspect(self, rows: Rows) -> Inspected:
        """What is wrong with each example's data, and which examples must be referred for it."""
        require_finite(
            rows.values, rows.columns or rows.names, missing_allowed=self.missing != "error", place=rows.place
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


def _whole(
    middle: Float[np.ndarray, " columns"] | None, values: Float[np.ndarray, "examples ..."]
) -> Float[np.ndarray, "examples ..."]:
    return values if middle is None else filled(values, middle)


def _sensor_names(windows: Rows) -> tuple[str, ...]:
    return windows.names or tuple(f"x{place}" for place in range(windows.values.shape[2]))
