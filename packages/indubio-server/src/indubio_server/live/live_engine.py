"""Goes round and round: messages to the journal, acknowledged, into the machines' streams, windows scored and written.

Nothing is lost: a message is acknowledged when it is in the journal, and the journal is kept until a snapshot covers
it; a snapshot is written only when all windows before it are in the store. Nothing is doubled: what is read again from
the journal gives the same windows, and the store knows which it has. All of it is one thread in one order: there is
nothing to keep in step; a round that takes longer finds more messages waiting, and the next batch is larger.

When the database or the disk fails, the round waits for it. Then nothing is acknowledged, and the broker keeps what
comes.
"""

import fcntl
import logging
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, get_args

import msgspec
from sqlalchemy.exc import IntegrityError

from indubio.errors import ConfigError, DataError, IndubioError, OutputError, StoreError
from indubio_server.live.delivery import Delivery
from indubio_server.live.journal import Journal, JournalEntry
from indubio_server.live.live_metrics import LiveMetrics
from indubio_server.live.live_verdicts import LiveBatch, Written, usable, write_batch
from indubio_server.live.machine_stream import MachineExamples, MachineStream, StreamPlan
from indubio_server.live.messages import MessageReader, TimedValues
from indubio_server.live.publishing import MqttPublisher, topic_of
from indubio_server.live.settings_of_live import LiveSettings
from indubio_server.live.snapshots import read_snapshot, write_snapshot
from indubio_server.live.subscription import Received, Subscription
from indubio_server.models import Loaded, Registry
from indubio_server.store import Channel, OutboxCount, ServerStore, active_version, count_outbox, digest, now

log = logging.getLogger("indubio_server.live")
GATHER = 0.01  # seconds that messages gather: what is made durable at once costs one sync
IDLE = 0.25  # seconds to wait for a message
AT_ONCE = 1024  # windows scored together; messages read again together
RETRY = 0.5  # seconds until the database or the disk is tried again
LOOK = 1.0  # seconds between looks at what others write: which version is active, what waits in the outbox
NOTHING_WAITS = OutboxCount(waiting=0, dead=0, oldest=None)
TOLD_FOR = 600.0  # seconds that a limit which was reached is told of


