"""Batches of requests: the model scores all that wait at once, and no request waits for a timer.

While a batch is scored the next one gathers, so batches grow with the load by themselves. Beyond a limit of waiting
rows requests are refused: a queue that only grows helps nobody.

A batch is what the event loop reads until its turns bring nothing more. One that takes little time is scored where it
is, for threads that hand Python's lock to each other cost more than that; any other goes to a thread.
"""

import asyncio
import logging
import queue
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from indubio.errors import StoreError
from indubio_server.http import BusyError, Metrics
from indubio_server.models.drift_monitors import DriftMonitors
from indubio_server.models.model_inputs import ExampleBatch
from indubio_server.models.recorder import Recorder
from indubio_server.models.registry import Contributors, Loaded
from indubio_server.models.scored_batch import ExampleOrigin, ScoredBatch
from indubio_server.server_settings import ServerSettings

log = logging.getLogger("indubio_server")
MOST_AT_ONCE = 1024  # rows; larger batches are no faster
# Whether the event loop may score a batch is learned on batches up to this size, and true only of them.
SMALL = 64  # rows
QUIET_TURNS = 2  # a request is read from its connection in one turn, and comes here in the next
QUICK = 0.004  # seconds of CPU that a small batch may take in the event loop


@dataclass(kw_only=True, eq=False)
class WaitingRequest:
    """One request whose examples wait for the model.

    Args:
        examples: what to score.
        origins: where each example came from.
        top: how many top features of anomalies and referrals to give.
        done: gets the result.
    """

    examples: ExampleBatch
    origins: list[ExampleOrigin]
    top: int
    done: "asyncio.Future[Result]"


@dataclass(kw_only=True, eq=False)
class Result:
    """The verdicts of one request.

    Args:
        loaded: the version that scored it.
        columns: columns of the assessment as lists; "case" has the references of what was kept, else "".
        top: top features of each example, where they were asked for.
        kept: whether what was to be kept is durable.
    """

    loaded: Loaded
    columns: dict[str, list[Any]]
    top: list[Contributors | None]
    kept: bool


Delivery = tuple[WaitingRequest, Result | BaseException]


