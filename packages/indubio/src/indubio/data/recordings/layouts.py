"""How a recording lies in its columns: wide, one column per sensor, or long, one row per value.

The rows of a group are in order of time; groups may take turns. With `ordered=False` each file is read whole and sorted
first. Times are
seconds, time stamps, or text. Without a group column each file is one group; with one, a group may go on
from one file to the next.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from indubio.data.labels import AnomalyValues
from indubio.errors import ConfigError, quoted
from indubio.settings import Settings

TimeFormat = Annotated[str, Field(pattern=r"^[^%]*(%[^f][^%]*)+([.,:]%f)?$")]
Names = Annotated[tuple[str, ...], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Wide(Settings):
    """One column per sensor, one row per sample.

    Args:
        time: column of time stamps; None where there is none.
        sensors: columns of the sensors, in this order; None takes all other columns that hold numbers.
        exclude: of all other columns, those that are no sensors.
        group: column of the group id (a part, a cycle, a run); None makes each file one group.
        time_format: of times in text, as for `strptime`: "%d.%m.%Y %H:%M:%S"; a fraction of a second is "%f" at the
            end. None is ISO 8601.
        ordered: the rows are in order of group, then time.
        ids: columns passed through to the verdicts, such as a serial number: a window has the value of its first
            sample.
        label: column of labels, 1 or True for an anomaly; a window with any such sample is one.
        anomaly_values: values of the label column that mean anomaly, when it holds something else.
    """

    time: str | None = None
    sensors: Names | None = None
    exclude: tuple[str, ...] = ()
    group: str | None = None
    time_format: TimeFormat | None = None
    ordered: bool = True
    ids: tuple[str, ...] = ()
    label: str | None = None
    anomaly_values: AnomalyValues | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_distinct(self.sensors, self.time, self.group, self.label)
        _require_own_names(self)


@dataclass(frozen=True, kw_only=True)
class Long(Settings):
    """One row per value, as historians export it: time, tag, value and perhaps quality.

    Args:
        time: column of time stamps.
        tag: column that names the sensor.
        value: column of the values.
        quality: column of the quality; None where all values are good.
        good: qualities that count as good; text in any case. The default takes "good" and 192, the good of OPC DA.
            The good of OPC UA is 0, which is bad in OPC DA, so it has to be asked for: `good=(0,)`.
        sensors: tags to take, in this order; None takes all, sorted by name, and goes through the tags once to see
            which there are.
        exclude: of all tags, those that are left out.
        group: column of the group id (a part, a cycle, a run); None makes each file one group.
        time_format: of times in text, as for `Wide`.
        ordered: the rows are in order of group, then time, whatever the tag; False for an export tag by tag.
        ids: columns passed through, as for `Wide`; the latest row counts, of whatever tag.
        label: column of labels, as for `Wide`.
        anomaly_values: values of the label column that mean anomaly, when it holds something else.
    """

    time: str
    tag: str
    value: str
    quality: str | None = None
    good: Annotated[tuple[str | int, ...], Field(min_length=1)] = ("good", 192)
    sensors: Names | None = None
    exclude: tuple[str, ...] = ()
    group: str | None = None
    time_format: TimeFormat | None = None
    ordered: bool = True
    ids: tuple[str, ...] = ()
    label: str | None = None
    anomaly_values: AnomalyValues | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_distinct(self.sensors)
        _require_distinct(None, self.time, self.tag, self.value, self.quality, self.group, self.label)
        _require_own_names(self)


ORIGIN = ("file", "group", "start", "end")  # what every window says of where it came from
LAYOUTS: dict[str, type[Wide] | type[Long]] = {"wide": Wide, "long": Long}


def _require_distinct(sensors: tuple[str, ...] | None, *columns: str | None) -> None:
    named = [*(sensors or ()), *(column for column in columns if column is not None)]
    double = [name for name in dict.fromkeys(named) if named.count(name) > 1]
    if double:
        raise ConfigError(f"{', '.join(map(repr, double))} is named more than once among the columns or sensors.")


def _require_own_names(layout: Wide | Long) -> None:
    """A column that is passed through goes beside those that every window has."""
    clashing = [name for name in (*layout.ids, layout.label) if name in ORIGIN and name != layout.group]
    if clashing:
        raise ConfigError(
            f"{quoted(clashing)} cannot be passed through: windows have {quoted(ORIGIN)} of their own. Rename it."
        )