class LiveEngine:
    """The way from messages to verdicts in the store, for one model and any number of machines.

    Args:
        store: where verdicts go.
        registry: has the model; its active version scores.
        settings: of `indubio live`.
        folder: for the journal and the snapshot; one process at a time.
        metrics: to tell.
    """

    def __init__(
        self, store: ServerStore, registry: Registry, settings: LiveSettings, folder: Path, metrics: LiveMetrics
    ) -> None:
        self._store, self._registry, self._settings, self._metrics = store, registry, settings, metrics
        self.loaded = registry.model()
        self._plan = _plan_of(self.loaded, settings)
        self._lock = _only_one(folder)
        self._reader = MessageReader(settings.topics, self._plan.sensors, settings.ordering, metrics)
        self._streams: dict[str, MachineStream] = {}
        self._packets: dict[int, int] = {}  # of the last messages in the journal: checksum by packet id
        self._snapshot_path = folder / "snapshot"
        self._journal = Journal(folder / "journal")
        self._position = self._kept = self._last_arrival = 0  # `_kept`: the position of the last snapshot
        self._looked = self._snapshot_at = self._limited = time.monotonic()
        self.ended = threading.Event()
        self.outgoing: list[Delivery] = []
        self.source: Subscription | None = None
        self.publisher: MqttPublisher | None = None

    def recover(self) -> int:
        """Go on where an earlier run stopped; the arrival of its last message."""
        known = read_snapshot(self._snapshot_path)
        if known is not None:
            self._position, plan, machines = known
            self._kept = self._position
            if plan == _plan_name(self._plan):
                for machine, state in machines.items():
                    self._streams[machine] = stream = MachineStream(machine, self._plan)
                    stream.resume(state)
            else:
                log.warning("the model cuts other windows than before: the windows that were begun are dropped")
        waiting: list[JournalEntry] = []
        for position, entry in self._journal.read(self._position):
            waiting.append(entry)
            self._remember(entry.packet, entry.payload)
            if len(waiting) == AT_ONCE:
                self._work(waiting)
                waiting = []
            self._position = position
        self._work(waiting)
        log.info("recovered", extra={"machines": len(self._streams), "position": self._position})
        return self._last_arrival

    def run(self, source: Subscription) -> None:
        """Work until `ended` is set, and keep what is known then."""
        self.source = source
        while not self.ended.is_set():
            self.round(source.take(IDLE))
        self.snapshot()

    def round(self, messages: Sequence[Received]) -> None:
        """Make messages durable, acknowledge them, and work on them."""
        self._metrics.living("engine")
        if messages:
            if self.source is not None and len(messages) < self._settings.broker.in_flight // 2:
                time.sleep(GATHER)
                messages = [*messages, *self.source.take(0)]
            self._work(self._durable(messages))
            self._position = self._journal.position
        if self.source is not None:
            self._metrics.queue.set(self.source.waiting)
        self._metrics.journal.set(self._position - self._kept)
        if time.monotonic() - self._looked > LOOK:
            self._look()
        if time.monotonic() - self._snapshot_at > self._settings.snapshot_every:
            self.snapshot()

    def snapshot(self) -> None:
        """Write the state of all machines, and forget the journal before it."""
        self._snapshot_at = time.monotonic()
        states = {name: stream.state() for name, stream in self._streams.items()}
        try:
            write_snapshot(self._snapshot_path, self._position, _plan_name(self._plan), states)
            self._journal.forget(self._position)
        except (OutputError, OSError) as error:  # the journal has it all
            self._tell_trouble("snapshot", f"the snapshot cannot be written: {error}", stops=False)
            return
        self._tell_trouble("snapshot")
        self._kept = self._position
        self._metrics.rows.set(sum(stream.waiting for stream in self._streams.values()))

    def close(self) -> None:
        """Leave the folder to others. What was not kept by a snapshot is in the journal."""
        self._journal.close()
        self._lock.close()

    def _durable(self, messages: Sequence[Received]) -> list[JournalEntry]:
        """Write messages to the journal and acknowledge them; without those that are in it already."""
        entries = []
        for one in messages:
            if one.again and self._packets.get(one.packet) == zlib.crc32(one.payload):
                self._metrics.redelivered.inc()
                continue
            entries.append(JournalEntry(one.arrived, one.packet, one.topic, one.payload))
            self._remember(one.packet, one.payload)
        if entries:
            self._keep(entries)
            self._metrics.messages.inc(len(entries))
        if self.source is not None:
            self.source.acknowledge(messages)
        return entries

    def _keep(self, entries: list[JournalEntry]) -> None:
        """Write to the journal; tries until the disk takes it, or the process is to end."""
        while True:
            try:
                self._journal.append(entries)
            except OSError as error:
                self._tell_trouble("disk", f"the journal cannot be written: {error.strerror}")
                self._wait()
            else:
                self._tell_trouble("disk")
                return

    def _wait(self) -> None:
        """Until something is tried again."""
        self._metrics.living("engine")
        if self.ended.wait(RETRY):
            raise EndedError

    def _tell_trouble(self, what: str, told: str = "", *, stops: bool = True) -> None:
        """Tell that something fails, or that it is well again; logged once."""
        before = self._metrics.troubles.labels(what)._value.get()
        if bool(before) != bool(told):
            log.error(told) if told else log.warning("it is well again", extra={"what": what})
        self._metrics.set_trouble(what, told, stops=stops)

    def _remember(self, packet: int, payload: bytes) -> None:
        self._packets[packet] = zlib.crc32(payload)

    def _work(self, entries: Sequence[JournalEntry]) -> None:
        """Put the values of messages in their streams, and judge the windows that are complete."""
        touched: dict[MachineStream, None] = {}
        late = duplicates = count = 0
        for entry in entries:
            for sample in self._reader.read(entry):
                stream = self._stream(sample, entry.arrived)
                if stream is None:
                    continue
                touched[stream] = None
                too_late, known = stream.add(sample)
                late, duplicates, count = late + too_late, duplicates + known, count + 1
        self._metrics.samples.inc(count)
        self._metrics.late.inc(late)
        self._metrics.duplicates.inc(duplicates)
        found = [one for stream in touched for one in stream.ready()]
        if entries:
            self._last_arrival = entries[-1].arrived
            self._metrics.lag.set(max(0.0, time.time() - self._last_arrival / 1e9))
        for block in _blocks(found):
            self._judge(block)

    def _stream(self, sample: TimedValues, arrived: int) -> MachineStream | None:
        """The stream of a machine. Where there are too many, who was silent the longest gives way, if that is long.

        Silence is a matter of arrivals, which the journal has: read again, it gives the same streams.
        """
        stream = self._streams.pop(sample.machine, None)
        if stream is None:
            if len(self._streams) >= self._settings.ordering.most_machines:
                silent, first = next(iter(self._streams.items()))
                if arrived - first.heard <= self._plan.restart:
                    self._metrics.bad.labels("too_many_machines").inc()
                    self._limited = time.monotonic()
                    most = f"{len(self._streams)} machines are the most that may be (most_machines): others are refused"
                    self._tell_trouble("machines", most, stops=False)
                    return None
                del self._streams[silent]
            stream = MachineStream(sample.machine, self._plan)
        stream.heard = arrived
        self._streams[sample.machine] = stream  # whoever was heard last is last
        self._metrics.machines.set(len(self._streams))
        return stream

    def _judge(self, examples: Sequence[MachineExamples]) -> None:
        """Score windows and write the verdicts; tries until the store takes them, or the process is to end."""
        possible = usable(self.loaded, examples)
        self._metrics.unusable.inc(sum(len(one.start) for one in examples) - sum(len(one.start) for one in possible))
        if not possible:
            return
        try:
            batch = LiveBatch(self.loaded, possible, self._settings)
        except DataError as error:
            self._refused(possible, error)
            return
        while True:
            try:
                written = self._store.write(lambda c: write_batch(c, batch, self._settings))
            except (StoreError, IntegrityError) as error:
                self._metrics.database.set(0)
                self._tell_trouble("database", f"the database cannot be written: {error}")
                self._wait()
            else:
                break
        self._metrics.database.set(1)
        self._tell_trouble("database")
        self._tell(batch, written)

    def _refused(self, examples: Sequence[MachineExamples], error: DataError) -> None:
        """The model refuses some windows: those of the other machines are not to suffer, and the next ones come."""
        if len(examples) > 1:
            for one in examples:
                self._judge([one])
            return
        self._metrics.unusable.inc(len(examples[0].start))
        log.error("the model refuses windows", extra={"machine": examples[0].machine, "error": str(error)})

    def _tell(self, batch: LiveBatch, written: Written) -> None:
        """Publish what is in the store now."""
        metrics, template = self._metrics, self._settings.publish.verdicts
        metrics.again.inc(len(batch.start) - len(written.rows))
        metrics.overflow.inc(written.overflow)
        delay = max(0.0, time.time() - self._last_arrival / 1e9)
        for row in written.rows:
            metrics.verdicts.labels(batch.columns["verdict"][row], batch.columns["reason"][row]).inc()
            metrics.delay.observe(delay)
            if template and self.publisher is not None:
                topic = topic_of(template, batch.origins[row].machine, batch.loaded.name)
                self.publisher.tell(topic, msgspec.json.encode(batch.told(row)))
        for event in written.events:
            metrics.alarms.labels(event.kind).inc()
            counted = {"anomalies": event.anomalies, "unfamiliar": event.unfamiliar}
            log.warning("alarm", extra={"machine": event.machine, "kind": event.kind, **counted})
        for one in self.outgoing:
            one.wake()

    def _look(self) -> None:
        """Look at what others write: the version that is active, and the outbox."""
        self._looked = time.monotonic()
        name = self.loaded.name
        try:
            active, waiting = self._store.read(lambda c: (active_version(c, name), count_outbox(c, name)))
        except StoreError as error:
            self._tell_trouble("looking", f"the database cannot be read: {error}", stops=False)
            return
        self._tell_trouble("looking")
        if active is not None and active.version != self.loaded.version:
            self._change_to(active.version)
        else:
            self._tell_trouble("version")
        for channel in get_args(Channel):
            count = waiting.get(channel, NOTHING_WAITS)
            self._metrics.outbox.labels(channel, "waiting").set(count.waiting)
            self._metrics.outbox.labels(channel, "dead").set(count.dead)
            age = 0.0 if count.oldest is None else (now() - count.oldest).total_seconds()
            self._metrics.outbox_age.labels(channel).set(age)
        dead = sum(count.dead for count in waiting.values())
        told = f"{dead} events were given up: see `indubio live outbox list --dead`" if dead else ""
        self._tell_trouble("outbox", told, stops=False)
        if self._looked - self._limited > TOLD_FOR:
            self._tell_trouble("machines")

    def _change_to(self, version: int) -> None:
        """Score with the version that was activated meanwhile, by the server for example, if it can be used."""
        told = ""
        try:
            loaded = self._registry.version(self.loaded.name, version)
            if _plan_name(_plan_of(loaded, self._settings)) == _plan_name(self._plan):
                self.loaded = loaded
                log.info("another version scores from now on", extra={"version": version})
            else:
                told = f"version {version} takes other windows: start `indubio live` again to use it"
        except (IndubioError, OSError) as error:
            told = f"version {version} cannot be used: {error}"
        self._tell_trouble("version", told and f"{told}; version {self.loaded.version} goes on", stops=False)