class Batcher:
    """Scores with one version of a model: requests gather in the event loop, and a thread takes the large batches.

    Args:
        loaded: the version.
        recorder: writes verdicts to the store.
        settings: of the server.
        metrics: counts batches and verdicts.
        drift: sees what was scored.
    """

    def __init__(
        self, loaded: Loaded, recorder: Recorder, settings: ServerSettings, metrics: Metrics, drift: DriftMonitors
    ) -> None:
        self._loaded, self._recorder, self._settings, self._metrics = loaded, recorder, settings, metrics
        self._drift = drift
        self._queue: queue.SimpleQueue[list[WaitingRequest] | None] = queue.SimpleQueue()
        self._gathered: list[WaitingRequest] = []  # this and the counts: only the event loop's thread changes them
        self._gathered_rows = 0
        self._gathered_before = 0  # requests that had gathered a turn ago
        self._quiet_turns = 0  # turns of the event loop since the last one came
        self._rows = 0  # that are not answered yet
        self._seconds = QUICK  # of CPU for a small batch, smoothed
        self._thread = threading.Thread(target=self._run, name=f"indubio-scorer-{loaded.name}", daemon=True)
        self._thread.start()

    def submit(self, examples: ExampleBatch, origins: list[ExampleOrigin], top: int) -> "asyncio.Future[Result]":
        """Score some examples; the future is done when the answer may be given."""
        count = len(origins)
        if self._rows and self._rows + count > self._settings.most_waiting:
            raise BusyError(f"{self._rows} rows wait for the model already.")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        self._rows += count
        if not self._gathered:
            loop.call_soon(self._hand_over)
        self._gathered.append(WaitingRequest(examples=examples, origins=origins, top=top, done=done))
        self._gathered_rows += count
        return done

    def _hand_over(self) -> None:
        """Score what has gathered, once the event loop brings no more: whatever waited is in it then."""
        count = len(self._gathered)
        self._quiet_turns = self._quiet_turns + 1 if count == self._gathered_before else 0
        self._gathered_before = count
        if self._quiet_turns < QUIET_TURNS and count < SMALL:
            asyncio.get_running_loop().call_soon(self._hand_over)
            return
        requests, rows = self._gathered, self._gathered_rows
        self._gathered, self._gathered_rows, self._gathered_before, self._quiet_turns = [], 0, 0, 0
        if self._seconds < QUICK and rows <= SMALL:
            self._score(requests)
        else:
            self._queue.put(requests)

    def close(self) -> None:
        """Score what waits, and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            requests: list[WaitingRequest] = []
            more = self._queue.get()
            while more is not None:
                requests += more
                if sum(len(one.origins) for one in requests) >= MOST_AT_ONCE or self._queue.empty():
                    break
                more = self._queue.get()
            ended = more is None
            if requests:
                self._score(requests)

    def _score(self, requests: list[WaitingRequest]) -> None:
        began = time.thread_time()
        loaded = self._loaded
        try:
            examples = ExampleBatch.joined([one.examples for one in requests])
            origins = [origin for one in requests for origin in one.origins]
            wanted = [one.top for one in requests for _ in one.origins]
            machines = [origin.machine for origin in origins]
            assessment, top = loaded.model.assess(examples, machines, wanted)
            batch = ScoredBatch(loaded, assessment, examples.inputs, origins, self._settings.control_share)
            self._metrics.scored(loaded.name, batch.columns, machines)
            self._drift.see(loaded, examples, batch.columns["p_value"])
        except Exception as error:  # noqa: BLE001 - it goes to whoever asked
            if len(requests) == 1:
                self._deliver([(requests[0], error)])
            else:
                for one in requests:  # one request's bad value is not the others' fault
                    self._score([one])
            return
        if len(origins) <= SMALL:
            self._seconds += 0.1 * (time.thread_time() - began - self._seconds)
        self._record(requests, batch, top)

    def _record(self, requests: list[WaitingRequest], batch: ScoredBatch, top: list[Contributors | None]) -> None:
        """Hand the batch to the recorder, and answer what need not wait for it."""
        ready: list[Delivery] = []
        waiting: list[tuple[WaitingRequest, Result]] = []
        unanswered: list[int] = []
        start = 0
        for request in requests:
            end = start + len(request.origins)
            columns = {name: values[start:end] for name, values in batch.columns.items()}
            result = Result(loaded=self._loaded, columns=columns, top=top[start:end], kept=True)
            if self._settings.answer_after == "all" or any(columns["case"]):
                waiting.append((request, result))
                unanswered += range(start, end)
            else:
                ready.append((request, result))
            start = end
        refused = unanswered if self._settings.when_database_fails == "refuse" else []
        written = self._recorder.record(batch, refused)
        if ready:
            self._deliver(ready)
        if waiting:
            written.add_done_callback(lambda done: self._written(done, waiting))

    def _written(self, done: "Future[None]", waiting: list[tuple[WaitingRequest, Result]]) -> None:
        error = done.exception()
        if error is not None and (self._settings.when_database_fails == "refuse" or not isinstance(error, StoreError)):
            self._deliver([(request, error) for request, _ in waiting])
            return
        if error is not None:
            for _, result in waiting:
                result.kept = False
                result.columns["case"] = [""] * len(result.columns["case"])
        self._deliver([*waiting])

    def _deliver(self, outcomes: list[Delivery]) -> None:
        """Give results or errors to those who wait, in the thread of their event loop."""
        loop = outcomes[0][0].done.get_loop()
        try:
            if asyncio._get_running_loop() is loop:
                self._give(outcomes)
            else:
                loop.call_soon_threadsafe(self._give, outcomes)
        except RuntimeError:  # the loop is closed: there is nobody left to answer
            log.warning("an answer came after the end", extra={"requests": len(outcomes)})

    def _give(self, outcomes: list[Delivery]) -> None:
        for request, outcome in outcomes:
            self._rows -= len(request.origins)
            if request.done.done():  # the client went away
                continue
            if isinstance(outcome, BaseException):
                request.done.set_exception(outcome)
            else:
                request.done.set_result(outcome)
