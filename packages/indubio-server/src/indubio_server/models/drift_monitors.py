"""Drift monitors: is what is scored still like the training data? One for every version that scores.

A thread of its own takes what was scored since it last looked, so that neither requests nor the model wait for it. What
it has seen is kept in the store every few seconds, and goes on from there after a restart; a crash loses those seconds.
"""

import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from indubio.drift import Drift, DriftMonitor, DriftTest
from indubio.errors import ConfigError, StoreError
from indubio_server.http import Metrics
from indubio_server.models.model_inputs import ExampleBatch
from indubio_server.models.registry import Loaded
from indubio_server.store import ServerStore, drift_state, keep_drift

log = logging.getLogger("indubio_server")
LOOK_EVERY = 0.25  # seconds; a look costs about the same for one example and for hundreds
KEEP_EVERY = 10.0  # seconds
MOST_WAITING = 10_000  # batches; beyond them examples are passed over, and counted


@dataclass(kw_only=True, eq=False)
class VersionDrift:
    """A version and its drift monitor.

    Args:
        loaded: the version.
        monitor: what it has seen.
        drift: what that says.
        kept: how many examples the kept state has seen.
        told: whether the alarm is in the audit trail.
    """

    loaded: Loaded
    monitor: DriftMonitor
    drift: Drift
    kept: int
    told: bool


class DriftMonitors:
    """The monitors of all versions that score, and the thread that updates them.

    Args:
        store: where the states are kept.
        metrics: to tell.
        alpha: largest probability of ever raising a false alarm, for a version.
        active: the versions to begin with.
    """

    def __init__(self, store: ServerStore, metrics: Metrics, alpha: float, active: Sequence[Loaded]) -> None:
        self._store, self._metrics, self._test = store, metrics, DriftTest(alpha=alpha)
        self._waiting: queue.SimpleQueue[tuple[Loaded, ExampleBatch, list[float]]] = queue.SimpleQueue()
        self._watched: dict[Loaded, VersionDrift] = {}
        for loaded in active:
            self._known(loaded)
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, name="indubio-drift", daemon=True)
        self._thread.start()

    def see(self, loaded: Loaded, examples: ExampleBatch, p_value: list[float]) -> None:
        """Take note of examples that were scored; returns at once."""
        if self._waiting.qsize() < MOST_WAITING:
            self._waiting.put((loaded, examples, p_value))
        else:
            self._metrics.drift_skipped.inc(len(examples))

    def watched(self) -> list[VersionDrift]:
        """Every version that is watched."""
        return list(self._watched.values())

    def close(self) -> None:
        """Update and keep the monitors a last time, and end the thread."""
        self._ended.set()
        self._thread.join()

    def look(self) -> None:
        """Update the monitors with all examples that wait."""
        batches: dict[Loaded, list[tuple[ExampleBatch, list[float]]]] = {}
        with self._lock:
            while not self._waiting.empty():
                loaded, examples, p_value = self._waiting.get()
                batches.setdefault(loaded, []).append((examples, p_value))
            for loaded, seen in batches.items():
                self._update(self._known(loaded), seen)

    def keep(self) -> None:
        """Write the states that have changed to the store."""
        with self._lock:
            for one in self.watched():
                if one.monitor.seen > one.kept:
                    self._keep(one)

    def _keep(self, one: VersionDrift) -> None:
        new = one.drift.alarm and not one.told
        alarm = {"drift": one.drift.to_plain()} if new else None
        self._store.write(lambda c: keep_drift(c, one.loaded.name, one.loaded.version, one.monitor.to_plain(), alarm))
        one.kept, one.told = one.monitor.seen, one.told or new

    def _update(self, watched: VersionDrift, seen: list[tuple[ExampleBatch, list[float]]]) -> None:
        detector, takes = watched.loaded.detector, watched.loaded.model.input
        data = takes.scoring_data(ExampleBatch.joined([examples for examples, _ in seen]))
        p_value: Float[np.ndarray, " examples"] = np.array([p for _, values in seen for p in values])
        rang = watched.drift.alarm
        watched.monitor = detector.monitored(data, p_value, watched.monitor)
        watched.drift = watched.monitor.drift()
        self._tell(watched)
        if watched.drift.alarm and not rang:
            log.warning("drift", extra={"model": watched.loaded.name, "drift": str(watched.drift)})

    def _known(self, loaded: Loaded) -> VersionDrift:
        if loaded not in self._watched:
            self._watched[loaded] = self._begun(loaded)
        return self._watched[loaded]

    def _begun(self, loaded: Loaded) -> VersionDrift:
        judge, state = loaded.model.judge, self._store.read(lambda c: drift_state(c, loaded.name, loaded.version))
        try:
            monitor = judge.drift_monitor(self._test, state)
        except ConfigError as error:
            log.error("drift is watched anew", extra={"model": loaded.name, "why": str(error)})
            monitor = judge.drift_monitor(self._test)
        drift = monitor.drift()
        begun = VersionDrift(loaded=loaded, monitor=monitor, drift=drift, kept=monitor.seen, told=drift.alarm)
        self._tell(begun)
        return begun

    def _tell(self, watched: VersionDrift) -> None:
        drift = watched.drift
        evidence = max((one.evidence for one in drift.series), default=0.0)
        told = {"alarm": drift.alarm, "evidence": evidence, "examples": drift.examples}
        for statistic, value in told.items():
            self._metrics.drift.labels(watched.loaded.name, watched.loaded.version, statistic).set(value)

    def _run(self) -> None:
        looks = 0
        ended = False
        while not ended:
            ended = self._ended.wait(LOOK_EVERY)
            looks += 1
            try:
                self.look()
                rings = any(one.drift.alarm and not one.told for one in self.watched())
                if ended or rings or looks % round(KEEP_EVERY / LOOK_EVERY) == 0:
                    self.keep()
            except StoreError:
                log.warning("what the drift monitors saw could not be kept yet")
            except Exception:
                log.exception("a fault of the drift monitors")