class EndedError(Exception):
    """The process is to end while disk or database cannot be written: what waits is in the journal or at the broker."""


def _plan_of(loaded: Loaded, settings: LiveSettings) -> StreamPlan:
    """How values become examples for a version of the model."""
    detector, taken = loaded.detector, loaded.model.input
    if not taken.numeric or len(taken.sides) > 1:
        raise ConfigError(f"{loaded.name}: live data is numbers of sensors, and this model takes categories or images.")
    reading = detector.reading_
    if taken.sides and (reading is None or reading.windowing is None):
        raise ConfigError(
            f"{loaded.name}: takes windows, but its folder does not say how they are cut. "
            "Fit it by `indubio fit --window`."
        )
    return StreamPlan.of(reading, tuple(taken.names), settings.ordering)


def _plan_name(plan: StreamPlan) -> str:
    return digest([plan.sensors, repr(plan.windowing), plan.long])


def _blocks(examples: Sequence[MachineExamples]) -> Iterator[list[MachineExamples]]:
    """The examples in blocks that are scored together; those of a machine stay in order."""
    block: list[MachineExamples] = []
    for one in examples:
        for first in range(0, len(one.start), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            block.append(replace(one, values=one.values[part], start=one.start[part], end=one.end[part]))
            if sum(len(known.start) for known in block) >= AT_ONCE:
                yield block
                block = []
    if block:
        yield block


def _only_one(folder: Path) -> IO[str]:
    """A lock on the folder, which ends with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ConfigError(f"{folder}: another `indubio live` works here. Give this one another --state.") from None
    return file
