"""From a message to the values of sensors: what the topic map says, read strictly.

Nothing that is sent can stop the process. What cannot be read is counted by kind; a value that is no usable number
counts as missing at its time, as an empty cell of a file does, so that it is never replaced silently.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from indubio_server.live.journal import JournalEntry
from indubio_server.live.live_metrics import LiveMetrics
from indubio_server.live.settings_of_live import MACHINE, SENSOR, Ordering, TopicMap
from indubio_server.models import LARGEST
from indubio_server.outside_names import LONGEST_NAME, fault

log = logging.getLogger("indubio_server.live")
NAN = float("nan")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
MOST_TOPICS = 100_000  # whose meaning is remembered
LOG_EVERY = 60.0  # seconds, for each kind
_decode = msgspec.json.Decoder().decode
_absent = object()


class _BadMessage(Exception):  # noqa: N818 - never leaves this file
    """Why a message, or a sample in it, is not taken: the kind it is counted as."""


@dataclass(frozen=True, slots=True)
class TimedValues:
    """Values of one machine at one time.

    Args:
        machine: its name.
        time: nanoseconds since 1970.
        cells: number of the sensor, and its value; NaN where it is unusable.
        group: id of the part, cycle or run; None where there is none.
    """

    machine: str
    time: int
    cells: list[tuple[int, float]]
    group: str | None


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What a topic means: its map, and the names it has."""

    mapped: "_MappedTopic"
    machine: str | None
    sensor: str | None


class _MappedTopic:
    """A topic map, ready to be used."""

    def __init__(self, settings: TopicMap) -> None:
        self.settings, self.pattern = settings, settings.pattern
        paths = ("samples", "machine", "sensor", "time", "quality", "group")
        self.paths = {name: getattr(settings, name).split(".") for name in paths if getattr(settings, name) is not None}
        self.value = settings.value.split(".")
        self.values = settings.values.split(".") if settings.values else []
        self.good = {str(one).strip().lower() for one in settings.good}
        beside = [*self.paths.values()]
        self.beside = {path[0] for path in beside if len(path) == 1 or not self.values}
        self.unit = settings.time_unit


