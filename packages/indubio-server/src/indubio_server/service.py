"""`Service`: the models, the store and the threads between them."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from indubio import __version__
from indubio.errors import StoreError
from indubio_server.http import Metrics, RefusalError
from indubio_server.models import (
    HOUR,
    Batcher,
    DriftMonitors,
    ExampleBatch,
    ExampleOrigin,
    Loaded,
    Recorder,
    Registry,
    Result,
)
from indubio_server.plant import Plant, PlantFile
from indubio_server.server_settings import ServerSettings
from indubio_server.store import (
    AnchorPlaces,
    Filters,
    ServerStore,
    Status,
    append,
    count_by_machine,
    head,
    interrupt_jobs,
    keys_in_use,
    now,
    oldest_waiting,
    private_folder,
    ringing,
    warn_of_others,
)

if TYPE_CHECKING:
    from indubio_server.oidc_login import OidcLogin

log = logging.getLogger("indubio_server")
ANCHOR = "audit.anchor"
ANCHOR_EVERY = 60.0  # seconds
ANCHOR_AGAIN = 5.0  # seconds until a place that failed is tried again
SILENT = 10.0  # seconds without a commit, of which there is one every two seconds, after which the database hangs


class Service:
    """Everything behind the routes: scoring, recording, drift and the anchors of the audit trail.

    Args:
        store: what is remembered; closed by whoever opened it.
        sources: folder of each model, by name.
        state: folder for copies of the models' versions and the anchors of the audit trail.
        settings: how the server behaves.
        training: training data of models, by name, for training them anew.
        pinned: the sha256 that the source of a model must have, by name.
        plant: which machines stand in which line of which site; None for no plant.
        login: lets people log in without a key; None where they need one.
    """

    def __init__(
        self,
        store: ServerStore,
        sources: Mapping[str, Path],
        state: Path,
        settings: ServerSettings | None = None,
        training: Mapping[str, Path] | None = None,
        pinned: Mapping[str, str] | None = None,
        *,
        plant: PlantFile | None = None,
        login: "OidcLogin | None" = None,
    ) -> None:
        self.plant_file, self.login = plant or PlantFile(), login
        self.store, self.state = store, state
        self.training = dict(training or {})
        self.closing: list[Callable[[], None]] = []
        self.looking_after: list[Callable[[], None]] = []
        self.settings = settings or ServerSettings()
        private_folder(state)
        warn_of_others(state)
        files = [state / ANCHOR, *([] if self.settings.anchor_file is None else [Path(self.settings.anchor_file)])]
        self._anchors = AnchorPlaces(files, self.settings.anchor_url)
        self.metrics = Metrics(self.plant_file)
        self.registry = Registry(store, sources, state / "models", most_rows=self.settings.most_rows, pinned=pinned)
        store.write(interrupt_jobs)
        if self.plant.lines:
            self._note_plant()
        self._warn_of_unknown_sites()
        store.write(lambda c: append(c, "started", {"indubio": __version__, "models": self.registry.names}))
        self.recorder = Recorder(store, self.settings, self.metrics.overflow.inc)
        active = [self.registry.model(name) for name in self.registry.names]
        self.drift = DriftMonitors(store, self.metrics, self.settings.drift_alpha, active)
        self._batchers: dict[Loaded, Batcher] = {}
        self._ended, self._beat = threading.Event(), store.submit(_nothing)
        self._anchoring = threading.Thread(target=self._anchor_again, name="indubio-anchor", daemon=True)
        self._anchoring.start()

    def assess(
        self, loaded: Loaded, examples: ExampleBatch, origins: list[ExampleOrigin], top: int = 0
    ) -> "asyncio.Future[Result]":
        """Score examples and keep what is to be kept; the future is done when the answer may be given.

        Args:
            loaded: the version to score with.
            examples: what to score.
            origins: where each example came from.
            top: how many top features of anomalies and referrals to give.
        """
        if self.recorder.failing and not self.ready:
            raise RefusalError(503, "the database cannot be written, so nothing is scored.", retry_after="5")
        batcher = self._batchers.get(loaded)
        if batcher is None:  # only the event loop's thread comes here
            batcher = Batcher(loaded, self.recorder, self.settings, self.metrics, self.drift)
            self._batchers[loaded] = batcher
        return batcher.submit(examples, origins, top)

    @property
    def plant(self) -> Plant:
        """Which machines stand where, as the file has it now."""
        return self.plant_file.plant

    @property
    def ready(self) -> bool:
        """Whether requests for verdicts are answered."""
        silent = time.monotonic() - self.store.writer.last_commit > SILENT
        return not ((self.recorder.failing or silent) and self.settings.when_database_fails == "refuse")

    def measured(self) -> bytes:
        """The metrics as text, with those that are read from the store; blocks.

        Without a database the queue is not known (NaN), and all else is told: that is when somebody looks.
        """
        referred = Filters(since=now() - HOUR, until=now(), verdict="REFER")
        try:
            waiting, oldest, hour, rings = self.store.read(
                lambda c: (
                    count_by_machine(c, status=Status.WAITING),
                    oldest_waiting(c),
                    count_by_machine(c, referred) if self.plant.lines else {},
                    ringing(c),
                )
            )
        except StoreError:
            self.metrics.waiting.set(math.nan)
            self.metrics.oldest.set(math.nan)
            self.metrics.ringing.set(math.nan)
            self.metrics.database.set(0)
        else:
            self.metrics.waiting.set(sum(waiting.values()))
            self.metrics.count_lines(self.metrics.line_waiting, waiting)
            self.metrics.count_lines(self.metrics.line_referred, hour)
            self.metrics.count_lines(self.metrics.line_ringing, dict.fromkeys(rings, 1))
            self.metrics.oldest.set(0 if oldest is None else (now() - oldest).total_seconds())
            self.metrics.ringing.set(len(rings))
            self.metrics.database.set(not self.recorder.failing)
        return self.metrics.rendered()

    def anchor(self) -> bool:
        """Keep the head of the audit trail wherever it is to be kept; whether all of that worked."""
        failed = self._anchors.add(self.store.read(head))
        for why in failed:
            log.error("the audit trail could not be anchored", extra={"error": why})
        return not failed

    def close(self) -> None:
        """Answer and write all that waits, and stop."""
        self._ended.set()
        for end in self.closing:
            end()
        for batcher in self._batchers.values():
            batcher.close()
        self.drift.close()
        try:
            self.store.write(lambda c: append(c, "stopped", {}))
            self.anchor()
        except Exception:
            log.exception("the last audit entry could not be written")
        self.recorder.close()

    def beat(self) -> None:
        """Commit a transaction that writes nothing: what shows that the database answers where nobody asks."""
        if self._beat.done():
            self._beat = self.store.submit(_nothing)

    def follow(self) -> None:
        """Follow what other servers on the same store did: versions that were activated, jobs that were left."""
        self.registry.follow()
        for look in self.looking_after:
            look()

    def refresh_plant(self) -> None:
        """Follow a change of the plant file."""
        if self.plant_file.refresh():
            self._note_plant()
            self._warn_of_unknown_sites()

    def _note_plant(self) -> None:
        """Add an entry to the audit trail: who may see what depends on where machines stand."""
        lines = {line.place: [str(one) for one in line.machines] for line in self.plant.lines}
        self.store.write(lambda c: append(c, "plant read", {"lines": lines}))

    def _warn_of_unknown_sites(self) -> None:
        """A key for a site that the plant has not opens nothing; most likely one of the two is misspelt."""
        for key in self.store.read(keys_in_use).values():
            if unknown := (key.sites or frozenset()) - set(self.plant.sites):
                log.warning(
                    "a key names sites that are not in the plant", extra={"key": key.name, "sites": sorted(unknown)}
                )

    def _anchor_again(self) -> None:
        pause = ANCHOR_EVERY
        while not self._ended.wait(pause):
            pause = ANCHOR_AGAIN
            try:
                if self.anchor():
                    pause = ANCHOR_EVERY
            except Exception:
                log.exception("the audit trail could not be anchored")


def _nothing(connection: Connection) -> None:
    """Write nothing."""
