"""Windows (N, L, K) of sensor recordings: how they are cut, where each came from, and what was left out or repaired.

A recording falls into groups (a part, a cycle, a run), and a window never crosses from one group into the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int, Shaped

from indubio.data.examples import Examples, Which, all_or_none
from indubio.data.numeric_rows import Rows, in_order_of
from indubio.data.pauses import duration, longest_pauses
from indubio.data.schema import Schema
from indubio.errors import ShapeError
from indubio.message import Message, joined
from indubio.settings import AtLeastOne, Positive, Settings

Gaps = Literal["error", "leave", "hold", "linear"]
TOGETHER = 0.5  # share of the time of groups in which another is recorded too; above it they are machines
FEWEST_OF_MACHINE = 10  # windows, two for each of the usual folds
TICKS = 1e9  # of a time stamp, per second
JITTER = 1.5  # sample periods between two values; up to here it is jitter, from here on a sample was lost


@dataclass(frozen=True, kw_only=True)
class Windowing(Settings):
    """How windows are cut from the samples of a group.

    Without `rate` every row is a sample, and a gap is an empty cell. With `rate` each sensor is read off at regular
    times: a sample is the latest value, or lies on the line to the next, and a gap is between two values that are too
    far apart. Reading off is no filter: average first when the rate goes far down.

    Args:
        length: samples per window, L.
        step: samples from the start of one window to the start of the next; None is `length`, no overlap.
        rate: samples per second to resample to; None takes the rows as they are.
        gaps: "error" refuses gaps; "leave" leaves them missing (NaN), so that the detector can refer the window;
            "hold" repeats the last value, as a historian means it that stores only changes; "linear" draws a line to
            the next value, and holds the last one at the end of a group.
        longest_gap: seconds. "hold": greatest age of a held value. "linear": longest gap that is bridged, a longer
            one stays missing as a whole. None sets no limit to these two. "error" and "leave", with `rate` only: how
            far apart two values may be before there is a gap; None is one and a half sample periods. Without `rate`,
            whatever `gaps` says: after a longer pause between two rows windows begin anew, so that none goes on over
            it; None lets them, and says which did.
        short: groups without a full window are in the report ("report") or refused ("error").
    """

    length: AtLeastOne
    step: AtLeastOne | None = None
    rate: Positive | None = None
    gaps: Gaps = "error"
    longest_gap: Positive | None = None
    short: Literal["report", "error"] = "report"

    @property
    def stride(self) -> int:
        """Samples from the start of one window to the start of the next."""
        return self.length if self.step is None else self.step

    @property
    def oldest(self) -> float:
        """Seconds that a gap may last, infinity for no limit."""
        if self.longest_gap is not None:
            return self.longest_gap
        return np.inf if self.rate is None or self.gaps in ("hold", "linear") else JITTER / self.rate

    @property
    def longest_step(self) -> float:
        """Seconds from one row to the next beyond which windows begin anew, infinity for never."""
        return np.inf if self.rate is not None or self.longest_gap is None else self.longest_gap


@dataclass(frozen=True, kw_only=True)
class ShortGroup:
    """A group that gave no window.

    Args:
        file: where it begins; None for data in memory.
        group: its id; None where there is no group column.
        samples: how many it has.
    """

    file: str | None
    group: Any
    samples: int

    def __str__(self) -> str:
        names = [*([] if self.file is None else [self.file]), *([] if self.group is None else [f"group {self.group}"])]
        return f"{', '.join(names) or 'the recording'} ({self.samples} samples)"


@dataclass(frozen=True, kw_only=True)
class WindowReport:
    """What was left out or repaired on the way to the windows.

    The counts are of samples before the cutting: those that overlapping windows share count once, and those that no
    window took count too.

    Args:
        groups: how many groups there were.
        short: the groups that gave no window.
        left_over: samples after the last window of the other groups, and before pauses after which windows begin anew.
        held: per sensor, samples that repeat an older value because none came since the sample before.
        interpolated: per sensor, samples on a line because no value came since the sample before.
        bad: per sensor, values recorded with bad quality, and infinite ones; they are never used.
        missing: per sensor, samples that have no value.
        labelled: windows that were left out because they hold samples that are labelled as anomalies.
        pauses: pauses longer than `longest_gap`, after which windows begin anew.
        over_pauses: windows that go on over a pause.
        longest_pause: within a window, in seconds.
    """

    groups: int = 0
    short: tuple[ShortGroup, ...] = ()
    left_over: int = 0
    held: Mapping[str, int] = field(default_factory=dict)
    interpolated: Mapping[str, int] = field(default_factory=dict)
    bad: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    labelled: int = 0
    pauses: int = 0
    over_pauses: int = 0
    longest_pause: float = 0.0

    def __add__(self, other: "WindowReport") -> "WindowReport":
        def summed(name: str) -> dict[str, int]:
            ours, theirs = getattr(self, name), getattr(other, name)
            return {sensor: ours.get(sensor, 0) + theirs.get(sensor, 0) for sensor in {**ours, **theirs}}

        return WindowReport(
            groups=self.groups + other.groups,
            short=self.short + other.short,
            left_over=self.left_over + other.left_over,
            labelled=self.labelled + other.labelled,
            pauses=self.pauses + other.pauses,
            over_pauses=self.over_pauses + other.over_pauses,
            longest_pause=max(self.longest_pause, other.longest_pause),
            **{name: summed(name) for name in ("held", "interpolated", "bad", "missing")},
        )

    def __str__(self) -> str:
        parts = [f"{self.groups} groups"]
        if self.short:
            more = f" and {len(self.short) - 3} more" if len(self.short) > 3 else ""
            parts.append(f"{len(self.short)} too short: {'; '.join(map(str, self.short[:3]))}{more}")
        if self.left_over:
            parts.append(f"{self.left_over} samples left over at the end of groups")
        for name in ("held", "interpolated", "bad", "missing"):
            counts = [f"{sensor} {count}" for sensor, count in getattr(self, name).items() if count]
            parts += [f"{name}: {', '.join(counts)}"] if counts else []
        if self.labelled:
            parts.append(f"{self.labelled} windows left out that hold samples labelled as anomalies")
        return joined([*parts, *self.told_of_pauses()])

    def told_of_pauses(self) -> list[str]:
        """What there is to say of pauses."""
        told = [f"windows begin anew after {self.pauses} pause{'s'[: self.pauses > 1]}"] if self.pauses else []
        if self.over_pauses:
            told.append(
                Message(
                    "{over_pauses} window{go} on over a pause, the longest "
                    "of {longest}: with `longest_gap` in seconds windows begin anew after it",
                    over_pauses=self.over_pauses,
                    go="s go" if self.over_pauses > 1 else " goes",
                    longest=duration(self.longest_pause),
                )
            )
        return told


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows(Examples):
    """Windows of a recording.

    Args:
        values: NaN where a value is missing.
        sensors: names of the K sensors.
        origin: one row per window, with the columns file, group, start and end: the times of the window's first and
            last sample, or their numbers within the group where there is no time column.
        rate: samples per second where the recording was resampled, else None.
        report: what was left out or repaired.
        bad_share: share of each window's samples that are labelled as anomalies; None without labels.
        passed: one row per window with the columns that are passed through: their values at the window's first
            sample; None where there are none.
        first: number of each window's first sample within its group; None where it is not known.
        times: of all samples, nanoseconds or seconds as `origin` says; None without times, and where the recording was
            resampled: samples are 1 / `rate` apart then.
    """

    word = "windows"

    values: Float[np.ndarray, "windows length sensors"]
    sensors: tuple[str, ...]
    origin: pa.Table
    rate: float | None = None
    report: WindowReport = WindowReport()
    bad_share: Float[np.ndarray, " windows"] | None = None
    passed: pa.Table | None = None
    first: Int[np.ndarray, " windows"] | None = None
    times: Shaped[np.ndarray, "windows length"] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def window_shape(self) -> tuple[int, ...]:
        """Shape of a window, (L, K)."""
        return self.values.shape[1:]

    @property
    def labels(self) -> Bool[np.ndarray, " windows"] | None:
        """True for a window that holds any sample labelled as an anomaly; None without labels."""
        return None if self.bad_share is None else self.bad_share > 0

    @property
    def pauses(self) -> Float[np.ndarray, " windows"] | None:
        """Seconds of the longest pause within each window, 0 for none; None where times are not known."""
        if self.times is None:
            return None
        return longest_pauses(self.times, ticks_per_second(self.origin.column("start").type))

    @property
    def beside(self) -> pa.Table:
        """What goes beside the verdicts: where each window came from, and the columns that are passed through."""
        if self.passed is None:
            return self.origin
        tables = (self.passed, self.origin)
        columns = {name: table.column(name) for table in tables for name in table.column_names}
        return pa.table(columns).select(list(dict.fromkeys((*self.origin.column_names, *columns))))

    @property
    def machines(self) -> Shaped[np.ndarray, " windows"] | None:
        """The group of each window where groups were recorded at the same time, as machines are; else None.

        Parts, cycles and runs follow each other, and new data is of new ones. New data of machines is of the same ones,
        so each of them must be among the windows that train. Groups with hardly any windows are taken together, as "".
        Where no time tells it is None.
        """
        known = set(self.origin.column_names)
        if not {"file", "group", "start", "end"} <= known or not pa.types.is_timestamp(self.origin.field("start").type):
            return None
        names = pc.coalesce(self.origin.column("group").cast(pa.string()), self.origin.column("file"), "")
        cut = self.origin.select(["start", "end"]).append_column("name", names).drop_null()
        spans = cut.group_by("name").aggregate([("start", "min"), ("end", "max"), ("start", "count")])
        spans = spans.sort_by("start_min")
        first, last = (spans.column(name).cast(pa.int64()).to_numpy() for name in ("start_min", "end_max"))
        shared = np.minimum(last[1:], np.maximum.accumulate(last)[:-1]) - first[1:]
        if np.maximum(shared, 0).sum() <= TOGETHER * (last[1:] - first[1:]).sum():
            return None
        many = spans.column("name").filter(pc.greater_equal(spans.column("start_count"), FEWEST_OF_MACHINE))
        machines = pc.if_else(pc.is_in(names, value_set=many.combine_chunks()), names, "")
        return np.asarray(machines.to_numpy(zero_copy_only=False))

    @property
    def runs(self) -> Shaped[np.ndarray, " windows"] | None:
        """The file and group that each window is from, unless these are machines, which are recorded side by side."""
        known = [name for name in ("file", "group") if name in self.origin.column_names]
        if not known or self.machines is not None:
            return None
        names = [pc.coalesce(self.origin.column(name).cast(pa.string()), "") for name in known]
        return np.asarray(pc.binary_join_element_wise(*names, "\n").to_numpy(zero_copy_only=False))

    def inliers(self) -> Self:
        """The windows without any sample labelled as an anomaly; the report says how many were left out."""
        labels = self.labels
        if labels is None:
            return self
        report = replace(self.report, labelled=self.report.labelled + int(np.count_nonzero(labels)))
        return replace(self.select(~labels), report=report)

    def __repr__(self) -> str:
        count, length, sensors = self.values.shape
        return f"Windows({count} windows of {length} samples, {sensors} sensors: {self.report})"

    @property
    def has_missing(self) -> bool:
        """Whether any value is missing."""
        return bool(np.isnan(self.values).any())

    def select(self, which: Which) -> Self:
        """Some of the windows, by mask or by number; the report stays that of the whole recording."""
        chosen = self._numbers(which)
        places = pa.array(chosen)
        return replace(
            self,
            values=self.values[chosen],
            origin=self.origin.take(places),
            bad_share=None if self.bad_share is None else self.bad_share[chosen],
            passed=None if self.passed is None else self.passed.take(places),
            first=None if self.first is None else self.first[chosen],
            times=None if self.times is None else self.times[chosen],
        )

    def _joined_with(self, others: Sequence[Self]) -> Self:
        report = self.report
        for other in others:
            for name, ours, theirs in (
                ("sensors", self.sensors, other.sensors),
                ("rates", self.rate, other.rate),
                ("lengths", self.values.shape[1], other.values.shape[1]),
            ):
                if ours != theirs:
                    raise ShapeError(f"windows of different {name} cannot be joined: {ours} and {theirs}.")
            report = report + other.report
        parts = [self, *others]
        return replace(
            self,
            values=np.concatenate([part.values for part in parts]),
            origin=pa.concat_tables([part.origin for part in parts], promote_options="default").combine_chunks(),
            report=report,
            bad_share=all_or_none([part.bad_share for part in parts], np.concatenate),
            passed=all_or_none([part.passed for part in parts], _one_table),
            first=all_or_none([part.first for part in parts], np.concatenate),
            times=all_or_none([part.times for part in parts], np.concatenate),
        )

    def training_schema(self) -> Schema:
        """Names and ranges of the sensors, to train with; refused where some windows are not good."""
        self._require_good("windows with samples", "windows.inliers()")
        return Schema.of_values(self.values, self.sensors)

    def rows(self, schema: Schema) -> Rows:
        """The windows as numbers, their sensors in the order of the schema."""
        values = in_order_of(schema, self.values, self.sensors, "sensors", self.word)
        return Rows(values=values, names=schema.names, pauses=self.pauses)

    def without_labels(self) -> Self:
        """These windows, nothing being known of which are good."""
        return replace(self, bad_share=None)

    def bare(self) -> Self:
        """The values, and where each window came from: which machine it is of tells how windows are divided."""
        return replace(self, passed=None, bad_share=None)


def ticks_per_second(kind: pa.DataType) -> float:
    """How many of the numbers that times of this type are held as make a second."""
    return TICKS if pa.types.is_timestamp(kind) else 1.0


def _one_table(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()