class MessageReader:
    """Reads messages by the topic maps.

    Args:
        topics: the maps; the first that fits a topic counts.
        sensors: names of the sensors that the model knows, in its order.
        ordering: which time stamps are taken.
        metrics: counts what is not.
    """

    def __init__(
        self, topics: Sequence[TopicMap], sensors: Sequence[str], ordering: Ordering, metrics: LiveMetrics
    ) -> None:
        self._topics = [_MappedTopic(one) for one in topics]
        self._sensors = {name: number for number, name in enumerate(sensors)}
        self._ahead, self._behind = int(ordering.ahead * 1e9), int(ordering.behind * 1e9)
        self._arrival_if_skewed = ordering.skewed == "arrival"
        self._metrics = metrics
        self._meanings: dict[str, _Meaning] = {}
        self._logged: dict[str, float] = {}

    def read(self, entry: JournalEntry) -> list[TimedValues]:
        """The samples in a message, none where it is bad."""
        samples: list[TimedValues] = []
        try:
            meaning = self._meanings.get(entry.topic) or self._meaning(entry.topic)
            content = _decode(entry.payload)
            for item, around in self._items(meaning.mapped, content):
                try:
                    samples.append(self._sample(meaning, item, around, entry))
                except _BadMessage as bad:
                    self._count(str(bad), entry.topic)
        except _BadMessage as bad:
            self._count(str(bad), entry.topic)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._count("not_json", entry.topic)
        return samples

    def _meaning(self, topic: str) -> _Meaning:
        for mapped in self._topics:
            found = mapped.pattern.fullmatch(topic)
            if found is not None:
                names = found.groupdict()
                meaning = _Meaning(mapped, names.get(MACHINE), names.get(SENSOR))
                if meaning.machine is not None:
                    _require_name(meaning.machine)
                if len(self._meanings) >= MOST_TOPICS:
                    self._meanings.clear()
                self._meanings[topic] = meaning
                return meaning
        raise _BadMessage("unknown_topic")

    def _items(self, mapped: _MappedTopic, content: Any) -> Iterator[tuple[Any, Any]]:
        """Each sample, with the message around it."""
        if "samples" in mapped.paths:
            found = _at(content, mapped.paths["samples"])
            if not isinstance(found, list):
                raise _BadMessage("no_samples")
            yield from ((item, content) for item in found)
        elif isinstance(content, list):
            yield from ((item, None) for item in content)
        else:
            yield content, None

    def _sample(self, meaning: _Meaning, item: Any, around: Any, entry: JournalEntry) -> TimedValues:
        mapped, paths = meaning.mapped, meaning.mapped.paths
        machine = meaning.machine
        if machine is None:
            machine = _named(item, around, paths["machine"], "no_machine")
        when = self._time(item, around, mapped, entry.arrived) if "time" in paths else entry.arrived
        quality = _found(item, around, paths["quality"]) if "quality" in paths else _absent
        sensor = meaning.sensor
        if sensor is None and "sensor" in paths:
            sensor = _named(item, around, paths["sensor"], "no_sensor")
        group = _named(item, around, paths["group"], "no_group") if "group" in paths else None
        if sensor is not None:
            value = item if not isinstance(item, dict) else _at(item, mapped.value)
            cells = self._cells({sensor: value}, quality, mapped, entry.topic)
        else:
            values = _at(item, mapped.values) if mapped.values else item
            if not isinstance(values, dict):
                raise _BadMessage("no_values")
            cells = self._cells(values, quality, mapped, entry.topic)
        return TimedValues(machine, when, cells, group)

    def _cells(
        self, values: Mapping[str, Any], quality: Any, mapped: _MappedTopic, topic: str
    ) -> list[tuple[int, float]]:
        cells, numbers = [], self._sensors
        for name, value in values.items():
            number = numbers.get(name)
            if number is None:
                if name not in mapped.beside:
                    self._count("unknown_sensor", topic)
                continue
            if type(value) is not float:
                value = self._number(value, topic)
            if not -LARGEST <= value <= LARGEST and value == value:
                self._count("too_large", topic)
                value = NAN
            if quality is not _absent and not _is_good(
                quality.get(name) if isinstance(quality, dict) else quality, mapped.good
            ):
                self._count("bad_quality", topic)
                value = NAN
            cells.append((number, value))
        if not cells:
            raise _BadMessage("no_known_sensor")
        return cells

    def _number(self, value: Any, topic: str) -> float:
        if type(value) is int:
            try:
                return float(value)
            except OverflowError:
                return float("inf")
        self._count("no_value" if value is None or value is _absent else "not_a_number", topic)
        return NAN

    def _time(self, item: Any, around: Any, mapped: _MappedTopic, arrived: int) -> int:
        when = _nanoseconds(_found(item, around, mapped.paths["time"]), mapped.unit)
        if -self._behind <= when - arrived <= self._ahead:
            return when
        if not self._arrival_if_skewed:
            raise _BadMessage("skewed_clock")
        self._metrics.bad.labels("skewed_clock").inc()
        return arrived

    def _count(self, kind: str, topic: str) -> None:
        self._metrics.bad.labels(kind).inc()
        now = time.monotonic()
        if now - self._logged.get(kind, -LOG_EVERY) >= LOG_EVERY:
            self._logged[kind] = now
            log.warning("a message is bad", extra={"kind": kind, "topic": topic[:LONGEST_NAME]})


def _nanoseconds(stamp: Any, unit: str) -> int:
    if unit == "iso":
        try:
            when = datetime.fromisoformat(stamp)
        except (TypeError, ValueError):
            raise _BadMessage("bad_time") from None
        passed = (when if when.tzinfo is not None else when.replace(tzinfo=UTC)) - EPOCH
        return (passed.days * 86400 + passed.seconds) * 10**9 + passed.microseconds * 1000
    if type(stamp) is int:
        return stamp * int(UNITS[unit])
    if type(stamp) is float and abs(stamp) < 1e19:
        return round(stamp * UNITS[unit] / 1e3) * 1000  # a float has no more than microseconds
    raise _BadMessage("bad_time")


def _at(content: Any, path: list[str]) -> Any:
    for name in path:
        if not isinstance(content, dict):
            return _absent
        content = content.get(name, _absent)
    return content


def _found(item: Any, around: Any, path: list[str]) -> Any:
    """What a path leads to in a sample, else in the message around it."""
    found = _at(item, path)
    return _at(around, path) if found is _absent and around is not None else found


def _named(item: Any, around: Any, path: list[str], missing: str) -> str:
    name = _found(item, around, path)
    if type(name) is int:
        name = str(name)
    if not isinstance(name, str) or not name:
        raise _BadMessage(missing)
    return _require_name(name)


def _require_name(name: str) -> str:
    if fault(name) is not None:
        raise _BadMessage("bad_name")
    return name


def _is_good(quality: Any, good: set[str]) -> bool:
    return str(quality).strip().lower() in good
